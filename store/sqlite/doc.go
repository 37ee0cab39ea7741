// Package sqlite is segno's default store: one SQLite database for threads, commits and small objects, and
// append-only packs beside it for large amounts of objects. Use it where all processes run on one machine.
// Package store/postgres is for many machines.
//
//	FILE               the database
//	FILE.packs/*.pack  packs; [Options.Packs] names another directory
//
// The store does not touch other files in these directories. The database is in WAL mode with synchronous
// FULL, so an acknowledged call survives a kill and a power failure. A commit that is [segno.Batched] has
// synchronous NORMAL and may not survive a power failure. The store hashes, compresses and writes packs before
// a transaction begins. The schema is in schema.go; its version is the database's user_version.
//
// # Sealed stores
//
// With [Options.Key], each record is sealed to its place: the record of a thread to the thread's id, those of
// a commit to its thread and its parent, a link to its number, an object to its name. A record cannot be
// opened in another row or another store, so a node proves which commit it follows. Sessions, terms, paths
// and the names of objects, by which queries find rows, are keyed hashes. A separate table contains the mark
// of the key: a salt and a check value. A segno that does not support seals refuses the user_version. Other
// columns, such as seq, are neither encrypted nor sealed.
//
// # Damage
//
// SQLite has no checksums for its pages. The store adds them: internal/checksumvfs. A statement that reads a
// damaged page fails, and the error is [segno.KindCorrupt]. Records have checksums, too, and the name of an
// object is its hash. When the store reads a row, it compares the other columns with a second copy or a
// checksum: see verify.go. If an index lacks a key, the store searches the rows before it returns
// [segno.KindNotFound].
//
// The store cannot detect these kinds of damage, because the result looks like a state that an undamaged
// store may have:
//
//   - The database and its WAL, or a page of the database, were replaced by an older copy.
//   - The end of the WAL was damaged or cut off, as after a power failure. The last commits are lost, and only
//     those. The store detects that a whole WAL is missing as long as the file FILE-shm exists, which is until the
//     last process closes the store.
//   - The WAL was damaged while a process had it open.
//
// Pages have no checksums in a store that was created before version 3 of the schema, or by [OpenDB] without
// [VFS]. In such a store, only rows are compared, and more kinds of damage are undetected: a term, a pin, an
// object's name or a workspace's key is missing, a list of checkpoints lacks those of a damaged part of an
// index, a list of threads lacks those of a damaged page, or a lease or a deletion was written before rows
// had a checksum. Another program leaves pages without checksums if it closes the database after all
// processes of segno were killed: see internal/checksumvfs.
//
// Other programs may read the database and copy it, with its WAL. If one of them changes a page, the page
// counts as damaged.
//
// [Store.Check] also makes SQLite compare its indexes with the rows. This reads each page.
//
// # Packs
//
// A pack is written once, then synced, then its directory is synced, and it never changes. It becomes part of
// the store in the transaction of the commit that names it. Before that nothing refers to it. Only
// [Store.Collect], which segno gc calls, removes a pack without references, once it is an hour old. Such a
// pack is not reported. A pack is
//
//	"segnopk1"  born                        8 bytes each
//	records     name  encoding  size  length  stored bytes
//	index       name  encoding  size  at  length     for each record, sorted by name
//	tail        where the index begins  how many records  SHA-256 of the index  "segnopk1"
//
// Born is in seconds since 1970. Born, the position of the index and the number of records have 8 bytes,
// little-endian. A name is the 32 bytes of the object's SHA-256, and an encoding is one byte. Size (of the
// object), length (of the stored bytes) and at (their position in the file) are unsigned varints. The records
// alone are enough to find every object. If the tail or index of a pack is damaged, the pack is damaged, or
// its writer did not finish it. The name of a record proves that the record is undamaged.
//
// # Compression
//
// Encoding 0 means the plain bytes, 1 a zstd frame, 2 an S2 block, 3 sealed bytes, which begin with the
// encoding inside the seal. Records of the database and the first 4 MiB of a batch are compressed by zstd at
// its fastest level, with a dictionary of text that agents write (internal/store/record/dictionary.go). The rest of
// a longer batch is compressed by S2, up to 32 MiB: for the 15,000 files and 232 MB of the Go tree, S2 takes
// 0.36 s of one core and leaves 44 %, zstd takes 1.0 s and leaves 33 %, and reading and hashing take 0.3 s to
// 0.5 s. The rest of an even longer batch, for example of a large first snapshot, is stored plain, in packs
// of about 4 MiB that are named ID-plain. Several batches of one caller can count as one longer batch. [Store.CompressPacks] replaces a plain pack with one named
// ID-RANDOM once it is an hour old. An object that would not become at least an eighth shorter remains plain.
package sqlite
