package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// budget is how much of a tree one snapshot holds. It keeps a hostile or broken tree
// from taking all time and all space. What lies beyond is protected, with the reason,
// and which paths these are depends on the tree alone.
type budget struct {
	bytes  int64 // of the contents of all files together
	levels int   // of directories inside each other
	path   int   // bytes of a directory's path
}

// newBudget returns the budget of a snapshot: far more than a tree that people and
// agents edit has, and no more than a machine reads in a minute.
func newBudget() budget { return budget{bytes: 16 << 30, levels: 2000, path: 32 << 10} }

// tooDeep returns why the directory at dir/name is not entered, or "".
func (b *budget) tooDeep(dir, name string) string {
	levels := 1
	if dir != "" {
		levels = strings.Count(dir, "/") + 2
	}
	if levels > b.levels || len(dir)+1+len(name) > b.path {
		return whyDeep
	}
	return ""
}

// Why an entry is beyond the budget.
const (
	whyBudget = "beyond the 16 GiB of a snapshot"
	whyDeep   = "deeper than 2000 levels or 32 KiB of path"
)

// weighed is a file that takes part of the budget.
type weighed struct {
	dir *node
	e   *entry
}

// fit protects the largest files until the others are within the budget: that costs
// the fewest paths, and source code last of all. Each name of a file with several
// counts, since each is read.
func (v *view) fit() {
	limit := v.dir.budget.bytes
	total := v.top.weight()
	if total <= limit {
		return
	}
	var all []weighed
	v.top.weigh(&all)
	slices.SortFunc(all, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.e.st.size, a.e.st.size),
			strings.Compare(join(b.dir.path, b.e.name), join(a.dir.path, a.e.name)))
	})
	for _, w := range all {
		if total <= limit {
			return
		}
		total -= w.e.st.size
		w.e.protect(whyBudget)
		v.scan.touch(w.dir)
	}
}

// How much a snapshot names of what it left out: each commit carries the list.
const (
	maxBeyond      = 100
	maxBeyondBytes = 64 << 10
)

// nameBeyond adds to what could not be read the first paths beyond the budget.
func (v *view) nameBeyond() {
	slices.Sort(v.beyond)
	bytes := 0
	for i, path := range v.beyond {
		if bytes += len(path); i == maxBeyond || i > 0 && bytes > maxBeyondBytes {
			break
		}
		v.unread = append(v.unread, path)
	}
}

// weight returns how many bytes the files at and below n have.
func (n *node) weight() (sum int64) {
	for i := range n.entries {
		switch e := &n.entries[i]; {
		case e.isFile():
			sum += e.st.size
		case e.kind == kindDir:
			sum += e.child.weight()
		}
	}
	return sum
}

// weigh adds the files at and below n.
func (n *node) weigh(all *[]weighed) {
	for i := range n.entries {
		switch e := &n.entries[i]; {
		case e.isFile():
			*all = append(*all, weighed{n, e})
		case e.kind == kindDir:
			e.child.weigh(all)
		}
	}
}

// postpone keeps files to be read once the whole tree is known. Until then nothing
// tells which files fit.
func (s *scan) postpone(n *node, files []int32) {
	if len(files) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, task{n: n, files: append([]int32(nil), files...)})
}

// readLate reads the postponed files that are within the budget, the largest chunks
// first: a worker that began a large file last would read it while the others have
// nothing left to do.
func (v *view) readLate(ctx context.Context) error {
	if len(v.scan.late) == 0 {
		return nil
	}
	v.fit()
	var tasks []task
	for _, t := range v.scan.late {
		var files []int32
		for _, i := range t.files {
			if e := &t.n.entries[i]; e.isFile() {
				v.scan.total.Add(e.st.size)
				files = append(files, i)
			}
		}
		for len(files) > 0 {
			part := chunk(t.n, files)
			files = files[len(part):]
			tasks = append(tasks, task{n: t.n, files: part})
		}
	}
	slices.SortFunc(tasks, func(a, b task) int { return cmp.Compare(a.bytes(), b.bytes()) })
	v.scan.queue = newQueue()
	v.scan.queue.push(tasks...) // the queue hands out the last one first
	return v.scan.queue.run(ctx, func(w *worker, t task) error {
		dir, err := v.root.open(t.n.path)
		if err != nil {
			return v.scan.lost(t.n, err)
		}
		t.dir = &sharedDir{openDir: dir}
		defer dir.close()
		return v.scan.readFiles(ctx, w, t)
	})
}
