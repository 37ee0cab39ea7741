package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Fork copies the tree as it was at s to dir. dir must not exist, but its parent must. The
// error has [segno.KindConflict] if dir exists, and [segno.KindRefused] if one of the two trees
// would be inside the other.
//
// Fork copies the present tree, by reflink if the file system supports it, and scans the copy.
// Where the copy differs from s, Fork writes it from the store. The copy is beside dir under a
// temporary name until it is complete. It contains no hard link to the source. Protected paths
// are copied as they are now, except a file whose content s has; without reflinks, Fork leaves out those over a gigabyte or a
// hundred thousand entries. It always leaves out sockets, FIFOs, devices, unreadable files and
// directories that are too deep for a snapshot. It copies each .git and makes the copy
// independent of the source: see makeGitIndependent. No file or directory of the fork has
// setuid or setgid, because they would grant the rights of another owner.
func (d *Dir) Fork(ctx context.Context, s segno.Snapshot, dir string) (segno.ForkReport, error) {
	parent, target, err := d.openForkParent(dir)
	if err != nil {
		return segno.ForkReport{}, err
	}
	defer parent.Close()
	if d.options.ForkNote != "" {
		if err := RemoveAbandonedFork(ctx, d.options.FS, d.options.ForkNote); err != nil {
			return segno.ForkReport{}, err
		}
	}
	f := &fork{from: d, parent: parent, note: d.options.ForkNote, name: forkTempName(), target: target, objects: newObjectCache(d.options.Objects)}
	f.temp = filepath.Join(filepath.Dir(target), f.name)
	err = f.run(ctx, s)
	if cleanupErr := f.cleanup(err != nil); err == nil {
		err = cleanupErr
	}
	if err != nil {
		return segno.ForkReport{}, pathError("fork", target, err)
	}
	slices.Sort(f.leftOut)
	return segno.ForkReport{Root: target, How: f.how, Files: s.Files, LeftOut: slices.Compact(f.leftOut)}, nil
}

// openForkParent opens the directory that will contain the fork, and returns the fork's real
// path.
func (d *Dir) openForkParent(dir string) (in vfs.Root, target string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", pathError("fork", dir, err)
	}
	parent, err := realDir(filepath.Dir(abs))
	if err != nil {
		return nil, "", pathError("fork", filepath.Dir(abs), err)
	}
	target = filepath.Join(parent, filepath.Base(abs))
	refuse := func(kind segno.Kind, why string) error {
		return segno.Errorf(kind, "fork", target, "%s", why).WithHint("name a directory that does not exist, beside the workspace")
	}
	if _, ok := inside(d.root, target); ok {
		return nil, "", refuse(segno.KindRefused, "it is inside the workspace")
	}
	if _, ok := inside(target, d.root); ok {
		return nil, "", refuse(segno.KindRefused, "the workspace is inside it")
	}
	if in, err = d.options.FS.OpenRoot(parent); err != nil {
		return nil, "", pathError("fork", parent, err)
	}
	if _, err = in.Lstat(filepath.Base(target)); errors.Is(err, fs.ErrNotExist) {
		return in, target, nil
	}
	in.Close()
	if err == nil {
		return nil, "", refuse(segno.KindConflict, "it exists already")
	}
	return nil, "", pathError("fork", target, err)
}

// fork is a Fork in progress.
type fork struct {
	from    *Dir
	parent  vfs.Root    // the directory that contains the fork
	note    string      // see Options.ForkNote; "" writes none
	name    string      // of the copy in parent
	temp    string      // the copy's path until it is complete
	to      *treeWriter // of the copy
	copied  *dirHandle  // the copy, for reading
	target  string
	objects *objectCache
	how     string
	leftOut []string
	guarded []string // the protected paths that the copy has
}

func (f *fork) run(ctx context.Context, s segno.Snapshot) error {
	mode, err := f.copyTree(ctx)
	if err != nil {
		return err
	}
	if err := f.restoreSnapshot(ctx, s); err != nil {
		return err
	}
	if err := syncAll(f.copied.fd); err != nil {
		return err
	}
	if err := chmodDir(f.to.top, mode); err != nil {
		return err
	}
	return f.rename()
}

// copyTree copies the present tree to the temporary directory, and makes its repositories independent of the source's.
// It returns the mode of the root.
func (f *fork) copyTree(ctx context.Context) (mode uint32, err error) {
	view, err := f.from.scanTree(ctx, objectWriter{cache: f.objects}, nil, false)
	if err != nil {
		return 0, err
	}
	defer view.close()
	if err := f.createTemp(); err != nil {
		return 0, err
	}
	list, err := f.copyPresent(ctx, view)
	if err != nil {
		return 0, err
	}
	return view.self.perm() &^ setIDs, f.makeGitIndependent(ctx, view.root, list.gits)
}

// restoreSnapshot writes the copy wherever it differs from s.
func (f *fork) restoreSnapshot(ctx context.Context, s segno.Snapshot) error {
	d, err := Open(f.temp, Options{ID: f.from.options.ID, Objects: f.objects, FS: f.from.options.FS})
	if err != nil {
		return err
	}
	r := copyRestore{dir: d, objects: f.objects, remove: f.removeFile}
	if err := r.run(ctx, s); err != nil {
		return err
	}
	if err := f.acceptConflicts(r.steps, r.conflicts); err != nil {
		return err
	}
	return f.setTimes(ctx, r.scanned, s)
}

