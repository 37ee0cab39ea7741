package workspace

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dalsegno/segno"
)

// node is the state of one directory of the tree at the last scan. The index stores nodes on
// disk; a scan updates them in place.
type node struct {
	path    string     // from the root, which is ""
	entries []entry    // in the order of the file system
	xattrs  segno.Hash // of the directory itself
	ctime   int64      // the ctime at which its attributes were last read
	tree    segno.Hash // its objects; times is zero if there is no file below it
	times   segno.Hash

	oldXattrs segno.Hash  // xattrs at the time when the objects were made
	dirty     atomic.Bool // its entries changed after its objects were made
	gone      bool        // it vanished during the scan
	why       string      // why it is protected, if the scan found that it is
	fresh     bool        // it is not in the index
	scanned   bool        // this scan visited it; all directories above it are then scanned, too
	sum       totals      // of this directory and those below; up to date unless scanned is set

	byName map[string]int32 // position fills it; nil after a change of entries
}

// entry is one name in a directory.
type entry struct {
	name   string
	st     stat
	kind   byte        // kindFile …; 0 for an entry that vanished
	racy   bool        // a later write may have left the same stat, or the rules were applied to an earlier one
	held   bool        // saved although a rule protects it; for a CACHEDIR.TAG: its directory is
	hash   segno.Hash  // the hash of a file's content
	xattrs *segno.Hash // the attributes of a file; nil if it has none
	note   string      // the target of a symlink, the first name of a hard link, or why it is protected
	child  *node       // of a directory
}

// entity returns e as a [segno.Entity].
func (e *entry) entity() segno.Entity {
	switch e.kind {
	case kindDir:
		return segno.Entity{Type: segno.EntityDir, Mode: e.st.perm(), Xattrs: e.child.xattrs, Owner: e.st.owner()}
	case kindSymlink:
		return segno.Entity{Type: segno.EntitySymlink, Target: e.note}
	case kindProtected:
		return segno.Entity{Type: segno.EntityProtected, Why: e.note}
	}
	out := segno.Entity{Type: segno.EntityFile, Mode: e.st.perm(), Hash: e.hash, Size: e.st.size, Owner: e.st.owner()}
	if e.xattrs != nil {
		out.Xattrs = *e.xattrs
	}
	if e.kind == kindHardLink {
		out.Type, out.Target = segno.EntityHardLink, e.note
	}
	return out
}

// isFile reports whether the store has the content of e.
func (e *entry) isFile() bool { return e.kind == kindFile || e.kind == kindHardLink }

// protect turns e into an entry that is recorded but not stored.
func (e *entry) protect(why string) {
	*e = entry{name: e.name, st: e.st, kind: kindProtected, note: why}
}

// position returns the index of the entry called name. Only one goroutine at a time may call
// it.
func (n *node) position(name string) (int, bool) {
	if n.byName == nil {
		n.byName = make(map[string]int32, len(n.entries))
		for i := range n.entries {
			n.byName[n.entries[i].name] = int32(i)
		}
	}
	i, ok := n.byName[name]
	return int(i), ok
}

// find returns the entry called name, or nil.
func (n *node) find(name string) *entry {
	if i, ok := n.position(name); ok {
		return &n.entries[i]
	}
	return nil
}

// lookup returns the entry at path, or nil.
func (n *node) lookup(path string) *entry {
	for {
		name, rest, deeper := strings.Cut(path, "/")
		e := n.find(name)
		if e == nil || !deeper {
			return e
		}
		if e.kind != kindDir {
			return nil
		}
		n, path = e.child, rest
	}
}

// encode returns n's tree object, and its times object or nil.
func (n *node) encode() (tree, times []byte) {
	sorted := make([]*entry, len(n.entries))
	for i := range n.entries {
		sorted[i] = &n.entries[i]
	}
	slices.SortFunc(sorted, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	records, stamps := make([]record, len(sorted)), make([]timeRecord, 0, len(sorted))
	for i, e := range sorted {
		records[i] = record{name: e.name, Entity: e.entity()}
		t := timeRecord{name: e.name, mtime: e.st.mtime}
		if e.kind == kindDir {
			records[i].child, t.child = e.child.tree, e.child.times
		}
		if e.kind == kindFile || !t.child.IsZero() {
			stamps = append(stamps, t)
		}
	}
	return encodeTree(records), encodeTimes(stamps)
}

// join adds a name to the path of a directory.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
