package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// scratchPrefix begins the name of a scratch copy. 26 letters and digits follow it. The name has no dot at its beginning,
// because some tools ignore all files below a hidden directory.
const scratchPrefix = "segno-scratch-"

// Scratch is a copy of a tree in which programs run on one snapshot after the other. It need not survive a crash of the
// machine, so it syncs nothing.
type Scratch struct {
	dir     *Dir
	objects *objectCache
	// Protected are the protected paths of the tree, such as .git and node_modules. The copy has them as they were when
	// it was made. LeftOut are those that it lacks. Only Dir.Scratch sets them.
	Protected, LeftOut []string
	// KeepTimes makes Reset write the times of the snapshot instead of new ones. It is for a copy in which no program has
	// run yet.
	KeepTimes bool

	written []string // files that Reset wrote and that do not have their new times yet
}

// ScratchOptions configure [Dir.Scratch].
type ScratchOptions struct {
	In string // the directory that will contain the copy, outside the tree
	// Index returns the path of the index of a copy; see Options.Index.
	Index func(path string) string
	// Announce is called with the path of the copy before the copy exists. The caller records the path, so that it can
	// call RemoveScratch after the process was killed.
	Announce func(path string) error
}

// Scratch copies the present tree to a new directory. Protected paths and repositories are copied as [Dir.Fork] copies
// them. The source is only read. The caller must hold the workspace's lock.
func (d *Dir) Scratch(ctx context.Context, o ScratchOptions) (*Scratch, error) {
	parent, target, err := d.openForkParent(filepath.Join(o.In, scratchPrefix+rand.Text()))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := o.Announce(target); err != nil {
		return nil, err
	}
	f := &fork{from: d, parent: parent, name: filepath.Base(target), temp: target, target: target, objects: newObjectCache(d.options.Objects)}
	s, err := f.scratch(ctx, o)
	if cleanupErr := f.cleanup(err != nil); err == nil {
		err = cleanupErr
	}
	if err != nil {
		return nil, pathError("make scratch copy", target, err)
	}
	return s, nil
}

func (f *fork) scratch(ctx context.Context, o ScratchOptions) (*Scratch, error) {
	mode, err := f.copyTree(ctx)
	if err != nil {
		return nil, err
	}
	if err := chmodDir(f.to.top, mode); err != nil {
		return nil, err
	}
	s, err := f.from.OpenScratch(f.target, o.Index(f.target))
	if err == nil {
		s.Protected, s.LeftOut = slices.Sorted(slices.Values(f.guarded)), slices.Sorted(slices.Values(f.leftOut))
	}
	return s, err
}

// OpenScratch opens a scratch copy that an earlier process made. The error has [segno.KindRefused] for any other directory,
// because Reset would overwrite it.
func (d *Dir) OpenScratch(path, index string) (*Scratch, error) {
	s, err := OpenScratch(path, Options{ID: d.options.ID, Objects: d.options.Objects, FS: d.options.FS, Index: index,
		Sealer: d.options.Sealer, GitIgnore: d.options.GitIgnore})
	if err != nil {
		return nil, err
	}
	if !hasRandomName(path, scratchPrefix) || s.Root() != path {
		return nil, segno.Errorf(segno.KindRefused, "open scratch copy", path, "it is another directory")
	}
	return s, nil
}

// OpenScratch makes a directory a scratch copy. It may be empty. The directory must belong to the caller alone: Reset
// overwrites everything in it that a snapshot can contain, without a check that a store has it.
func OpenScratch(path string, o Options) (*Scratch, error) {
	objects := newObjectCache(o.Objects)
	o.Objects = objects
	to, err := Open(path, o)
	if err != nil {
		return nil, err
	}
	to.unsynced = true
	return &Scratch{dir: to, objects: objects}, nil
}

// Root returns the path of the copy.
func (s *Scratch) Root() string { return s.dir.root }

// Reset makes the copy equal to a snapshot: it also undoes what programs changed, added or removed there. It leaves protected
// paths as they are. It returns the paths for which that is not possible, because the snapshot and the copy disagree
// about what is protected, with the reasons.
//
// Without KeepTimes, the files that Reset writes are newer than all others, in the order of the times in the snapshot.
// Otherwise a build that compares times, as those of make and cargo do, would not see the changes.
func (s *Scratch) Reset(ctx context.Context, to segno.Snapshot) (missing []segno.Conflict, err error) {
	r := copyRestore{dir: s.dir, objects: s.objects, saveIndex: true}
	err = r.run(ctx, to)
	s.written = append(s.written, r.written...) // a reset that failed may have written some, and the next one finds them equal
	if err != nil {
		return nil, err
	}
	lacks := map[string]bool{} // protected paths that the present tree does not have, either
	for _, x := range r.steps {
		lacks[x.Path] = x.From.Type == segno.EntityNone && x.To.Type == segno.EntityProtected
	}
	for _, c := range r.conflicts {
		if !lacks[c.Path] {
			missing = append(missing, c)
		}
	}
	if s.KeepTimes {
		s.written = nil
		return missing, nil
	}
	return missing, s.renew()
}

// renew sets the times of the written files to the present, in the order of the times that they have.
func (s *Scratch) renew() error {
	root, err := openRoot(s.dir.root)
	if err != nil {
		return err
	}
	defer root.close()
	type file struct {
		path  string
		mtime int64
	}
	var files []file
	for _, p := range s.written {
		if st, ok, err := root.find(p); err == nil && ok && st.is(typeFile) {
			files = append(files, file{p, st.mtime})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(a.mtime, b.mtime) })
	to, err := s.dir.openWriter()
	if err != nil {
		return err
	}
	defer to.close()
	at := time.Now().Add(-time.Duration(len(files)) * time.Microsecond) // a time in the future would confuse make
	for i, f := range files {
		if i > 0 && f.mtime != files[i-1].mtime {
			at = at.Add(time.Microsecond)
		}
		if err := to.in(f.path, func(in vfs.Root, name string) error { return in.Chtimes(name, time.Time{}, at) }); err != nil {
			return pathError("set time", f.path, err)
		}
	}
	s.written = nil
	return nil
}

// RemoveScratch removes the scratch copy at a path, if it exists. It does nothing if no scratch copy can have that path.
func RemoveScratch(fsys vfs.FS, path string) error {
	if !hasRandomName(path, scratchPrefix) {
		return nil
	}
	if err := removeCopy(fsys, path); err != nil {
		return segno.NewError(segno.KindIO, "remove scratch copy", path, err).WithHint("remove that directory yourself")
	}
	return nil
}
