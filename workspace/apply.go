package workspace

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// Apply writes the state To of each change to its path, if the present state of the path still equals
// From. It returns the changes that it could not make, by path.
//
// Apply checks every change, and reads every object that it needs, before the first write. An error before
// that write has changed nothing. Apply checks each path again immediately before it replaces it. A change
// at or below a protected path is a conflict, unless To does not record the path. Apply removes a
// directory only once it is empty. A directory that still contains other files stays, which is not a
// conflict.
//
// Apply syncs a few files one by one before it renames them, and many files together at the end. In both
// cases they are on disk when it returns. If the process is killed meanwhile, each path is either old or
// new, but a directory without write permission may keep the permission that Apply gave it. Another Apply
// of the same changes completes the work.
func (d *Dir) Apply(ctx context.Context, changes []segno.Change, times segno.Hash) ([]segno.Conflict, error) {
	steps, err := newSteps(changes)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	a := &apply{
		steps: steps, byPath: make(map[string]*step, len(steps)), objects: newObjectReader(d.options.Objects, times),
		madeWritable: make(map[string]uint32), changedDirs: make(map[string]bool), unsynced: d.unsynced, applied: d.options.Applied,
	}
	for _, s := range steps {
		a.byPath[s.Path] = s
	}
	if a.writer, err = d.openWriter(); err != nil {
		return nil, err
	}
	defer a.writer.close()
	root, err := openWritten(a.writer.top)
	if err != nil {
		return nil, pathError("restore", d.root, err)
	}
	defer root.close()
	cached := d.takeCached() // a comparison must not read it meanwhile
	defer d.returnCached(cached)
	if a.reader, err = d.newReader(ctx, root, cached); err != nil {
		return nil, err
	}
	for i, s := range steps {
		if err := a.decide(s); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a.report(0, i+1, len(steps))
	}
	for _, phase := range []func(context.Context) error{
		func(context.Context) error { return a.checkParents() }, a.prefetch, a.execute, a.verify,
	} {
		if err := phase(ctx); err != nil {
			return nil, err
		}
	}
	return a.conflicts(), nil
}

// apply is an Apply in progress.
type apply struct {
	writer  *treeWriter
	reader  *diskReader
	steps   []*step // by path
	byPath  map[string]*step
	objects *objectReader

	applied      func(done, total int64) // see Options.Applied
	unsynced     bool                    // see Dir.unsynced
	noReflinks   bool                    // the file system does not support them
	syncEach     bool
	madeWritable map[string]uint32 // directories whose mode Apply changed temporarily → the mode before
	changedDirs  map[string]bool   // directories in which names changed
}

// report reports the progress of an Apply. It reads all paths, writes them, and reads them back. The passes before this one are
// done, and so is a part of this one.
func (a *apply) report(pass, done, of int) {
	if a.applied != nil {
		const passes, unit = 3, 1000
		a.applied(int64(pass*unit+done*unit/max(of, 1)), passes*unit)
	}
}

// maxSyncEach is the largest number of written files that are synced one by one. That takes about as long
// as one sync of the whole file system, which waits for the writes of all processes.
const maxSyncEach = 64

// prefetch reads every object that will be written.
func (a *apply) prefetch(ctx context.Context) error {
	var contents []segno.Hash
	for _, s := range a.steps {
		if s.verdict == verdictRefuse || s.verdict == verdictSkip && s.To.Type != segno.EntityHardLink {
			continue
		}
		if s.To.HasContent() {
			contents = append(contents, s.To.Hash)
			if _, err := a.objects.time(ctx, s.Path); err != nil {
				return err
			}
		}
		if _, err := a.objects.xattrs(ctx, s.To.Xattrs); err != nil {
			return err
		}
	}
	a.syncEach = len(contents) <= maxSyncEach && !a.unsynced
	return a.objects.prefetch(ctx, contents)
}

// execute writes in phases. First it removes paths, deepest first. Then it makes the directories, then
// their contents. It sets the modes of directories last, because it cannot write into a directory without
// write permission.
func (a *apply) execute(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, a.restoreModes()) }()
	phases := []struct {
		deepestFirst bool
		applies      func(*step) bool
		do           func(context.Context, *step) error
	}{
		{true, (*step).removes, a.remove},
		{false, (*step).makesDir, a.makeDir},
		{false, (*step).makesEntry, a.replace},
		{false, (*step).makesLink, a.link},
		{true, (*step).setsDir, a.finishDir},
	}
	writes, done := 0, 0
	for _, p := range phases {
		for _, s := range a.steps {
			if s.verdict != verdictRefuse && p.applies(s) {
				writes++
			}
		}
	}
	for _, p := range phases {
		for i := range a.steps {
			s := a.steps[i]
			if p.deepestFirst {
				s = a.steps[len(a.steps)-1-i]
			}
			if s.verdict == verdictRefuse || !p.applies(s) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if up := a.byPath[dirOf(s.Path)]; up != nil && up.why == whySpelling {
				s.refuse(whySpelling)
			} else if err := p.do(ctx, s); isDenied(err) {
				s.refuse(a.whyDenied(s, err))
			} else if err != nil {
				return pathError("restore", s.Path, err)
			}
			done++
			a.report(1, done, writes)
		}
	}
	return a.sync()
}

