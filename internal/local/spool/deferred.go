package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// Defer durably saves commits for a store that is busy. A lock guards the numbers of the files,
// because two processes may defer commits at the same time.
func (d *Dir) Defer(ctx context.Context, commits []segno.Commit) (err error) {
	defer annotate(&err, "defer commits")
	data, err := json.Marshal(commits)
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, d.fsys, filepath.Join(d.path, "locks", "deferred-names"))
	if err != nil {
		return err
	}
	defer unlock()
	last := 0
	for _, suffix := range []string{".json", ".json" + failedSuffix} { // a file that is set aside keeps its number
		names, err := d.list("deferred", suffix)
		if err != nil {
			return err
		}
		for _, name := range names {
			if n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), suffix)); err == nil { // a user may have made another file
				last = max(last, n)
			}
		}
	}
	return d.writeFile(filepath.Join(d.path, "deferred", fmt.Sprintf("%012d.json", last+1)), data)
}

// ReplayDeferred applies the deferred commits, oldest first.
func (d *Dir) ReplayDeferred(ctx context.Context, apply func(segno.Commit) error) error {
	if names, err := d.list("deferred", ".json"); err != nil || len(names) == 0 {
		return err
	}
	unlock, err := lock(ctx, d.fsys, filepath.Join(d.path, "locks", "deferred"))
	if err != nil {
		return err
	}
	defer unlock()
	names, err := d.list("deferred", ".json") // read again under the lock: another process may have applied some
	for _, name := range names {
		if err := d.applyDeferred(name, apply); err != nil {
			return fmt.Errorf("apply deferred commits: %w", err)
		}
	}
	return err
}

// ListDeferred returns the deferred commits, oldest first.
func (d *Dir) ListDeferred(ctx context.Context) (all []segno.Commit, err error) {
	names, err := d.list("deferred", ".json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		commits, err := d.readDeferred(name)
		if err != nil && !errors.Is(err, segno.KindCorrupt) { // ReplayDeferred returns the error about a damaged file
			return nil, err
		}
		all = append(all, commits...)
	}
	return all, ctx.Err()
}

// WithoutStagedBytes returns the content of a file of deferred commits without the bytes of the objects that the commits staged. They
// are encoded for one form of the store. The store must have the objects. A damaged file stays as it is.
func WithoutStagedBytes(file []byte) []byte {
	var commits []segno.Commit
	if json.Unmarshal(file, &commits) != nil {
		return file
	}
	for i := range commits {
		for j := range commits[i].Staged.Objects {
			commits[i].Staged.Objects[j].Data = nil
		}
	}
	out, err := json.Marshal(commits)
	if err != nil {
		return file
	}
	return out
}

// readDeferred reads the commits of one file, or nil if the file is gone.
func (d *Dir) readDeferred(name string) (commits []segno.Commit, err error) {
	data, err := d.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // another process has applied them in the meantime
	}
	if segno.KindOf(err) == segno.KindCorrupt {
		return nil, damagedCommits(name, err)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read deferred commits", name, err)
	}
	if err := json.Unmarshal(data, &commits); err != nil {
		return nil, damagedCommits(name, err)
	}
	return commits, nil
}

func damagedCommits(name string, err error) error {
	return segno.NewError(segno.KindCorrupt, "read deferred commits", name, err).
		WithHint("the file is kept as .failed; the turns in it are not in the log")
}

// applyDeferred applies the commits of one file in order and deletes the file. The file stays if a
// later attempt may succeed. If the process ends before the deletion, the file remains although its
// commits were applied. So apply must accept the same commit twice.
func (d *Dir) applyDeferred(name string, apply func(segno.Commit) error) error {
	commits, err := d.readDeferred(name)
	if commits == nil && err == nil {
		return nil
	}
	for i := 0; i < len(commits) && err == nil; i++ {
		err = apply(commits[i])
	}
	switch segno.KindOf(err) {
	case segno.KindBusy, segno.KindCancelled, segno.KindIO, segno.KindFenced:
		return err // it may succeed later, or in another process
	}
	if err == nil {
		return d.fsys.Remove(name)
	}
	// The commit can never succeed. Set the file aside, so that the next call applies the later
	// commits.
	if moved := d.fsys.Rename(name, name+failedSuffix); moved != nil {
		return errors.Join(moved, err)
	}
	return fmt.Errorf("a turn could not be committed, it is kept in %s: %w", name+failedSuffix, err)
}

// failedSuffix marks files that were set aside.
const failedSuffix = ".failed"

// Failed returns the files of turns and commits that were set aside.
func (d *Dir) Failed() (all []string, err error) {
	for _, dir := range []string{"turns", "deferred"} {
		names, err := d.list(dir, failedSuffix)
		if err != nil {
			return nil, fmt.Errorf("list failed turns: %w", err)
		}
		all = append(all, names...)
	}
	return all, nil
}
