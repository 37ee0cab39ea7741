package workspaces

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// item is a directory or an object of the cache.
type item struct {
	path  string
	isDir bool
	bytes int64
	used  time.Time
}

// added changes the estimated size of the cache.
func (c *Cache) added(bytes int64) {
	for {
		now := c.bytes.Load()
		if now < 0 || c.bytes.CompareAndSwap(now, max(0, now+bytes)) {
			return
		}
	}
}

// makeRoom removes what was not used for the longest time until the cache is a tenth smaller than its limit. It does
// nothing if the cache is not too large, or if another process is making room.
func (c *Cache) makeRoom(ctx context.Context) error {
	if now := c.bytes.Load(); now >= 0 && now <= c.options.MaxBytes {
		return nil
	}
	lock, err := c.options.FS.OpenFile(filepath.Join(c.dir, "evict.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		defer func() { _ = errors.Join(vfs.Unlock(lock), lock.Close()) }() // as in unlock
		err = vfs.Lock(ctx, lock, 0)
	}
	if errors.Is(err, vfs.ErrLocked) {
		return nil
	}
	if err == nil {
		err = c.evict(ctx)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "make room in cache", c.dir, err)
	}
	return nil
}

// evict continues after an error: what the worker cannot remove, such as files of another user that an agent made, must not end the
// turns of all threads. The error is returned only if the cache stays too large.
func (c *Cache) evict(ctx context.Context) error {
	failure := c.emptyTrash()
	items, total, err := c.measure(ctx)
	if err != nil {
		return errors.Join(failure, err)
	}
	if failure != nil {
		left, _ := sizeOf(filepath.Join(c.dir, trashDir)) // of what can be read
		total += left
	}
	if total > c.options.MaxBytes {
		slices.SortFunc(items, func(a, b item) int { return a.used.Compare(b.used) })
		for _, x := range items {
			if total <= c.options.MaxBytes-c.options.MaxBytes/10 || ctx.Err() != nil {
				break
			}
			gone, err := c.remove(ctx, x)
			if failure = errors.Join(failure, err); err == nil && gone {
				total -= x.bytes
			}
		}
	}
	c.bytes.Store(total)
	if total <= c.options.MaxBytes {
		failure = nil
	}
	return errors.Join(failure, ctx.Err())
}

// remove removes an item, unless a process uses it.
func (c *Cache) remove(ctx context.Context, x item) (gone bool, err error) {
	if !x.isDir {
		err := c.options.FS.Remove(x.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err == nil, err
	}
	d, err := c.lock(ctx, x.path)
	if d == nil || err != nil {
		return false, err
	}
	if st, err := readState(x.path); err != nil || st.InUse && st.Boot == c.boot {
		if err := c.retire(x.path); err != nil {
			return false, errors.Join(err, d.unlock())
		}
	}
	return true, d.discard()
}

// emptyTrash removes the directories that a killed process left in the trash.
func (c *Cache) emptyTrash() error {
	trash := filepath.Join(c.dir, trashDir)
	names, err := listDir(trash)
	for _, name := range names {
		err = errors.Join(err, removeTree(filepath.Join(trash, name)))
	}
	return err
}

// measure lists everything in the cache, with its size. The size of a directory is that at its last release.
func (c *Cache) measure(ctx context.Context) (items []item, total int64, err error) {
	add := func(x item) {
		items = append(items, x)
		total += x.bytes
	}
	workspaces, err := listDir(filepath.Join(c.dir, dirsDir))
	for _, w := range workspaces {
		in := filepath.Join(c.dir, dirsDir, w)
		names, listErr := listDir(in)
		err = errors.Join(err, listErr)
		left := len(names)
		for _, name := range names {
			x := item{path: filepath.Join(in, name), isDir: true}
			if filepath.Ext(name) != "" {
				if path, ok := strings.CutSuffix(x.path, retired); ok && !c.isRetired(path) && c.options.FS.Remove(x.path) == nil {
					left--
				}
				continue
			}
			if st, err := readState(x.path); err == nil {
				x.bytes, x.used = st.Bytes, st.Used
			}
			add(x) // a directory without a state is the oldest
		}
		if left == 0 {
			_ = c.options.FS.Remove(in) // fails if a directory was made meanwhile
		}
	}
	walkErr := filepath.WalkDir(filepath.Join(c.dir, objectsDir), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var fi fs.FileInfo
			if fi, err = e.Info(); err == nil {
				add(item{path: path, bytes: fi.Size(), used: fi.ModTime()})
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, ctx.Err())
	})
	return items, total, errors.Join(err, walkErr)
}

// listDir returns the names in a directory, none if it does not exist.
func listDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// sizeOf returns the bytes that a tree occupies on the disk.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			total += int64(st.Blocks) * 512
		} else {
			total += fi.Size()
		}
		return nil
	})
	return total, err
}

// removeTree removes a tree. It first gives itself the permission to, which an agent may have removed. A process of the
// agent may still replace directories by symlinks, so nothing is reached by a path that can leave the tree.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			return root.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(err, os.RemoveAll(dir))
}
