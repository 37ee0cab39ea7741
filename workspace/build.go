package workspace

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// settle drops what vanished, marks what turned out to be protected, counts, and
// notes what could not be read.
func (v *view) settle(n *node) {
	dropped := false
	for i := range n.entries {
		e := &n.entries[i]
		if e.held && e.kind != 0 {
			v.noteHeld(n, e)
		}
		if e.kind != kindDir {
			if e.isFile() {
				v.files++
				v.bytes += e.st.size
			}
			dropped = dropped || e.kind == 0
			v.noteUnread(n, e)
			continue
		}
		switch {
		case e.child.gone:
			e.kind, dropped = 0, true
		case e.child.why != "":
			e.protect(e.child.why)
			v.noteUnread(n, e)
			v.scan.touch(n)
		default:
			v.settle(e.child)
		}
	}
	if dropped {
		n.entries, n.byName = slices.DeleteFunc(n.entries, func(e entry) bool { return e.kind == 0 }), nil
		v.scan.touch(n)
	}
}

// noteUnread notes an entry of n that the scan, or the one that looked at n last,
// could not read or left out.
func (v *view) noteUnread(n *node, e *entry) {
	if e.kind != kindProtected {
		return
	}
	switch e.note {
	case whyUnreadable, whyChanging:
		v.unread = append(v.unread, join(n.path, e.name))
	case whyBudget, whyDeep:
		v.beyond = append(v.beyond, join(n.path, e.name))
	}
}

// noteHeld notes an entry of n that is saved although a rule protects it. If the
// entry marks a cache directory, noteHeld notes that directory instead.
func (v *view) noteHeld(n *node, e *entry) {
	if e.name == cacheTag && e.kind != kindDir {
		v.held = append(v.held, n.path)
		return
	}
	v.held = append(v.held, join(n.path, e.name))
}

// topmost sorts paths, drops those below another and returns the first
// [segno.MaxHeld].
func topmost(paths []string) (out []string) {
	slices.Sort(paths)
	known := make(map[string]bool, len(paths))
	for _, p := range paths {
		if len(out) == segno.MaxHeld {
			break
		}
		below := known[p]
		for at := p; !below && at != "."; {
			if at = path.Dir(at); known[at] {
				below = true
			}
		}
		if !below {
			known[p] = true
			out = append(out, p)
		}
	}
	return out
}

// count returns how many entries there are at and below n.
func (n *node) count() int {
	sum := len(n.entries)
	for i := range n.entries {
		if e := &n.entries[i]; e.kind == kindDir {
			sum += e.child.count()
		}
	}
	return sum
}

// inode names a file whatever its paths.
type inode struct{ dev, ino uint64 }

// name is one of several names of a file.
type name struct {
	path string
	dir  *node
	e    *entry
}

// link finds the files with several names in the tree: the first name is the
// file, the others are hard links to it.
func (v *view) link() {
	groups := make(map[inode][]name)
	v.top.names(groups, func(e *entry, _ inode) bool { return e.linked() })
	if v.scan.only != nil && len(groups) > 0 {
		// A name that was not looked at does not know of one that was made since.
		v.top.names(groups, func(e *entry, id inode) bool { return !e.linked() && groups[id] != nil })
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b name) int { return strings.Compare(a.path, b.path) })
		for i, at := range g {
			kind, note := byte(kindFile), ""
			if i > 0 {
				kind, note = kindHardLink, g[0].path
				v.files--
				v.bytes -= at.e.st.size
			}
			if at.e.kind != kind || at.e.note != note {
				at.e.kind, at.e.note = kind, note
				v.scan.touch(at.dir)
			}
		}
	}
}

// linked reports whether the file was last seen with several names, in the tree or
// outside.
func (e *entry) linked() bool { return e.st.nlink > 1 || e.kind == kindHardLink }

// names adds the files that belong there to groups.
func (n *node) names(groups map[inode][]name, belongs func(*entry, inode) bool) {
	for i := range n.entries {
		e := &n.entries[i]
		switch {
		case e.kind == kindDir:
			e.child.names(groups, belongs)
		case e.isFile():
			if id := (inode{e.st.dev, e.st.ino}); belongs(e, id) {
				groups[id] = append(groups[id], name{join(n.path, e.name), n, e})
			}
		}
	}
}

// build makes the objects of n and all below it that are not what they should be.
func (v *view) build(ctx context.Context, n *node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range n.entries {
		e := &n.entries[i]
		if e.kind != kindDir {
			continue
		}
		tree, times, xattrs := e.child.tree, e.child.times, e.child.oldXattrs
		if err := v.build(ctx, e.child); err != nil {
			return err
		}
		if tree != e.child.tree || times != e.child.times || xattrs != e.child.xattrs {
			n.dirty.Store(true)
		}
	}
	if !n.dirty.Load() {
		return nil
	}
	v.scan.changed.Store(true)
	tree, times := n.encode()
	var err error
	if n.tree, err = v.scan.sink.object(ctx, tree); err != nil {
		return err
	}
	n.times = segno.Hash{}
	if times != nil {
		n.times, err = v.scan.sink.object(ctx, times)
	}
	n.dirty.Store(false)
	return err
}

// encode returns n's tree object, and its times object or nil.
func (n *node) encode() (tree, times []byte) {
	size := len(treeMagic)
	for i := range n.entries {
		size += len(n.entries[i].name) + len(n.entries[i].note) + 80
	}
	owned := slices.ContainsFunc(n.entries, func(e entry) bool { return e.isOwned() })
	tree = appendTree(make([]byte, 0, size), owned)
	none := appendTimes(make([]byte, 0, size/2))
	times = none
	for _, e := range n.sorted() {
		r := record{name: e.name, Entity: e.entity()}
		t := timeRecord{name: e.name, mtime: e.st.mtime}
		if e.kind == kindDir {
			r.child, t.child = e.child.tree, e.child.times
		}
		tree = appendRecord(tree, &r)
		if e.kind == kindFile || !t.child.IsZero() {
			times = appendTime(times, &t)
		}
	}
	if len(times) == len(none) {
		return tree, nil
	}
	return tree, times
}
