package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Defer keeps commits that found the store busy.
func (d *Dir) Defer(ctx context.Context, commits []segno.Commit) error {
	data, err := json.Marshal(commits)
	if err != nil {
		return fmt.Errorf("defer commits: %w", err)
	}
	dir := filepath.Join(d.path, "deferred")
	if err := vfs.MkdirAll(d.fsys, dir); err != nil {
		return fmt.Errorf("defer commits: %w", err)
	}
	unlock, err := lock(ctx, d.fsys, filepath.Join(d.path, "locks", "deferred-names"))
	if err != nil {
		return err
	}
	defer unlock()
	next, err := nextNumber(dir)
	if err != nil {
		return fmt.Errorf("defer commits: %w", err)
	}
	if err := vfs.Replace(d.fsys, filepath.Join(dir, fmt.Sprintf("%012d.json", next)), data, 0o600); err != nil {
		return fmt.Errorf("defer commits: %w", err)
	}
	return nil
}

func nextNumber(dir string) (int, error) {
	names, err := list(dir, ".json")
	if err != nil || len(names) == 0 {
		return 1, err
	}
	last := strings.TrimSuffix(filepath.Base(names[len(names)-1]), ".json")
	n, err := strconv.Atoi(last)
	if err != nil {
		return 0, fmt.Errorf("read name %s: %w", last, err)
	}
	return n + 1, nil
}

// Deferred applies the deferred commits, oldest first.
func (d *Dir) Deferred(ctx context.Context, apply func(segno.Commit) error) error {
	dir := filepath.Join(d.path, "deferred")
	names, err := list(dir, ".json")
	if err != nil || len(names) == 0 {
		return err
	}
	unlock, err := lock(ctx, d.fsys, filepath.Join(d.path, "locks", "deferred"))
	if err != nil {
		return err
	}
	defer unlock()
	if names, err = list(dir, ".json"); err != nil {
		return err
	}
	for _, name := range names {
		if err := d.applyDeferred(name, apply); err != nil {
			return fmt.Errorf("apply deferred commits: %w", err)
		}
	}
	return nil
}

// Waiting returns the deferred commits, oldest first.
func (d *Dir) Waiting(ctx context.Context) (all []segno.Commit, err error) {
	names, err := list(filepath.Join(d.path, "deferred"), ".json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		commits, err := readDeferred(name)
		if segno.KindOf(err) == segno.KindCorrupt {
			continue // Deferred sets it aside and says so
		}
		if err != nil {
			return nil, err
		}
		all = append(all, commits...)
	}
	return all, ctx.Err()
}

func readDeferred(name string) (commits []segno.Commit, err error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // applied by somebody else meanwhile
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &commits); err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read deferred commits", name, err).WithHint("it is kept beside as .failed; the turns in it are not in the log")
	}
	return commits, nil
}

func (d *Dir) applyDeferred(name string, apply func(segno.Commit) error) error {
	commits, err := readDeferred(name)
	if segno.KindOf(err) == segno.KindCorrupt {
		return errors.Join(err, d.fsys.Rename(name, name+failedSuffix))
	}
	if err != nil || commits == nil {
		return err
	}
	for _, c := range commits {
		err := apply(c)
		switch segno.KindOf(err) {
		case segno.KindBusy, segno.KindCancelled, segno.KindIO, segno.KindFenced:
			return err // it may go through another time, or for somebody else
		}
		if err != nil {
			// It never will. It is kept aside, and what waits behind it goes on.
			if moved := d.fsys.Rename(name, name+failedSuffix); moved != nil {
				return moved
			}
			return fmt.Errorf("a turn could not be committed, it is kept in %s: %w", name+failedSuffix, err)
		}
	}
	return d.fsys.Remove(name)
}

// failedSuffix marks commits that cannot be applied.
const failedSuffix = ".failed"

// Failed returns the files of turns and commits that were set aside.
func (d *Dir) Failed() ([]string, error) {
	var all []string
	for _, dir := range []string{"turns", "deferred"} {
		names, err := list(filepath.Join(d.path, dir), failedSuffix)
		if err != nil {
			return nil, fmt.Errorf("list what was set aside: %w", err)
		}
		all = append(all, names...)
	}
	return all, nil
}
