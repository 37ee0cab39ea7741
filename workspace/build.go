package workspace

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// totals are the counts and lists of a snapshot, for one directory and those below.
type totals struct {
	files                    int
	bytes                    int64
	held, unread, overBudget []string
	linked                   bool // there is a file with several names

	// For the directory alone:
	dirs []int32 // its entries that are directories
	// unstable is set if the entries can change without an event for the directory: see [entry.isUnstable].
	unstable bool
}

// add adds the totals of a directory below.
func (s *totals) add(below *totals) {
	s.files += below.files
	s.bytes += below.bytes
	s.held = append(s.held, below.held...)
	s.unread = append(s.unread, below.unread...)
	s.overBudget = append(s.overBudget, below.overBudget...)
	s.linked = s.linked || below.linked
}

// summarize computes the totals of a directory. It drops the entries that vanished, and marks those that turned out to be
// protected. It relies on the earlier totals of a directory that this scan did not visit.
func (v *view) summarize(n *node) {
	n.sum = totals{}
	s, dropped := &n.sum, false
	for i := range n.entries {
		e := &n.entries[i]
		if e.held && e.kind != 0 {
			s.addHeld(n, e)
		}
		if e.kind == kindDir {
			switch {
			case e.child.gone:
				e.kind = 0
			case e.child.why != "":
				e.protect(e.child.why)
				v.scan.markChanged(n)
			default:
				if e.child.scanned || v.whole {
					v.summarize(e.child)
				}
				s.add(&e.child.sum)
			}
		}
		switch {
		case e.kind == 0:
			dropped = true
		case e.isFile():
			s.files++
			s.bytes += e.st.size
			s.linked = s.linked || e.isLinked()
		case e.kind == kindProtected:
			s.addProtected(join(n.path, e.name), e.note)
		}
		s.unstable = s.unstable || e.isUnstable()
	}
	if dropped {
		n.entries, n.byName = slices.DeleteFunc(n.entries, func(e entry) bool { return e.kind == 0 }), nil
		v.scan.markChanged(n)
	}
	s.dirs = n.directories()
}

// directories returns the indices of the entries that are directories.
func (n *node) directories() (dirs []int32) {
	for i := range n.entries {
		if n.entries[i].kind == kindDir {
			dirs = append(dirs, int32(i))
		}
	}
	return dirs
}

// isUnstable reports whether a scan can find another result for an unchanged entry of a directory that had no event: because
// the content may change without an event for the directory, or because the verdict depends on more than the directory.
func (e *entry) isUnstable() bool {
	switch e.kind {
	case kindFile, kindHardLink, kindSymlink:
		return e.held || e.racy || e.st.ctime == 0 || e.isLinked() && e.kind != kindSymlink
	case kindProtected:
		switch e.note {
		case whyUnreadable, whyChanging, whyBudget, whyCache, whyMadeAgain:
			return true
		}
	}
	return e.held
}

// addProtected lists a path that could not be read, or that exceeds the budget.
func (s *totals) addProtected(path, why string) {
	switch why {
	case whyUnreadable, whyChanging:
		s.unread = append(s.unread, path)
	case whyBudget, whyDeep:
		s.overBudget = append(s.overBudget, path)
	}
}

// addHeld lists an entry of n that stays saved although a rule protects it. If the entry marks
// a cache directory, addHeld lists that directory instead.
func (s *totals) addHeld(n *node, e *entry) {
	path := join(n.path, e.name)
	if e.name == cacheTag && e.kind != kindDir {
		path = n.path
	}
	s.held = append(s.held, path)
}

// topmost sorts paths, drops those below another path and returns the first [segno.MaxHeld].
func topmost(paths []string) (out []string) {
	slices.Sort(paths)
	known := make(map[string]bool, len(paths))
	for _, p := range paths {
		at := p
		for at != "." && !known[at] {
			at = path.Dir(at)
		}
		if at == "." && len(out) < segno.MaxHeld {
			known[p] = true
			out = append(out, p)
		}
	}
	return out
}

