// Package file is a [segno.Store] that a person can read: a directory for each thread, which contains a
// log of JSON lines, one for each commit. Use it if a person will inspect the store with a pager, or
// for a backup that compares files. The store reads all logs when it is first used and keeps an index
// of them in memory; use store/sqlite for a program with very many threads. The store is not encrypted.
//
//	DIR/format.json             the version of the format
//	DIR/threads/NAME/log.jsonl  a thread; NAME is its id, escaped
//	DIR/threads/NAME/torn-*     the incomplete record of an interrupted write
//	DIR/workspaces/NAME.json    a workspace, without its state
//	DIR/objects/ab/abcd…        an object, named by its SHA-256
//	DIR/staged/                 large objects of batches that no commit has brought yet
//	DIR/changes                 how long each log is
//	DIR/lock                    empty; a writer locks it
//
// Everything except changes is durable when a call returns. Files whose names begin with a dot are left
// over from interrupted writes.
//
// # Names
//
// In names of threads and workspaces, each byte other than a-z, 0-9, '-', '_' and '.' is written as '%'
// and two hexadecimal digits. So are a dot at either end, and the first letter of a name that Windows
// reserves. A name of more than 200 bytes is cut to 100, and "%~" and the first 32 hexadecimal digits
// of the id's SHA-256 follow. Two ids have different names, even on a disk that ignores case.
//
// # Logs
//
// A line is one JSON object without a line break in it:
//
//		{"crc":"1f2e3d4c","n":0,"format":1,"order":…,"commit":{…},"digest":"…","head":{…},"turn":3,"entries":[…]}
//
//	  - crc is the CRC-32C of the bytes between the comma after it and the end of the line.
//	  - n is the number of the record in its log, from 0. Record 0 creates the thread.
//	  - order is higher than that of every earlier record of the store.
//	  - A record is a commit, a "lease" (one without an owner releases it) or "hidden", which deletes the
//	    thread. A workspace's file has one record, which is a "workspace".
//	  - head is the thread's head after the commit, and the phase of its newest turn. It has no link,
//	    because the commits have the links.
//
// Strings that JSON cannot represent are escaped: a byte that is not UTF-8 becomes U+FDD0 and two
// hexadecimal digits, and U+FDD0 is written twice. An entry's body is JSON, or a string in text if it is nested deeply, or if
// encoding would change the body's bytes.
//
// # Writing
//
// A writer takes the exclusive flock(2) of lock, appends a line to the log, syncs the log, and then
// appends a line to changes, which it does not sync. A reader takes no lock. It reads the new lines of
// changes, and each log up to the length in changes.
//
// If a record is not in changes, the caller never received an acknowledgement, or a power cut lost the
// line in changes. A process that opens the store, and a writer before it appends, adopt such a record:
// they sync the log and announce the record.
//
// # Damage
//
// The end of a log may be the beginning of a record, followed by zeros or nothing, because a write was
// interrupted. Readers ignore it, and the next writer copies it to a torn file and removes it from the
// log. Every other unreadable record is damage, and so is a log that is shorter than changes records.
// All calls about that thread then return [segno.KindCorrupt], and nothing is appended to the log,
// until the user repairs it. Unreadable lines of changes are ignored, and changes may be removed.
//
// A lost object or workspace is reported as not found, because nothing else records that its file must
// exist. The store cannot detect that it was replaced by an older copy.
//
// # Erasing
//
// Erase removes objects, and rewrites the logs of deleted threads without their content. Ids, digests
// and heads stay. A line of changes makes every process read all logs again.
package file
