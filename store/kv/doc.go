// Package kv is a [segno.Store] in any key-value store that can create a key only
// if it is not there. See [KV] for what it needs; store/kv/kvtest holds a third
// party's to it, and store/kv/redis is one in Redis or Valkey.
//
//	s, err := kv.Open(kv.NewMap(nil), kv.Options{})
//
// # How a commit is atomic
//
// A thread is a log of records with positions from 1. A record says all that one
// commit changed and where the thread stands after it: head, tip, seq, turn and
// epoch. Creating the key of the next position is the commit, and the
// compare-and-swap: of two writers that saw the same head one creates it. All else
// is written before, and is nothing without the record:
//
//   - the look-ups that lead from what crosses threads to the record: a commit's id,
//     a session, a pin, the list of threads. A look-up is proved by the record it
//     leads to. One whose writer was too late or died leads nowhere, or to another
//     commit, and is passed over;
//   - new objects, each under its hash, and entries longer than 64 KB in pieces.
//
// So a crash leaves values that nothing names, and never half a commit. The look-up
// of a commit's id must also be alone in its place, which keeps an id from being
// used in two threads. A commit whose outcome is unknown is made again with the same
// id: it finds itself, or is made.
//
// The head key holds where the thread stands. Without a [Batcher] it is a hint, put
// behind the record; a reader lists the log from there on, and all of the log if it
// is missing. With one it is written together with the record and exact, and a
// commit is one round trip as long as this store saw the thread's last commit;
// Head and Load of a whole line are one each.
//
// # Keys
//
//	t{thread}head              where the thread stands
//	t{thread}log/<20 digits>   a record
//	t{thread}old/<20 digits>   a record that a fork inherited and copied
//	t{thread}body/<tag>/…      long entries
//	t{thread}lease             who holds the thread
//	c{commit}<thread>/…        a commit's place
//	s{session}<thread>/…       a place where a session became a thread's
//	o{hash}kept  o{hash}data/… an object; bulk that waits for its commit is data alone
//	p{pack}pack                what a batch staged outside its result
//	threads{}<thread>          all threads there are
//	open{}<thread>             a thread whose turn may not be over
//	phases{}made               open{} has the threads of older versions, too
//	seal{}mark                 what a sealed store knows its key by
//	pins{}<thread>/…           the places where pins were set and taken off
//
// What is up to the '}' is a key's group: it is read, kept on one machine and
// expired as one. Ids are percent-encoded but for letters, digits, '-', '_' and '.';
// of one that would be longer than 192 characters the SHA-256 stands there behind a
// '~', and the id itself in the value. So keys are printable, at most 512 bytes, and
// no two ids make one.
//
// A value is a version, a CRC-32C over key, version and content, and the content:
// fields in their order, those of records packed by zstd. What does not match its
// sum is [segno.KindCorrupt] and names the key; so is a record missing in a log.
//
// Nothing says of other keys that they must be there. If the key-value store loses the
// look-up of a commit, a session, a pin or a thread, what it led to is not found; so is an
// object whose key is lost. A lost lease is free, and the next one has a higher epoch. A
// thread that lost its head key and its newest records ends before them, and a store that was
// replaced by an older copy is that copy. Checks of the key-value store's own, such as
// those of a replicated log, are what finds these.
//
// # Sealed stores
//
// With [Options].Key a value is the content sealed to its key: it opens under no other
// key, in no other store, and not if a bit of it was changed. What a session or an object
// is called stands in keys as a keyed hash. The mark holds a random salt, from which and
// the user's key the store's own keys are made, and a check value; it is written before
// anything else. Two that make one store at the same moment, one with a key and one
// without, are not kept apart: make it once before it is shared.
//
// # Order
//
// Seq, parents and lines come from the log alone. Lists across threads are in the
// order of the writers' clocks, each pushed on past what it has seen; nothing else
// depends on a clock.
//
// # Threads that expire
//
// With [Options].TTL a thread's group has that long to live after each commit, all
// of it or none. A fork copies the line it begins on into its own group, so that it
// outlives its source, and costs what that line costs; without a TTL it is a pointer.
// Look-ups and objects get twice the TTL when they are written, and all of a thread's
// get it again at the first commit after one TTL has passed: they never die before
// the thread, and may be left for a while after it. The clocks of writers must agree
// to much less than the TTL. A deleted thread is hidden until its time is over.
//
// # What it does not do
//
// It knows no workspaces: what a commit says of them and their operations is not
// kept. Nothing is collected: without a TTL uncommitted objects stay, and what was
// deleted until [Store.Erase]. Erase overwrites and deletes values. Copies that the key-value
// store keeps are its administrator's task: of Redis these are an append-only file until
// BGREWRITEAOF, a snapshot until the next one, replicas and backups.
package kv
