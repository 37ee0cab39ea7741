// Package sqlite is segno's default store: one SQLite database per user for
// everything small, and append-only packs beside it for bulk.
//
//	FILE               threads, commits, links, workspaces, operations; small objects
//	FILE.packs/*.pack  bulk; [Options.Packs] names another directory
//
// Other files in these directories belong to others. The database is in WAL mode with
// synchronous FULL: what a call acknowledged survives a kill and a power cut. All
// hashing, compressing and writing of packs is done before the one writer is
// asked for. The schema is in schema.go; its version is the database's
// user_version.
//
// # Sealed stores
//
// With [Options.Key] each record is sealed to its place: a thread's id, a commit's with
// its thread and its parent, a link's number, an object's name. So it opens in no other
// row and in no other store, and a node proves what it follows. What rows are looked up
// by, sessions, terms, paths, objects, are keyed hashes. The store's mark, a salt and a
// check value, is in a table of its own, and the user_version is one that a segno
// without seals refuses. What rows say in the clear, such as seq, is not sealed to them.
//
// # Damage
//
// SQLite has no checksums of its pages. Records have their own, objects are known by their
// hash, and what a row says beside its record is compared with a second copy or has a
// checksum when it is read: see verify.go and rowsum.go. What does not agree is
// [segno.KindCorrupt], and a key that an index lacks is looked for in the rows before
// it is not found. These damages look like a state that a sound store may have:
//
//   - A database that was replaced by an older copy of itself, with its log.
//   - A log whose end is damaged or cut off: so is the log after a power cut. Its last commits
//     are lost, and only those. A log that is lost as a whole is found out as long as the file
//     FILE-shm is there, which is until the store is closed in order.
//   - A term or a pin that is lost: a list of checkpoints by session, key or pin is without
//     that checkpoint. Lists of threads and of their checkpoints are not affected.
//   - A lease and a deletion that were written before rows had a checksum.
//
// [Store.Check] has SQLite compare its indexes with the rows as well.
//
// # Packs
//
// A pack is written once, synced once, its directory after it, and never changed.
// It becomes part of the store in the transaction of the commit that brings it;
// until then nothing refers to it, and after an hour a collection may remove it.
// A pack is
//
//	"segnopk1"  born                        8 bytes each
//	records     name  encoding  size  length  stored bytes
//	index       name  encoding  size  at  length     for each record, sorted by name
//	tail        where the index begins  how many records  SHA-256 of the index  "segnopk1"
//
// Born is in seconds since 1970. It, where the index begins and the count are
// 8 bytes, little-endian; a name is the 32 bytes of the object's SHA-256; an
// encoding is one byte; size (of the object), length (of the stored bytes) and at
// (where they begin in the file) are unsigned varints. The records alone are
// enough to find every object again; a pack whose tail or index is not sound was
// not finished, or is damaged. That a record is sound its name proves.
//
// # Compression
//
// Encoding 0 is the bytes themselves, 1 a zstd frame, 2 an S2 block, 3 sealed bytes, which
// begin with the encoding of what was sealed. Records of the
// database and the first 4 MiB of a batch are zstd at its fastest level, with a
// dictionary of what agents write (dictionary.go). A batch that goes on is S2, up to
// 32 MiB: on the 15,000 files and 232 MB of the Go tree S2 takes 0.36 s of one core and
// leaves 44 %, zstd takes 1.0 s and leaves 33 %, and reading and hashing take 0.3 s to
// 0.5 s. What follows, most of a large first snapshot, is stored plain, in packs of
// about 4 MiB that are named ID-plain. [Store.CompressPacks] replaces such a pack by one
// named ID-RANDOM once it is an hour old. What does not get an eighth shorter is kept plain.
package sqlite
