// Package postgres is segno's store for many machines: one PostgreSQL database for
// everything small, and a bucket for what is large.
//
// A store is a schema of the database. All programs that open it see one store, with
// the same guarantees as one process has: what a call acknowledged is on the server's
// disk, unless the server is told to answer earlier, and of many writers on one head one
// wins. PostgreSQL 12 or later has all that is used; the tests run on what Debian has, 15.
// Nothing needs an extension, a session's state or a notification, so a connection
// pooler in transaction mode may stand between, if the URL says
// default_query_exec_mode=exec or cache_describe. Without a pooler
// plan_cache_mode=force_generic_plan in the URL spares a young store some planning.
//
// # Round trips
//
// A commit is one statement, whatever it carries: it compares and moves the head,
// checks the epoch and the commit's id, and inserts all rows, or none. A commit that is
// refused takes a second statement, which says why. Head is one statement and Load
// another, however long the line and however many forks it passes through. A
// connection prepares a statement when it uses it first, which is one more round trip.
//
// # Bodies
//
// Objects and entries that take more than 256 KB as they are kept are bodies: they are
// written to the bucket before the commit that names them, or without a bucket to a
// table. Bodies are never written over: their names hold the SHA-256 of what is in
// them, when they were written, and a random part. One that no row names is dropped by a
// collection after a day; a commit that is made a day later than its objects were
// staged is refused.
//
// # Erasing
//
// [Store.Erase] deletes rows, and objects of the bucket. PostgreSQL keeps the bytes of
// deleted rows elsewhere, and removing them there is the database administrator's task: in
// the tables until VACUUM FULL rewrites them (VACUUM alone only lets other rows take their
// place), in the write-ahead log until its segments are recycled, and in replicas, archives
// of the log and backups. A bucket that keeps versions of its objects keeps theirs.
//
// # Sealed stores
//
// With [Options.Key] each record is sealed to its place: a thread's id, a commit's with
// its thread and its parent, an object's name. So it opens in no other row and in no
// other store, and a node proves what it follows. What rows are looked up by, sessions, terms,
// paths, objects, are keyed hashes. The store's mark, a salt and a check value, is in a
// table of its own, and its version is one that a segno without seals refuses. What
// rows say in the clear, such as seq, is not sealed to them.
//
// # Damage
//
// Each record has a checksum, and what a record, a head or a number says must be there is
// [segno.KindCorrupt] if it is not. The rest of a row, such as seq or a lease, and the
// indexes are PostgreSQL's to keep: make the cluster with data checksums. A store that was
// replaced by an older copy is that copy.
//
// # Lost connections
//
// A connection that ends in the middle of a commit leaves it unknown whether the commit
// was made. Commits are known by their id, so the store asks again and gets either the
// result or a place to try anew, until [Options.Patience] or the context ends. Only then
// is the error [segno.KindIO] with a hint to repeat the commit; the error
// [segno.KindCancelled] always means that nothing was written.
package postgres
