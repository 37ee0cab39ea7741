// Package file is a [segno.Store] that a person can read: a directory per
// thread, and in it a log of JSON lines, one a commit.
//
//	DIR/format.json             which format this is
//	DIR/threads/NAME/log.jsonl  a thread; NAME is its id, escaped
//	DIR/threads/NAME/head.jsonl how long the log is at least
//	DIR/threads/NAME/torn-*     what was cut off the log's end after a crash
//	DIR/workspaces/NAME.json    what is known of a workspace, but for its state
//	DIR/objects/ab/abcd…        objects, each named by its SHA-256
//	DIR/staged/                 objects of batches that no commit has taken yet
//	DIR/changes                 a cache: which commit is in which thread
//
// It takes no key: it is there to be read.
//
// Everything but changes is durable when a call returns. Strays that begin with a
// dot are of calls that were broken off.
//
// # Names
//
// In the names of threads and workspaces, a-z, 0-9, '-', '_' and '.' stand for themselves
// and every other byte is '%' and two hexadecimal digits; so are a dot at either
// end and the first letter of a name that Windows reserves. A name that would be
// longer than 200 bytes is its first 100, "%~" and the first 32 hexadecimal digits
// of the id's SHA-256. No two ids have one name, on a disk that ignores case
// neither; and the id is in the log.
//
// # Log
//
// A line is one JSON object without a line break in it:
//
//	{"crc":"1f2e3d4c","brief":412,"n":0,"format":1,"order":…,"commit":{…},"digest":"…","head":{…},"turn":3,"entries":[…]}
//
// crc is the CRC-32C of all between the comma behind it and the end of the line, brief
// is how many bytes lie between the comma behind it and the entries (or the closing
// brace if there are none), n is the record's number in its log, from 0. Record 0 has
// the version of the format and creates the thread. order puts records of all
// threads in one order: later than all its writer knew, and no earlier than its
// clock. A record is a commit, a lease (one without an owner is a release) or
// "hidden". head is the thread's head after it and the phase of its newest turn (a
// segno.Phase; none is not known), but for the newest link of the chain, which the links of
// the commits tell. A workspace's file is one such line,
// of record 0.
//
// Strings that JSON cannot hold are escaped: a byte that is no UTF-8 is U+FDD0 and
// two hexadecimal digits, U+FDD0 itself is written twice. An entry's body is JSON as
// it is; one whose bytes are not compact stands as a string in text instead.
//
// Logs are only appended to: under an exclusive flock(2) of the log, one write, one
// fsync. Who reads what another process appended does so under a shared one. A
// thread's directory is made beside and renamed, with its first record in it: a
// directory without a record has lost its log.
//
// # Damage
//
// A record that was acknowledged is on disk to its last byte, the line break. So an
// end of a log that is a beginning of a record, or that and zeros, was never
// acknowledged: readers pass it over, and the next writer copies it into a torn
// file before it is cut off. The thread's head file tells such an end from that of a
// log that was truncated or zeroed later: it holds the number of records, the bytes and
// the checksum of the last record, and is written before a record is acknowledged. A
// log that has less than its head is damaged. A log of an older version has no head
// file; its next record writes one.
//
// Any other record that does not read as it was written is damage. The thread returns
// [segno.KindCorrupt] until the user has dealt with the damage; the store appends
// nothing behind it.
//
// Objects and workspaces that do not read as they were written are damaged too. Nothing says
// that their files must be there: one that was lost is not found. [Store.Check] reads
// everything there is and names the checkpoints whose objects are lost. A store that was
// replaced by an older copy is that copy.
//
// # Erasing
//
// [Store.Erase] removes objects, and writes the logs of deleted threads again. What goes is
// taken out of a record, and spaces behind its fields keep its length; brief counts them,
// with zeros in front of it. Ids, digests and checksums stay.
//
// # Changes
//
// changes has a line ["commit","thread",order,at,end] for each record, written
// before the record itself: so a process sees with one look whether another did
// something, and finds a commit without reading every log. What it says is looked
// up in the logs, and what it lacks is found there; it may be removed, and is
// written again.
package file
