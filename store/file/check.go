package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
)

// checking is a check under way.
type checking struct {
	s      *Store // opened for the check, so that it has read nothing yet
	report func(error) bool
	segno.Checked
}

// errStopped ends a check that its caller has seen enough of.
var errStopped = errors.New("the check was stopped")

// found reports damage.
func (k *checking) found(err error) error {
	k.Damaged++
	if !k.report(err) {
		return errStopped
	}
	return nil
}

// Check implements [segno.Checker].
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	const op = "check"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Checked{}, err
	}
	defer end()
	cold, err := Open(s.dir, Options{Clock: s.clock, FS: s.fs})
	if err != nil {
		return segno.Checked{}, err
	}
	k := &checking{s: cold, report: report}
	err = k.all(ctx, op, p)
	if errors.Is(err, errStopped) {
		err = nil
	}
	return k.Checked, errors.Join(err, cold.Close())
}

func (k *checking) all(ctx context.Context, op string, p segno.CheckPolicy) error {
	damage, err := k.s.readAll(ctx, op)
	if err != nil {
		return err
	}
	for _, e := range damage {
		if err := k.found(e); err != nil {
			return err
		}
	}
	for _, part := range []func(context.Context, string) error{k.workspaces, k.commits, k.objects} {
		if err := part(ctx, op); err != nil {
			return err
		}
	}
	return k.references(ctx, op, p)
}

// workspaces reads every workspace's record.
func (k *checking) workspaces(ctx context.Context, op string) error {
	paths, err := k.s.workspacePaths(op)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if _, err := readWorkspace(op, path); err != nil {
			if err := k.found(err); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// commits reads every commit's entries and looks for its parent, and for where
// each thread stands.
func (k *checking) commits(ctx context.Context, op string) error {
	for _, x := range k.sorted() {
		if err := ctx.Err(); err != nil {
			return fail(op, "", err)
		}
		if x.Checkpoint != nil {
			k.Checkpoints++
		}
		nodes := make([]segno.Node, 1)
		err := k.s.loadEntries(ctx, op, []*commit{x}, nodes)
		for _, id := range []segno.CommitID{x.Parent, x.result.Head, x.result.Tip} {
			if at := k.s.known(id); err == nil && id != "" && (at == nil || !at.node && !mayBeErased(x, at)) {
				err = corrupt(op, string(x.ID), fmt.Errorf("commit %q, which it names, is missing", id))
			}
		}
		if err != nil {
			if err := k.found(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayBeErased reports whether x may name a commit that an erasure dropped: both are of deleted
// threads, and x is not loaded with it.
func mayBeErased(x, named *commit) bool {
	return x.log.hidden && named.log.hidden && (named.ID != x.Parent || !x.node)
}

// sorted are all commits, oldest first.
func (k *checking) sorted() (all []*commit) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.Threads = 0
	for _, t := range k.s.threads {
		if t.n > 0 {
			k.Threads++
		}
		all = append(all, t.commits...)
	}
	slices.SortFunc(all, func(a, b *commit) int { return cmp.Compare(a.order, b.order) })
	return all
}

// objects reads and hashes every object.
func (k *checking) objects(ctx context.Context, op string) error {
	return filepath.WalkDir(filepath.Join(k.s.dir, "objects"), func(path string, de fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fail(op, path, err)
		}
		name, err := segno.ParseHash(de.Name())
		if de.IsDir() || err != nil || name.IsZero() {
			return ctx.Err() // a directory, or a stray
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fail(op, path, err)
		}
		k.Objects++
		k.Bytes += int64(len(data))
		if segno.HashOf(data) != name {
			return k.found(corrupt(op, name.String(), errors.New("its bytes are not what it is named for")))
		}
		return ctx.Err()
	})
}

// references follows every checkpoint to every object it reaches.
func (k *checking) references(ctx context.Context, op string, p segno.CheckPolicy) error {
	seen := map[segno.Hash]bool{{}: true}
	var missing []error
	for _, x := range k.sorted() {
		if x.Checkpoint == nil {
			continue
		}
		missing = nil
		visit := func(h segno.Hash) bool {
			if seen[h] {
				return false
			}
			seen[h] = true
			ok, err := k.s.hasObject(h)
			if err == nil && !ok {
				err = fmt.Errorf("object %s, which it needs, is missing", h)
			}
			if err != nil {
				missing = append(missing, corrupt(op, string(x.ID), err))
			}
			return err == nil
		}
		if p.Trace != nil {
			if err := p.Trace(ctx, k.s.Objects(), clone(*x.Checkpoint, same), visit); err != nil {
				missing = append(missing, corrupt(op, string(x.ID), err))
			}
		}
		for _, h := range x.Checkpoint.Refs() {
			visit(h)
		}
		if err := ctx.Err(); err != nil {
			return fail(op, "", err)
		}
		for _, e := range missing {
			if err := k.found(e); err != nil {
				return err
			}
		}
	}
	return nil
}