// whySpelling is the conflict at a path that a case-sensitive file system stored next to another spelling
// of the same name. Writing the path would replace the other file.
const whySpelling = "the file system treats its name as equal to another name in the directory"

// whyDenied returns why a step failed with err. If the path was empty at first and its directory still
// does not list it, another step made a path that differs only in spelling.
func (a *apply) whyDenied(s *step, err error) string {
	if errors.Is(err, errMoved) && s.found.Type == segno.EntityNone {
		a.reader.forgetNames()
		if exact, err := a.reader.isExact(s.Path); err == nil && !exact {
			return whySpelling
		}
	}
	return cause(err)
}

// These methods report the phases in which a step takes part.
func (s *step) removes() bool {
	return s.verdict == verdictWrite && s.found.Type != segno.EntityNone &&
		(s.To.Type == segno.EntityNone || (s.found.Type == segno.EntityDir) != (s.To.Type == segno.EntityDir))
}
func (s *step) makesDir() bool { return s.setsDir() && s.found.Type != segno.EntityDir }
func (s *step) makesEntry() bool {
	return s.verdict == verdictWrite && (s.To.Type == segno.EntityFile || s.To.Type == segno.EntitySymlink)
}
func (s *step) makesLink() bool { return s.To.Type == segno.EntityHardLink }
func (s *step) setsDir() bool   { return s.verdict == verdictWrite && s.To.Type == segno.EntityDir }

// conflicts returns the steps that were not made.
func (a *apply) conflicts() (out []segno.Conflict) {
	for _, s := range a.steps {
		switch {
		case s.verdict == verdictRefuse:
			out = append(out, segno.Conflict{Path: s.Path, Why: s.why})
		case s.stripped:
			out = append(out, segno.Conflict{Path: s.Path, Why: whyStripped})
		}
	}
	return out
}

// verify reads back all written paths. It returns an error if a path differs from what Apply wrote, unless another process has
// changed the path since then.
func (a *apply) verify(ctx context.Context) error {
	a.reader.forget()
	for i, s := range a.steps {
		a.report(2, i+1, len(a.steps))
		if s.verdict != verdictWrite {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		now, err := a.reader.look(s.Path)
		if err != nil {
			return pathError("read back", s.Path, err)
		}
		want := s.To
		if s.stripped {
			want = strip(want)
		}
		// A marker file that this Apply wrote may protect the path.
		isLeft := s.To.Type == segno.EntityNone && now.Type == segno.EntityDir
		if isLeft || now.Type == segno.EntityProtected || equal(now.Entity, want) {
			continue
		}
		byOthers, err := a.isChangedSince(s, &now)
		if err != nil {
			return pathError("read back", s.Path, err)
		}
		if !byOthers {
			return segno.Errorf(segno.KindIO, "read back", s.Path, "its content differs from what was written")
		}
	}
	return nil
}

// isChangedSince reports whether another process has changed a path that Apply wrote. now is its present state.
func (a *apply) isChangedSince(s *step, now *present) (bool, error) {
	switch {
	case now.Type == segno.EntityNone: // or it is spelled in another way
		_, exists, err := a.reader.root.find(s.Path)
		return !exists, err
	case now.Type == segno.EntityFile && s.To.HasContent():
		return s.wrote.ino != 0 && (now.st.ino != s.wrote.ino || now.st.mtime != s.wrote.mtime || now.st.size != s.wrote.size), nil
	case now.Type == segno.EntityDir:
		return s.To.Type != segno.EntityDir, nil
	}
	return true, nil // Apply removed the path, or wrote another type or another symlink
}

// sync makes the written paths durable. It syncs many directories, or many files, together, because each
// separate sync takes milliseconds.
func (a *apply) sync() error {
	if a.unsynced {
		return nil
	}
	if !a.syncEach || len(a.changedDirs) > maxSyncEach {
		return syncAll(a.reader.root.fd)
	}
	for _, dir := range slices.Sorted(maps.Keys(a.changedDirs)) { // in order, because neighbours share open directories
		at, err := a.writer.dir(dir)
		if isAbsent(err) {
			continue
		}
		if err == nil {
			err = at.SyncDir(".")
		}
		if err != nil {
			return pathError("sync directory", dir, err)
		}
	}
	return nil
}

// cause returns the innermost text of an error about a path.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
