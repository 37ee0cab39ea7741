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

// Fork makes dir, which must not exist while its parent must, a copy of the tree
// as it was at s. The error has [segno.KindConflict] if dir exists,
// [segno.KindRefused] if one of the two trees would be inside the other.
//
// What is there now is copied, by reflink where the file system can, everything
// is read again, and where it is not what s says it is written from the store. The
// copy stands beside dir under a temporary name until it is complete. Nothing in it
// is a hard link to the source. Protected paths are copied as they are now; without
// reflinks, those over a gigabyte or a hundred thousand entries are left out, and
// so is what cannot be copied: sockets, FIFOs, devices, unreadable files. A .git
// always comes along, and becomes the fork's own: see ownGit. No file or directory
// of the fork has setuid or setgid: they would lend the rights of another owner.
func (d *Dir) Fork(ctx context.Context, s segno.Snapshot, dir string) (segno.ForkReport, error) {
	parent, target, err := d.forkTarget(dir)
	if err != nil {
		return segno.ForkReport{}, err
	}
	defer parent.Close()
	if d.config.ForkNote != "" {
		if err := RemoveAbandonedFork(ctx, d.config.FS, d.config.ForkNote); err != nil {
			return segno.ForkReport{}, err
		}
	}
	f := &fork{from: d, parent: parent, name: forkTempName(), target: target, scratch: newScratch(d.config.Objects)}
	f.temp = filepath.Join(filepath.Dir(target), f.name)
	err = f.make(ctx, s)
	if ended := f.end(err != nil); err == nil {
		err = ended
	}
	if err != nil {
		return segno.ForkReport{}, pathError("fork", target, err)
	}
	slices.Sort(f.leftOut)
	return segno.ForkReport{Root: target, How: f.how, Files: s.Files, LeftOut: slices.Compact(f.leftOut)}, nil
}

// forkTarget returns the real path the fork is to have, and the directory it is to be in.
func (d *Dir) forkTarget(dir string) (in vfs.Root, target string, err error) {
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
	if in, err = d.config.FS.OpenRoot(parent); err != nil {
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

// fork is one Fork under way.
type fork struct {
	from    *Dir
	parent  vfs.Root // the directory that the fork is made in
	name    string   // of the copy in parent
	temp    string   // its path until it is complete
	to      *hands   // on the copy
	target  string
	scratch *scratch
	how     string
	leftOut []string
}

func (f *fork) make(ctx context.Context, s segno.Snapshot) error {
	view, err := f.from.look(ctx, f.scratch, f.scratch, nil)
	if err != nil {
		return err
	}
	defer view.close()
	if err := f.begin(); err != nil {
		return err
	}
	copied, err := f.copyPresent(ctx, view)
	if err != nil {
		return err
	}
	if err := f.ownGit(ctx, view.root, copied.gits); err != nil {
		return err
	}
	if err := f.correct(ctx, s); err != nil {
		return err
	}
	if err := f.settle(view.self.perm() &^ setIDs); err != nil {
		return err
	}
	return f.complete()
}

// settle gives the copy the mode of the source and makes it durable.
func (f *fork) settle(mode uint32) error {
	if err := syncAll(f.to.top); err != nil {
		return err
	}
	return chmodDir(f.to.top, mode)
}

// correct makes the copy what s says, wherever it is not. It looks again while
// there are conflicts: what a file marked as protected is so no longer once that
// file is gone.
func (f *fork) correct(ctx context.Context, s segno.Snapshot) error {
	d, err := Open(Config{ID: f.from.config.ID, Root: f.temp, Objects: f.scratch, FS: f.from.config.FS})
	if err != nil {
		return err
	}
	d.Cover(segno.Coverage{Tree: s.Tree, Strict: true})
	var steps []segno.Change
	var conflicts, before []segno.Conflict
	for first := true; first || !slices.Equal(conflicts, before); first = false {
		now, err := d.look(ctx, f.scratch, f.scratch, nil)
		if err != nil {
			return err
		}
		now.close()
		if steps, err = changes(ctx, f.scratch, now.top.tree, s.Tree); err != nil {
			return err
		}
		steps = slices.DeleteFunc(steps, changesGitFile) // the fork has its own
		before = conflicts
		if conflicts, err = d.Apply(ctx, stripAll(steps), s.Times); err != nil {
			return err
		}
		if len(conflicts) == 0 {
			return f.setTimes(ctx, d, now.top, s)
		}
	}
	if err := f.excuse(steps, conflicts); err != nil {
		return err
	}
	now, err := d.look(ctx, f.scratch, f.scratch, nil)
	if err != nil {
		return err
	}
	now.close()
	return f.setTimes(ctx, d, now.top, s)
}

// stripAll returns steps to a tree without setuid and setgid: a fork belongs to the
// caller, and its files must not lend the caller's rights to other users.
func stripAll(steps []segno.Change) (out []segno.Change) {
	for _, s := range steps {
		if s.To = strip(s.To); s.From != s.To {
			out = append(out, s)
		}
	}
	return out
}

// excuse accepts that steps could not be taken, as long as each is about something
// that is protected on one side, or in it. What is not there at all was left out.
func (f *fork) excuse(steps []segno.Change, conflicts []segno.Conflict) error {
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
		if _, there, err := f.to.stat(c.Path); err == nil && !there {
			f.leave(c.Path)
		}
	}
	return nil
}

// setTimes gives the files of the copy, as now has them, the times they had in the
// snapshot. Those that were written since have theirs.
func (f *fork) setTimes(ctx context.Context, d *Dir, now *node, s segno.Snapshot) error {
	hands, err := d.open()
	if err != nil {
		return err
	}
	defer hands.close()
	times := newSupply(f.scratch, s.Times)
	var set func(n *node) error
	set = func(n *node) error {
		for i := range n.entries {
			e := &n.entries[i]
			var err error
			switch e.kind {
			case kindDir:
				err = set(e.child)
			case kindFile:
				err = setTime(ctx, hands, times, join(n.path, e.name), e.st)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return set(now)
}

// setTime gives one file its time, if it is still the one that was seen.
func setTime(ctx context.Context, h *hands, times *supply, p string, was stat) error {
	mtime, known, err := times.mtime(ctx, p)
	if err != nil || !known || mtime == was.mtime {
		return err
	}
	now, ok, err := h.stat(p)
	if err != nil || !ok || !now.is(typeFile) || now.mtime == mtime {
		return err
	}
	at, name, err := h.parent(p)
	if err != nil {
		return err
	}
	return at.Chtimes(name, time.Time{}, time.Unix(0, mtime))
}

// scratch is a store's objects and, in memory, those of trees that are only looked
// at. Contents are named and dropped.
type scratch struct {
	segno.Objects
	seen *recent
}

func newScratch(objects segno.Objects) *scratch { return &scratch{objects, newRecent(objects)} }

func (s *scratch) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	return s.seen.Get(ctx, name)
}

func (s *scratch) content(_ context.Context, data []byte) (segno.Hash, error) {
	return segno.HashOf(data), nil
}

func (s *scratch) object(_ context.Context, data []byte) (segno.Hash, error) {
	name := segno.HashOf(data)
	s.seen.keep(name, data)
	return name, nil
}
