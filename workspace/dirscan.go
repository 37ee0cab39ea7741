package workspace

import (
	"github.com/dalsegno/segno/workspace/internal/gitignore"
)

// dirScan compares one directory with its entries in the index. While both have the same names
// in the same order, it allocates no memory.
type dirScan struct {
	scan *scan
	n    *node
	dir  *dirHandle

	old    []entry
	next   int     // the index in old at which the next name is expected
	same   bool    // all entries so far equal old[:next]
	out    []entry // the current entries, from the first difference on
	tagged bool    // it is a cache directory

	reads []int32 // entries to read
	large []int32 // entries to read unless git ignores them
	late  []int32 // entries to read if they fit into the budget
	found []task  // directories below
}

// visit handles one name of the directory.
func (l *dirScan) visit(name []byte, st *stat, err error) {
	if l.tagged {
		return
	}
	if name[0] == '.' && err == nil && !st.is(typeDir) && isTemp(string(name)) {
		l.addStray(string(name))
		return
	}
	if l.scan.rules.isBesideDatabase(l.n.path, name) {
		return
	}
	before := l.expect(name)
	if before != nil && err == nil && l.unchanged(before, st) {
		if !l.same {
			l.out = append(l.out, *before)
		}
		return
	}
	l.replace(name, st, before, err)
}

// replace replaces an entry of the index, or adds one if before is nil. err is the error of its stat.
func (l *dirScan) replace(name []byte, st *stat, before *entry, err error) {
	if l.same && before != nil {
		l.differ(l.next - 1)
	} else {
		l.differ(l.next)
	}
	e := entry{name: string(name), st: *st}
	if l.scan.narrowed && st.is(typeFile) && st.nlink > 1 && (before == nil || before.st.nlink != st.nlink) {
		l.scan.addNamed(st)
	}
	if err != nil {
		e.protect(whyUnreadable)
	} else {
		l.classify(&e, before)
	}
	if e.kind != 0 && !l.tagged {
		l.out = append(l.out, e)
	}
}

// expect returns the entry of the index with this name, or nil.
func (l *dirScan) expect(name []byte) *entry {
	if l.next < len(l.old) && l.old[l.next].name == string(name) {
		l.next++
		return &l.old[l.next-1]
	}
	l.differ(l.next)
	i, ok := l.n.position(string(name))
	if !ok {
		return nil
	}
	l.next = i + 1
	return &l.old[i]
}

// differ records the first difference. From then on, out collects the entries, beginning with
// the first entries of the index.
func (l *dirScan) differ(first int) {
	if l.same {
		l.same = false
		l.out = append(make([]entry, 0, len(l.old)+8), l.old[:first]...)
	}
}

// addStray records a temporary file of an interrupted Apply, so that the snapshot removes it.
// The workspace has one caller at a time, so no Apply is still writing the file.
func (l *dirScan) addStray(name string) {
	if !isApplyTemp(name) {
		return
	}
	l.scan.mu.Lock()
	l.scan.strays = append(l.scan.strays, join(l.n.path, name))
	l.scan.mu.Unlock()
}

// unchanged reports whether the entry of the index is still correct. For a directory, it only
// compares the mode, because the directory is scanned in any case, unless the caller knows that
// it did not change.
func (l *dirScan) unchanged(before *entry, st *stat) bool {
	switch before.kind {
	case kindFile, kindHardLink, kindSymlink:
		return *st == before.st && !l.scan.reclassify && (!before.held || l.staysHeld(before))
	case kindDir:
		if !st.is(typeDir) || st.perm() != before.st.perm() || st.owner() != before.st.owner() {
			return false
		}
		why, held := l.verdict(before.name, st)
		if why != "" {
			return false
		}
		if before.held != held {
			before.held = held
			l.scan.changed.Store(true)
		}
		if l.scan.visits(before, st) {
			l.found = append(l.found, task{n: before.child})
		}
		before.st = *st
		return true
	}
	if isGitFile(before.name, st) || !l.staysProtected(before, st) {
		return false
	}
	before.st = *st // a fork copies the path as it is now, which may be a file instead of a directory
	return true
}

// visits reports whether the scan visits a directory that is in the index as before.
func (s *scan) visits(before *entry, st *stat) bool {
	if s.only == nil || s.only[before.child.path] {
		return true
	}
	// Another directory may have its name now.
	return s.narrowed && !before.child.scanned && (*st != before.st || !s.watch.isMarked(st))
}

// staysProtected is unchanged for an entry that is protected in the index.
func (l *dirScan) staysProtected(before *entry, st *stat) bool {
	at, rules := join(l.n.path, before.name), l.scan.protected
	switch before.note {
	case whyUnreadable, whyChanging, whyBudget:
		return false
	case whyLargeIgnore:
		return *st == before.st && !l.scan.reclassify && !rules.cover.holds(at, false, whyLargeIgnore)
	case whyCache:
		why, _ := l.verdict(before.name, st)
		return st.is(typeDir) && why == "" && rules.isCache(l.dir, before.name, at) && !rules.holdsCache(at)
	}
	why, _ := rules.verdict(l.n.path, before.name, st, l.dir)
	return before.note == why
}

// staysHeld reports whether the cover still holds an unchanged file or symlink.
func (l *dirScan) staysHeld(before *entry) bool {
	switch why, held := l.verdict(before.name, &before.st); {
	case why != "":
		return false
	case held:
		return true
	case before.name == cacheTag:
		return l.scan.rules.holdsCache(l.n.path)
	}
	return l.scan.rules.cover.holds(join(l.n.path, before.name), false, whyLargeIgnore)
}

// verdict is [rules.verdict] for an entry of the directory.
func (l *dirScan) verdict(name string, st *stat) (why string, held bool) {
	return l.scan.rules.verdict(l.n.path, name, st, l.dir)
}

// classify sets the fields of a new or changed entry. before, which may be nil, is the entry of
// the index. The kind of an entry that vanishes meanwhile stays 0.
func (l *dirScan) classify(e, before *entry) {
	why, held := l.verdict(e.name, &e.st)
	if why != "" {
		e.protect(why)
		return
	}
	switch e.st.mode & typeMask {
	case typeDir:
		e.kind = kindDir
		if before != nil && before.kind == kindDir {
			e.child = before.child
		} else {
			e.child = &node{path: join(l.n.path, e.name), fresh: true}
			e.child.dirty.Store(true)
		}
		l.found = append(l.found, task{n: e.child})
	case typeSymlink:
		if !l.scan.readSymlink(l.dir, e) {
			e.protect(whyUnreadable)
		}
	default:
		l.classifyFile(e, before)
	}
	e.held = e.held || held && e.kind != kindProtected
}

// classifyFile adds a new or changed file to one of the lists of files to read.
func (l *dirScan) classifyFile(e, before *entry) {
	rules, path := l.scan.rules, l.n.path
	if e.name == cacheTag && path != "" && rules.mayTag(path) && l.dir.beginsWith(cacheTag, cacheSignature) {
		if !rules.holdsCache(path) {
			l.tagged = true
			return
		}
		e.held = true
	}
	e.kind = kindFile
	switch at := int32(len(l.out)); {
	case before != nil && before.isFile() && before.st == e.st:
		held := e.held
		*e = *before // the rules changed, but not the file
		e.held = held
	case e.st.size > maxIgnored && rules.ignore.Match(join(path, e.name), false) != gitignore.Kept:
		l.large = append(l.large, at)
	case before != nil && before.note == whyBudget:
		l.late = append(l.late, at)
	default:
		l.reads = append(l.reads, at)
	}
}