// each calls visit for the entries at and below n.
func (n *node) each(visit func(n *node, e *entry)) {
	n.eachIn(func(*node) bool { return true }, visit)
}

// eachIn is each without the directories for which in returns false, and those below them.
func (n *node) eachIn(in func(*node) bool, visit func(n *node, e *entry)) {
	if !in(n) {
		return
	}
	for i := range n.entries {
		e := &n.entries[i]
		if visit(n, e); e.kind == kindDir {
			e.child.eachIn(in, visit)
		}
	}
}

// inode identifies a file independently of its paths.
type inode struct{ dev, ino uint64 }

// fileName is one of several names of a file.
type fileName struct {
	path string
	dir  *node
	e    *entry
}

// findLinks finds the files with several names in the tree. The first name becomes the file,
// and the others become hard links to it.
func (v *view) findLinks() {
	groups := make(map[inode][]fileName)
	collect := func(in func(*node) bool, belongs func(*entry, inode) bool) {
		v.top.eachIn(in, func(n *node, e *entry) {
			if id := (inode{e.st.dev, e.st.ino}); e.isFile() && belongs(e, id) {
				groups[id] = append(groups[id], fileName{join(n.path, e.name), n, e})
			}
		})
	}
	collect(func(n *node) bool { return n.sum.linked }, func(e *entry, _ inode) bool { return e.isLinked() })
	if v.scan.only != nil && !v.scan.narrowed && len(groups) > 0 {
		// The entry of a name that this scan did not visit may be older than the entry of
		// another name.
		collect(func(*node) bool { return true }, func(e *entry, id inode) bool { return !e.isLinked() && groups[id] != nil })
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b fileName) int { return strings.Compare(a.path, b.path) })
		for i, at := range g {
			kind, note := byte(kindFile), ""
			if i > 0 {
				kind, note = kindHardLink, g[0].path
				v.saved.Files--
				v.saved.Bytes -= at.e.st.size
			}
			if at.e.kind != kind || at.e.note != note {
				at.e.kind, at.e.note = kind, note
				v.scan.markChanged(at.dir)
				v.markLinked(at.dir)
			}
		}
	}
}

// markLinked adds to the totals that a directory contains a file with several names. A scan that did not visit the directory
// may have found that by another name of the file.
func (v *view) markLinked(dir *node) {
	dir.sum.unstable = true
	for above := range leading([]string{dir.path}) {
		if above == "" {
			v.top.sum.linked = true
		} else {
			v.top.lookup(above).child.sum.linked = true
		}
	}
}

// isLinked reports whether the file had several names, in the tree or outside it, when it was
// last scanned.
func (e *entry) isLinked() bool { return e.st.nlink > 1 || e.kind == kindHardLink }

// writeObjects writes the objects of n and of the directories below that changed.
func (v *view) writeObjects(ctx context.Context, n *node) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range n.entries {
		e := &n.entries[i]
		if e.kind != kindDir {
			continue
		}
		if v.scan.narrowed && !v.whole && !e.child.scanned {
			continue // nothing below it changed
		}
		tree, times, xattrs := e.child.tree, e.child.times, e.child.oldXattrs
		if err := v.writeObjects(ctx, e.child); err != nil {
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
	n.tree, n.times, err = putDir(ctx, v.scan.out, n.encode)
	n.dirty.Store(false)
	return err
}

// putDir stores the two objects of a directory. If there is no file below it, there is no times
// object.
func putDir(ctx context.Context, out objectWriter, encode func() (tree, times []byte)) (tree, times segno.Hash, err error) {
	treeData, timesData := encode()
	if tree, err = out.putObject(ctx, treeData); err == nil && timesData != nil {
		times, err = out.putObject(ctx, timesData)
	}
	return tree, times, err
}
