// Package postgres is segno's store for many machines: a PostgreSQL database, and a bucket for large objects.
//
// A store is a schema of the database. All programs that open the schema share one store, with the guarantees
// of a store in one process. An acknowledged call is on the server's disk, unless the server is configured to
// answer earlier. If several writers expect the same head, one succeeds. The store needs PostgreSQL 12 or
// later; the tests use Debian's version, 15. It needs no extension, no session state and no notification. A
// connection pooler in transaction mode may therefore be used, if the URL contains
// default_query_exec_mode=exec or cache_describe. Without a pooler, plan_cache_mode=force_generic_plan in the
// URL saves a new store some planning.
//
// # Round trips
//
// A commit is one statement: it compares and moves the head, compares the epoch and the commit's id, and
// inserts either all rows or none. If a commit is refused, a second statement reads the reason. Head is one
// statement and Load is another, regardless of the length of the line and the number of forks that it passes
// through. A commit with a function of [Options.InCommit] takes three more: BEGIN, the function, and COMMIT. The first
// use of a statement on a connection prepares it, which is one more round trip.
//
// # Bodies
//
// Objects and entries with an encoding of more than 256 KB are bodies: before the commit that names them, the
// store writes them to the bucket, or to a table if there is no bucket. A body is never overwritten: its name
// contains the SHA-256 of its bytes, the time when it was written, and a random part. A collection deletes
// the bodies that no row names after a day. Therefore a commit is refused if its objects were staged more
// than a day ago.
//
// # Erasing
//
// [Store.Erase] deletes rows, and objects of the bucket. PostgreSQL keeps the bytes of deleted rows elsewhere, and
// the database administrator must remove them there: from the tables with VACUUM FULL (VACUUM alone only lets other
// rows overwrite them), from the write-ahead log when its segments are recycled, and from replicas, archives of the
// log and backups. A bucket that keeps versions of its objects keeps the deleted ones.
//
// # Tenants
//
// With [Options.Tenant], a schema contains many stores that see nothing of each other. PostgreSQL separates their rows with
// row-level security: a policy compares the column tenant with the setting segno.tenant, which each statement sets for its
// own transaction. [Owner] creates, lists and deletes tenants, and grants the privileges that programs need. Any role that
// can set segno.tenant can act for each tenant without a login of its own; docs/tenants.md describes what that means.
//
// # Backups
//
// A dump of the database with pg_dump is a store of one moment. Copy the bucket before and after it, so that the copy has
// every body that the dump names, although a collection deletes bodies meanwhile; docs/backup.md has the steps. For a copy
// of the database that uses the original's bucket, call [Owner.NewID] first. [Owner.Migrate] changes the schema to an
// older version, or back.
//
// # Sealed stores
//
// With [Options.Key], each record is sealed to its place: the record of a thread to the thread's id, those of
// a commit to its thread and its parent, an object to its name. A record cannot be opened in another row or
// another store, so a node proves which commit it follows. Sessions, terms, paths and the names of objects,
// by which queries find rows, are keyed hashes. A separate table contains the mark of the key: a salt and a
// check value. A segno that does not support seals refuses the version. Other columns, such as seq, are
// neither encrypted nor sealed.
//
// # Damage
//
// Each record has a checksum. A missing row that a record, a head or a number refers to is [segno.KindCorrupt].
// PostgreSQL protects the other columns, such as seq or a lease, and the indexes: create the cluster with data
// checksums. A store cannot detect that it was replaced by an older copy.
//
// # Lost connections
//
// If a connection ends during a commit, the client does not know whether the commit was applied. Because
// commits have ids, the store asks again until [Options.Patience] or the context ends: it gets the result of
// the commit, or it may retry. After that, the error is [segno.KindIO] with the hint to repeat the commit.
// The error [segno.KindCancelled] always means that nothing was written.
package postgres
