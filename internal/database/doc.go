// Package database saves and restores development databases that are attached to a workspace.
//
// [Attach] adds the databases to a [segno.Workspace]: its snapshots then have a document of the
// format "databases/1" beside the tree, and its moves write databases as they write files. The
// document is JSON:
//
//	{"format": "databases/1", "databases": [
//	  {"name": "dev.db", "kind": "sqlite", "page_size": 4096, "pages": 12, "content": HASH}]}
//
// A database that does not exist has "missing", and one that could not be read has "unread" with the
// reason. Content is an object with the hashes of the groups, and each group is an object with the
// hashes of up to 256 pages. Each page is an object. So a change of one page adds the page, its group,
// the content and the document.
//
// The content of a PostgreSQL database is an object of JSON after the line "segno postgres 1": statements that
// create its objects, and the rows of each table as COPY writes them. These texts are split into objects at lines,
// and named as the pages are, by lists of hashes. A package that has the driver implements [Postgres].
//
// Some bytes of a SQLite database are left out of its saved content, because they must never return
// to an earlier value while programs use the database: the change counter, by which clients notice
// changes, the version of the library, and the journal mode.
package database
