// Package search is an index of the conversations and changes in a store, and of the sessions of agents on this machine.
//
// An [Index] is a directory of immutable segments. [Index.Update] adds what is new in a store, [Index.Search] answers a
// [Query], and [Reader] reads the text of a hit. The index is a cache: all of it can be deleted, and a segment that is
// damaged, incomplete or of another version is built again. docs/format.md has the format of a segment.
//
// A document of the index is one field of a checkpoint, such as its prompt or the output of its calls. Because a commit
// never changes, and a fork is a pointer to a commit, forks share the documents of their past.
package search
