// Package database saves and restores development databases that are attached to a workspace.
//
// [Attach] adds the databases to a [segno.Workspace]. Its snapshots then have a document of the
// format "databases/1" in addition to the tree, and its moves write databases as they write files.
// The document is JSON:
//
//	{"format": "databases/1", "databases": [
//	  {"name": "dev.db", "kind": "sqlite", "page_size": 4096, "pages": 12, "content": HASH}]}
//
// The entry of a database that does not exist has "missing". The entry of one that could not be read has "unread" with
// the reason. Content is an object with the hashes of the groups, and each group is an object with the hashes of up to
// 256 pages. Each page is an object. So after a change of one page, a snapshot adds only the page, its group, the
// content and the document.
//
// The content of a PostgreSQL database is a JSON object after the line "segno postgres 1". It names texts: the
// statements that create the database's objects, and the rows of each table as COPY writes them. These texts are split
// into objects at line ends. As for pages, lists of hashes name the objects. A package that has the driver implements
// [Postgres].
//
// The saved content of a SQLite database lacks some bytes that must never return to an earlier
// value while programs use the database: the change counter, by which clients notice changes, the
// version of the library, and the journal mode.
package database