// copyRestore writes a copy of a tree wherever it differs from a snapshot.
type copyRestore struct {
	dir       *Dir // of the copy
	objects   *objectCache
	saveIndex bool
	// remove removes a protected path that the snapshot saved from the copy, unless it is a directory, and reports whether it
	// did. nil leaves the path as it is.
	remove func(path string) (bool, error)

	scanned   *node // the copy before the last changes
	steps     []segno.Change
	conflicts []segno.Conflict
	written   []string // files
}

// run repeats the changes as long as the conflicts change, because a path that a marker file protected may be written
// once that file is removed.
func (r *copyRestore) run(ctx context.Context, s segno.Snapshot) error {
	r.dir.Cover(segno.Coverage{Tree: s.Tree, Strict: true})
	for {
		before := r.conflicts
		if err := r.scan(ctx); err != nil {
			return err
		}
		steps, err := changes(ctx, r.objects, r.scanned.tree, s.Tree)
		if err != nil {
			return err
		}
		r.steps = slices.DeleteFunc(steps, changesGitFile) // the copy keeps its own .git file
		if removed, err := r.removeProtected(); err != nil {
			return err
		} else if removed {
			continue
		}
		for i := range r.steps {
			x := &r.steps[i]
			if x.To.HasContent() {
				r.written = append(r.written, x.Path)
			}
			if x.To.Why == segno.WhyDatabase && x.From.Type != segno.EntityProtected {
				x.To = segno.Entity{} // no copy has attached databases; a program made this file
			}
		}
		r.conflicts, err = r.dir.Apply(ctx, stripAll(r.steps), s.Times)
		if err != nil || len(r.conflicts) == 0 || slices.Equal(r.conflicts, before) {
			return err
		}
	}
}

// removeProtected removes the files that are protected in the copy and that the snapshot saved, such as a file that has
// become too large. Apply would keep them, because it protects content that no store has, but the source has it.
func (r *copyRestore) removeProtected() (removed bool, err error) {
	for _, x := range r.steps {
		if r.remove == nil || x.From.Type != segno.EntityProtected || !isSavedEntity(x.To) {
			continue
		}
		did, err := r.remove(x.Path)
		if err != nil {
			return false, err
		}
		removed = removed || did
	}
	return removed, nil
}

func isSavedEntity(e segno.Entity) bool {
	return e.Type != segno.EntityNone && e.Type != segno.EntityProtected
}

// removeFile removes a path of the copy unless it is a directory.
func (f *fork) removeFile(p string) (bool, error) {
	st, exists, err := f.copied.find(p)
	if err != nil || !exists || st.is(typeDir) {
		return false, err
	}
	return true, f.to.in(p, removeFromReadOnly)
}

func (r *copyRestore) scan(ctx context.Context) error {
	v, err := r.dir.scanTree(ctx, objectWriter{cache: r.objects}, nil, false)
	if err != nil {
		return err
	}
	defer v.close()
	r.scanned = v.top
	if r.saveIndex {
		err = errors.Join(v.removeStrays(), v.saveIndex())
	}
	return err
}

// stripAll returns changes to a tree without setuid and setgid. The fork belongs to the caller,
// and its files must not grant the caller's rights to other users.
func stripAll(steps []segno.Change) (out []segno.Change) {
	for _, s := range steps {
		if s.To = strip(s.To); s.From != s.To {
			out = append(out, s)
		}
	}
	return out
}

// acceptConflicts accepts conflicts at and below paths that are protected on one side, and
// returns an error for any other. It ignores paths that do not exist in the copy, because they
// were left out.
func (f *fork) acceptConflicts(steps []segno.Change, conflicts []segno.Conflict) error {
	guards := make(map[string]bool)
	for _, s := range steps {
		if s.From.Type == segno.EntityProtected || s.To.Type == segno.EntityProtected {
			guards[s.Path] = true
		}
	}
	for _, c := range conflicts {
		at := c.Path
		for at != "." && !guards[at] {
			at = path.Dir(at)
		}
		if at == "." {
			return segno.Errorf(segno.KindConflict, "fork", c.Path, "%s", c.Why)
		}
		if _, exists, err := f.copied.find(c.Path); err == nil && !exists {
			f.leaveOut(c.Path)
		}
	}
	return nil
}

// setTimes sets the times of the copy's files to those in the snapshot. now is a scan of the
// copy. Files that were written after that scan already have their times.
func (f *fork) setTimes(ctx context.Context, now *node, s segno.Snapshot) (err error) {
	f.to.closeDirs() // Apply may have replaced a directory that is still open
	times := newObjectReader(f.objects, s.Times)
	now.each(func(n *node, e *entry) {
		if err == nil && e.kind == kindFile {
			err = f.setTime(ctx, times, join(n.path, e.name), e.st)
		}
	})
	return err
}

// setTime sets the time of one file unless the file already has it.
func (f *fork) setTime(ctx context.Context, times *objectReader, p string, was stat) error {
	saved, err := times.time(ctx, p)
	if err != nil || saved == nil || !saved.child.IsZero() || saved.mtime == was.mtime {
		return err
	}
	now, ok, err := f.copied.find(p)
	if err != nil || !ok || !now.is(typeFile) || now.mtime == saved.mtime {
		return err
	}
	return f.to.in(p, func(at vfs.Root, name string) error { return at.Chtimes(name, time.Time{}, time.Unix(0, saved.mtime)) })
}
