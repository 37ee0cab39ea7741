// Package kv is a [segno.Store] in any key-value store that can create a key only if the key does not
// exist. [KV] is the interface, store/kv/redis is the implementation for Redis and Valkey, and
// store/kv/kvtest tests an implementation; its Map is the shortest one.
//
//	s, err := kv.Open(ctx, yours, kv.Options{})
//
// # How a commit is atomic
//
// A thread is a log of records with positions from 1. A record contains all that one commit changed,
// and where the thread is after it: head, tip, seq, turn and epoch. Creating the key of the next
// position is the commit, and the compare-and-swap: of two writers that saw the same head one creates
// it. All other values are written before, and mean nothing without the record:
//
//   - index entries, called look-ups in the code. They lead from a commit's id, a session, a pin or the
//     list of threads to a record, which confirms them. If the writer of an index entry lost or died, the
//     entry leads to nothing or to another commit, and readers skip it;
//   - new objects, each under its hash, and entries longer than 64 KB in parts.
//
// So a crash leaves values that nothing names, and never half a commit. The index entry of a commit's id
// must be the only one in its group, which prevents the use of an id in two threads. The caller repeats
// a commit with an unknown outcome with the same id: Commit finds the record, or makes it.
//
// The head key contains the state of the thread. Without a [Batcher] it is a hint, written after the
// record; a reader lists the log from there on. With a Batcher it is written together with the record,
// and a commit is one round trip if this store saw the thread's last commit; Head and Load of a whole
// line are one each.
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
// The part up to the '}' is the group of a key. A group is read, placed on a machine and expired as
// one. Ids are percent-encoded except for letters, digits, '-', '_' and '.'. If that is longer than 192
// characters the key has the SHA-256 after a '~', and the value the id. So keys are printable ASCII of at
// most 512 bytes, and different for different ids.
//
// A value is a version, a CRC-32C over key, version and content, and the content: its fields in order,
// those of records compressed by zstd. A value that does not match its checksum is
// [segno.KindCorrupt], and the error names the key; so is a record missing in a log.
//
// No value proves that another key must exist. If the KV loses the index entry of a commit, a session, a
// pin or a thread, the record is not found that way, without an error: a thread without its key in threads{}
// is missing from lists, and one without its key in open{} keeps its open questions out of lists by phase, such as
// an inbox. The thread itself can still be read. [Store.Check] finds these losses, because it reads the threads'
// own keys, and [Store.RebuildIndex] writes the entries again. An object is not found if the KV loses its key. A lost lease is
// free, and the next one has a higher epoch. A thread that lost its head key and its newest records
// ends before them, and a store that was replaced by an older copy is that copy. The KV itself must
// detect the losses that Check cannot find, for example by the checks of a replicated log.
//
// # Sealed stores
//
// With [Options].Key a value is its content, sealed to its key: it opens under no other key, in no
// other store, and not if a bit was changed. Sessions and objects are named by keyed hashes. The mark
// contains a random salt, from which and the user's key the store derives its keys, and a check value.
// It is written before all other values. If two programs make one store at the same moment, one with a
// key and one without, neither detects the other: make the store once before it is shared.
//
// # Order
//
// Seq, parents and lines depend on the log alone. Lists across threads are in the order of the writers'
// clocks, each of which is advanced beyond all times that the writer has seen. Nothing else depends on a
// clock.
//
// # Threads that expire
//
// With [Options].TTL a thread's group lives that long after each commit. A fork copies the line on
// which it begins into its own group, so that it outlives its source; without a TTL a fork is a
// pointer. Index entries and objects live twice as long from when they are written, and those of a thread
// are renewed by its first commit after one TTL has passed: they never expire before the thread. The
// clocks of writers must agree to much less than the TTL. The values of a deleted thread stay until the
// thread expires.
//
// # Limits
//
// The store does not keep the workspaces and operations of commits. It collects no garbage: without a TTL
// uncommitted objects stay, and deleted threads until
// [Store.Erase]. Erase overwrites and deletes values. Copies that the KV keeps are the task of its
// administrator: of Redis these are an append-only file until BGREWRITEAOF, a snapshot until the next
// one, replicas and backups.
package kv
