// Package kv is a [segno.Store] in any key-value store that can create a key only if the key does not exist.
// [KV] is the interface, store/kv/redis is the implementation for Redis and Valkey, and store/kv/kvtest tests
// an implementation. Its Map is the shortest implementation.
//
//	s, err := kv.Open(ctx, yours, kv.Options{})
//
// # How a commit is atomic
//
// A thread is a log of records with positions from 1. A record contains everything that one commit changed,
// and the state of the thread after it: head, tip, seq, turn and epoch. Creating the key of the next position
// is both the commit and the compare-and-swap: if two writers have read the same head, only one of them
// creates the key. All other values are written before, and have no effect without the record:
//
//   - index entries, called look-ups in the code. They lead from a commit's id, a session, a pin or the
//     list of threads to a record, which confirms them. If the writer of an index entry lost or died, the
//     entry leads to nothing or to another commit, and readers skip it;
//   - new objects, each under its hash, and entries longer than 64 KB in parts.
//
// A crash therefore leaves values that no record names, but never half a commit. The index entry of a
// commit's id must be the only one in its group, which prevents the use of an id in two threads. If the
// outcome of a commit is unknown, the caller repeats it with the same id: Commit finds the record, or makes
// it.
//
// The head key contains the state of the thread. Without a [Batcher] it is a hint, written after the record,
// and a reader lists the log from there on. With a Batcher it is written together with the record. A commit
// is then one round trip if this store has read the thread's last commit. Head is one round trip, and so is
// Load of a whole line.
//
// # Keys
//
//	t{thread}head              the state of the thread
//	t{thread}log/<20 digits>   a record
//	t{thread}old/<20 digits>   a record that a fork inherited and copied
//	t{thread}body/<tag>/…      long entries
//	t{thread}lease             the owner of the thread
//	c{commit}<thread>/…        the position of a commit
//	s{session}<thread>/…       a position at which a session joined the thread's chain
//	o{hash}kept  o{hash}data/… an object, and its bytes if they are bulk
//	threads{}<thread>          all threads
//	open{}<thread>             the threads that may have an open turn
//	phases{}made               a mark: open{} has the threads of older versions, too
//	seal{}mark                 identifies the key of a sealed store
//	pins{}<thread>/…           the positions at which pins were set and removed
//	using{}<commit>            a commit under way that refers to other threads or to objects
//	erasing{}by                an erasure under way; it and those commits exclude each other
//
// The part up to the '}' is the group of a key. A group is read, placed on a machine and expired as a unit.
// Ids are percent-encoded except for letters, digits, '-', '_' and '.'. If the result is longer than 192
// characters, the key contains the SHA-256 after a '~', and the value contains the id. Keys are thus
// printable ASCII of at most 512 bytes, and different for different ids.
//
// A value is a version, a CRC-32C over key, version and content, and the content: its fields in order. The
// fields of records are compressed by zstd. If a value does not match its checksum, the error has
// [segno.KindCorrupt] and names the key. The same holds for a record that is missing in a log.
//
// No value proves that another key must exist. If the KV loses the index entry of a commit, a session, a pin
// or a thread, the store no longer finds the record that way and reports no error. A thread without its key
// in threads{} is missing from lists. The open questions of a thread without its key in open{} are missing
// from lists by phase, such as an inbox. The thread itself can still be read. [Store.Check] finds these
// losses, because it reads the threads' own keys, and [Store.RebuildIndex] writes the entries again. An
// object whose key is lost is not found. A lost lease is free, and the next one has a higher epoch. A thread
// that lost its head key and its newest records ends before them, and the store cannot detect that it was
// replaced by an older copy. The KV itself must detect the losses that Check cannot find, for example by the
// checks of a replicated log.
//
// # Sealed stores
//
// With [Options].Key, a value is its content, sealed to its key. It cannot be opened under another key, in
// another store, or after any bit was changed. Sessions and objects are named by keyed hashes. The mark
// contains a check value and a random salt. The store derives its keys from the user's key and the salt. The
// mark is written before all other values. If two programs make one store at the same moment, one with a key
// and one without, neither detects the other: make the store once before it is shared.
//
// # Order
//
// Seq, parents and lines depend only on the log. Lists across threads are in the order of the writers'
// clocks. Each writer advances its clock beyond all times that it has read. Nothing else depends on a clock.
//
// # Threads that expire
//
// With [Options].TTL, a thread's group lives that long after each commit. A fork copies the line on which it
// begins into its own group, so that it outlives its source; without a TTL, a fork is a pointer. Index
// entries and objects live twice as long, from the time of writing, and the first commit of a thread after
// one TTL renews those of the thread. They therefore never expire before the thread. The clocks of writers
// must agree to much less than the TTL. The values of a deleted thread stay until the thread expires.
//
// # Limits
//
// The store does not keep the workspaces and operations of commits. It does not collect garbage: without a
// TTL, uncommitted objects stay, and deleted threads stay until [Store.Erase]. Erase overwrites and deletes
// values. The administrator of the KV must remove the copies that the KV keeps. In Redis, these are an
// append-only file until BGREWRITEAOF, a snapshot until the next one, replicas and backups.
package kv
