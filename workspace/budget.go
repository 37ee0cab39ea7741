package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// budget limits how much of a tree one snapshot saves. It prevents a hostile or broken tree from
// taking all time and all space. Paths beyond the budget are protected, with the reason. The choice
// of these paths depends only on the tree.
type budget struct {
	bytes  int64 // the size of the contents of all files together
	levels int   // the depth of nested directories
	path   int   // the length of a directory's path in bytes
}

// newBudget returns the budget of a snapshot: far more than a tree that people and agents edit
// needs, and no more than a machine can read in a minute.
func newBudget() budget { return budget{bytes: 16 << 30, levels: 2000, path: 32 << 10} }

// tooDeep returns why a snapshot does not enter the directory at dir/name, or "".
func (b *budget) tooDeep(dir, name string) string {
	if path := join(dir, name); strings.Count(path, "/")+1 > b.levels || len(path) > b.path {
		return whyDeep
	}
	return ""
}

// The reasons why an entry exceeds the budget.
const (
	whyBudget = "beyond the 16 GiB of a snapshot"
	whyDeep   = "deeper than 2000 levels or 32 KiB of path"
)

// protectLargest protects the largest files until the others fit into the budget. That protects the
// fewest paths, and source code last of all. A file with several names counts once for each name,
// because each is read.
func (v *view) protectLargest() {
	type sized struct {
		dir *node
		e   *entry
	}
	var all []sized
	var total int64
	v.top.each(func(n *node, e *entry) {
		if e.isFile() {
			all = append(all, sized{n, e})
			total += e.st.size
		}
	})
	limit := v.dir.budget.bytes
	if total <= limit {
		return
	}
	slices.SortFunc(all, func(a, b sized) int {
		return cmp.Or(cmp.Compare(b.e.st.size, a.e.st.size),
			strings.Compare(join(b.dir.path, b.e.name), join(a.dir.path, a.e.name)))
	})
	for _, f := range all {
		if total <= limit {
			return
		}
		total -= f.e.st.size
		f.e.protect(whyBudget)
		v.scan.markChanged(f.dir)
	}
}

// The largest numbers of paths and bytes that a snapshot lists as over the budget. They are limited
// because each commit contains the list.
const (
	maxOverBudget      = 100
	maxOverBudgetBytes = 64 << 10
)

// listOverBudget adds the first paths that exceed the budget to the list of unread paths.
func (v *view) listOverBudget() {
	slices.Sort(v.overBudget)
	bytes := 0
	for i, path := range v.overBudget {
		if bytes += len(path); i == maxOverBudget || i > 0 && bytes > maxOverBudgetBytes {
			break
		}
		v.saved.Unread = append(v.saved.Unread, path)
	}
}

// readDeferred reads the deferred files that fit into the budget, the largest chunks first. A
// worker that began a large file last would still read it when the other workers have nothing left
// to do.
func (v *view) readDeferred(ctx context.Context) error {
	if len(v.scan.deferred) == 0 {
		return nil
	}
	v.protectLargest()
	var tasks []task
	for _, t := range v.scan.deferred {
		files := slices.DeleteFunc(t.files, func(i int32) bool { return !t.n.entries[i].isFile() })
		v.scan.total.Add(t.n.size(files))
		for len(files) > 0 {
			part := t.n.chunk(files)
			files = files[len(part):]
			tasks = append(tasks, task{n: t.n, files: part})
		}
	}
	slices.SortFunc(tasks, func(a, b task) int { return cmp.Compare(a.n.size(a.files), b.n.size(b.files)) })
	return v.scan.run(ctx, tasks...)
}
