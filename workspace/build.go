package workspace

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// summarize drops the entries that vanished, marks those that turned out to be protected,
// counts entries, and lists the unreadable paths.
func (v *view) summarize(n *node) {
	dropped := false
	for i := range n.entries {
		e := &n.entries[i]
		if e.held && e.kind != 0 {
			v.addHeld(n, e)
		}
		if e.kind == kindDir {
			switch {
			case e.child.gone:
				e.kind = 0
			case e.child.why != "":
				e.protect(e.child.why)
				v.scan.markChanged(n)
			default:
				v.summarize(e.child)
			}
		}
		switch {
		case e.kind == 0:
			dropped = true
		case e.isFile():
			v.saved.Files++
			v.saved.Bytes += e.st.size
		case e.kind == kindProtected:
			v.addProtected(join(n.path, e.name), e.note)
		}
	}
	if dropped {
		n.entries, n.byName = slices.DeleteFunc(n.entries, func(e entry) bool { return e.kind == 0 }), nil
		v.scan.markChanged(n)
	}
}

// addProtected lists a path that could not be read, or that exceeds the budget.
func (v *view) addProtected(path, why string) {
	switch why {
	case whyUnreadable, whyChanging:
		v.saved.Unread = append(v.saved.Unread, path)
	case whyBudget, whyDeep:
		v.overBudget = append(v.overBudget, path)
	}
}

// addHeld lists an entry of n that stays saved although a rule protects it. If the entry marks
// a cache directory, addHeld lists that directory instead.
func (v *view) addHeld(n *node, e *entry) {
	path := join(n.path, e.name)
	if e.name == cacheTag && e.kind != kindDir {
		path = n.path
	}
	v.saved.Held = append(v.saved.Held, path)
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
	for i := range n.entries {
		e := &n.entries[i]
		if visit(n, e); e.kind == kindDir {
			e.child.each(visit)
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
	collect := func(belongs func(*entry, inode) bool) {
		v.top.each(func(n *node, e *entry) {
			if id := (inode{e.st.dev, e.st.ino}); e.isFile() && belongs(e, id) {
				groups[id] = append(groups[id], fileName{join(n.path, e.name), n, e})
			}
		})
	}
	collect(func(e *entry, _ inode) bool { return e.isLinked() })
	if v.scan.only != nil && len(groups) > 0 {
		// The entry of a name that this scan did not visit may be older than the entry of
		// another name.
		collect(func(e *entry, id inode) bool { return !e.isLinked() && groups[id] != nil })
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
			}
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
