package workspace

// listing is the comparison of one directory with what the index has of it. As
// long as both name the same things in the same order it allocates nothing.
type listing struct {
	scan *scan
	n    *node
	dir  *openDir

	old    []entry
	next   int              // where in old the next name is expected
	byName map[string]int32 // of old, once an expectation failed
	same   bool             // everything so far is old[:next]
	out    []entry          // what is there, once it is not the same
	tagged bool             // it is a cache directory

	reads []int32 // entries to read
	large []int32 // entries to read unless git ignores them
	late  []int32 // entries to read if they are within the budget
	found []task  // directories below
}

// visit takes one name as the file system has it.
func (l *listing) visit(name []byte, st *stat, err error) {
	if l.tagged {
		return
	}
	if name[0] == '.' && err == nil && isTemp(name) && !st.is(typeDir) {
		l.stray(name)
		return
	}
	before := l.expect(name)
	if before != nil && err == nil && l.unchanged(before, st) {
		if !l.same {
			l.out = append(l.out, *before)
		}
		return
	}
	if l.same && before != nil {
		l.differ(l.next - 1)
	} else {
		l.differ(l.next)
	}
	e := entry{name: string(name), st: *st}
	if err != nil {
		e.protect(whyUnreadable)
	} else {
		l.classify(&e, before)
	}
	if e.kind != 0 && !l.tagged {
		l.out = append(l.out, e)
	}
}

// expect returns what the index has under this name.
func (l *listing) expect(name []byte) *entry {
	if l.next < len(l.old) && l.old[l.next].name == string(name) {
		l.next++
		return &l.old[l.next-1]
	}
	l.differ(l.next)
	if l.byName == nil {
		l.byName = make(map[string]int32, len(l.old))
		for i := range l.old {
			l.byName[l.old[i].name] = int32(i)
		}
	}
	i, ok := l.byName[string(name)]
	if !ok {
		return nil
	}
	l.next = int(i) + 1
	return &l.old[i]
}

// differ ends the time in which nothing was new: from here on out is written, and
// begins with the first entries of the index.
func (l *listing) differ(first int) {
	if l.same {
		l.same = false
		l.out = append(make([]entry, 0, len(l.old)+8), l.old[:first]...)
	}
}

// differAtEnd notes that the index has more than there is.
func (l *listing) differAtEnd() {
	if l.next < len(l.old) {
		l.differ(l.next)
	}
}

// stray notes a temporary file. Only one that Apply made is ours to remove, and as
// there is one caller at a time, no Apply is still at work on it.
func (l *listing) stray(name []byte) {
	if !isOurTemp(name) {
		return
	}
	l.scan.mu.Lock()
	l.scan.strays = append(l.scan.strays, join(l.n.path, string(name)))
	l.scan.mu.Unlock()
}

// unchanged reports whether the entry of the index still holds. A directory's own
// entry does if its mode is the same; what is below is looked at in any case,
// unless it is known to be the same.
func (l *listing) unchanged(before *entry, st *stat) bool {
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
		if l.scan.only == nil || l.scan.only[before.child.path] {
			l.found = append(l.found, task{n: before.child})
		}
		return true
	}
	switch before.note {
	case whyUnreadable, whyChanging, whyBudget:
		return false
	case whyDeep:
		return st.is(typeDir)
	case whyLargeIgnore:
		return *st == before.st && !l.scan.reclassify &&
			(l.scan.known || !l.scan.rules.cover.holds(l.n.path, before.name, false, whyLargeIgnore))
	case whyCache:
		why, _ := l.verdict(before.name, st)
		at := join(l.n.path, before.name)
		return st.is(typeDir) && why == "" && l.scan.rules.mayTag(at) &&
			l.dir.begins(before.name+"/"+cacheTag, cacheSignature) && (l.scan.known || !l.scan.rules.holdsCache(at))
	}
	if why := special(st); why != "" {
		return before.note == why
	}
	rules := l.scan.rules
	if l.scan.known { // it was not saved, so that nothing holds it
		rules = l.scan.uncovered
	}
	why, _ := rules.named(l.n.path, before.name, st.is(typeDir), l.dir)
	return before.note == why
}

// staysHeld reports whether an unchanged file or symlink is saved for the reason it
// was saved for before: a cover that says so.
func (l *listing) staysHeld(before *entry) bool {
	switch why, held := l.verdict(before.name, &before.st); {
	case why != "":
		return false
	case held:
		return true
	case before.name == cacheTag:
		return l.scan.rules.holdsCache(l.n.path)
	}
	return l.scan.rules.cover.holds(l.n.path, before.name, false, whyLargeIgnore)
}

// verdict returns why the rules protect this entry, or "", and whether one would if
// the entry did not stay saved.
func (l *listing) verdict(name string, st *stat) (why string, held bool) {
	if why := special(st); why != "" {
		return why, false
	}
	if isGitFile(name, st) {
		return "", false
	}
	return l.scan.rules.named(l.n.path, name, st.is(typeDir), l.dir)
}

// classify makes e what a new or changed entry is; before, which may be nil, is
// what the index has. An entry that vanishes meanwhile keeps kind 0.
func (l *listing) classify(e, before *entry) {
	why, held := l.verdict(e.name, &e.st)
	if why != "" {
		e.protect(why)
		return
	}
	switch e.st.mode & typeMask {
	case typeDir:
		if why := l.scan.budget.tooDeep(l.n.path, e.name); why != "" {
			e.protect(why)
			return
		}
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
		l.file(e, before)
	}
	e.held = e.held || held && e.kind != kindProtected
}

// file sees to the reading of a new or changed file, if there is any need.
func (l *listing) file(e, before *entry) {
	if e.name == cacheTag && l.n.path != "" && l.scan.rules.mayTag(l.n.path) && l.dir.begins(cacheTag, cacheSignature) {
		if !l.scan.rules.holdsCache(l.n.path) {
			l.tagged = true
			return
		}
		e.held = true
	}
	e.kind = kindFile
	switch at := int32(len(l.out)); {
	case before != nil && before.isFile() && before.st == e.st:
		held := e.held
		*e = *before // the rules changed, the file did not
		e.held = held
	case e.st.size > maxIgnored && l.scan.rules.ignore.match(l.n.path, e.name, false) != matchKept:
		l.large = append(l.large, at)
	case before != nil && before.note == whyBudget:
		l.late = append(l.late, at)
	default:
		l.reads = append(l.reads, at)
	}
}

// exists and begins let the rules look around.
func (d *openDir) exists(name string) bool {
	_, err := d.stat(name)
	return err == nil
}

func (d *openDir) begins(name, prefix string) bool {
	f, err := d.open(name)
	if err != nil {
		return false
	}
	defer f.close()
	st, err := f.stat()
	if err != nil || !st.is(typeFile) {
		return false
	}
	buf := make([]byte, len(prefix))
	n, err := readFull(f, buf)
	return err == nil && string(buf[:n]) == prefix
}
