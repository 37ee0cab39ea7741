package workspace

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// Apply gives each path the state To of its change, if its present state still equals From. It
// returns the changes that it could not make, by path.
//
// Apply decides about every change, and reads every object that it needs, before the first
// write. An error up to then has changed nothing. Apply looks at each path again right
// before it replaces it. A change of, or below, something protected is a conflict; only a path
// that To does not record stays without a conflict. Apply removes a directory only once
// it is empty; one that still contains other files stays, and that is no conflict.
//
// Apply syncs a few files one by one before it renames them, and many together at the end.
// Either way they are on disk when it returns. A process killed in between leaves each path
// old or new, but a directory without write permission may keep the permission that Apply gave it. Another
// Apply of the same changes completes the work.
func (d *Dir) Apply(ctx context.Context, changes []segno.Change, times segno.Hash) ([]segno.Conflict, error) {
	steps, err := newSteps(changes)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	a := &apply{
		steps: steps, byPath: make(map[string]*step, len(steps)), objects: newObjectReader(d.options.Objects, times),
		madeWritable: make(map[string]uint32), changedDirs: make(map[string]bool),
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
	if a.reader, err = d.newReader(ctx, root); err != nil {
		return nil, err
	}
	for _, s := range steps {
		if err := a.decide(s); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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

	syncEach     bool
	madeWritable map[string]uint32 // directories whose mode was changed for a while → their mode
	changedDirs  map[string]bool   // directories whose names changed
}

// maxSyncEach is up to how many written files are synced one by one. That takes about as
// long as one sync of the whole file system, which waits for the writes of all processes.
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
	a.syncEach = len(contents) <= maxSyncEach
	return a.objects.prefetch(ctx, contents)
}

// execute writes in phases. First it removes paths, deepest first. Then it makes the
// directories, then their contents. It sets the modes of directories last, because a
// directory that is not writable could not be filled.
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
		}
	}
	return a.sync()
}

// whySpelling is the conflict about a path that a case-sensitive file system had beside another
// spelling of it. Writing it would replace the other one.
const whySpelling = "the file system treats its name as equal to another name in the directory"

// whyDenied returns why a step failed with err. If there was nothing at the path at first and now
// its directory does not list it, another step made a path that differs only in spelling.
func (a *apply) whyDenied(s *step, err error) string {
	if errors.Is(err, errMoved) && s.found.Type == segno.EntityNone {
		clear(a.reader.listed)
		if exact, err := a.reader.isExact(s.Path); err == nil && !exact {
			return whySpelling
		}
	}
	return cause(err)
}

// These methods report in which phases a step takes part.
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

// verify reads back everything that was written.
func (a *apply) verify(ctx context.Context) error {
	a.reader.forget()
	for _, s := range a.steps {
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
		// A marker that this Apply wrote may protect the path.
		isLeft := s.To.Type == segno.EntityNone && now.Type == segno.EntityDir
		if !isLeft && now.Type != segno.EntityProtected && !equal(now.Entity, want) {
			return segno.Errorf(segno.KindIO, "read back", s.Path, "its content differs from what was written")
		}
	}
	return nil
}

// sync makes the written paths durable. It syncs many directories, like many files,
// together: one after the other takes milliseconds each.
func (a *apply) sync() error {
	if !a.syncEach || len(a.changedDirs) > maxSyncEach {
		return syncAll(a.reader.root.fd)
	}
	for _, dir := range slices.Sorted(maps.Keys(a.changedDirs)) { // neighbours share open directories
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
