package workspaces

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

const (
	objectsDir = "objects"
	dirsDir    = "dirs"
	trashDir   = "trash"
)

// defaultMaxBytes is the default of Options.MaxBytes.
const defaultMaxBytes = 20 << 30

// Options configure a [Cache].
type Options struct {
	Objects segno.Objects // of the store that has the snapshots; required
	// MaxBytes limits the size of the cache. Directories in use are not removed, so the cache may exceed it. 0 means 20 GiB.
	MaxBytes int64
	// Prepare, if not nil, is called with each new directory before the files of the snapshot are written, for example
	// to clone a repository there. A new workspace begins with these files. For others, what remains of them is what no
	// snapshot contains, such as .git.
	Prepare func(ctx context.Context, files string) error
	Now     func() time.Time // nil means [time.Now]
	FS      vfs.FS           // makes all writes; nil means [vfs.OS]
}

// Cache is a worker's cache of directories. Goroutines and processes may use the same cache at once.
type Cache struct {
	dir     string
	options Options
	objects *objects
	boot    string
	bytes   atomic.Int64 // estimated size; negative until it is measured
}

// Open opens a cache, and creates it if it does not exist. The error has [segno.KindInvalid] if an option is missing.
func Open(dir string, o Options) (*Cache, error) {
	const op = "open cache"
	if o.Objects == nil || dir == "" || o.MaxBytes < 0 {
		return nil, segno.Errorf(segno.KindInvalid, op, dir, "it needs a directory, objects, and a positive size")
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = vfs.MkdirAll(o.FS, abs)
	}
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	for _, name := range []string{objectsDir, dirsDir, trashDir} {
		if err == nil {
			err = vfs.MkdirAll(o.FS, filepath.Join(abs, name))
		}
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, dir, err)
	}
	c := &Cache{dir: abs, options: o, boot: bootID()}
	c.objects = &objects{Objects: o.Objects, dir: filepath.Join(abs, objectsDir), fs: o.FS, now: o.Now, added: c.added}
	c.bytes.Store(-1)
	return c, nil
}

// bootID identifies this start of the machine. It is "" if the system does not report it.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(id)
}

// Checkout makes a directory whose files are equal to a snapshot, and gives it to the caller until
// [Checkout.Release]. A directory that was released for the same [segno.Snapshot.Workspace] is used again; protected
// paths in it stay as they are. The zero Tree stands for a new workspace: the directory then has the files that
// Options.Prepare made.
//
// The error has [segno.KindCorrupt] if the store lacks an object of the snapshot, and [segno.KindIO] if the disk is full.
func (c *Cache) Checkout(ctx context.Context, s segno.Snapshot) (*Checkout, error) {
	if s.Workspace == "" {
		return nil, segno.Errorf(segno.KindInvalid, "check out", "", "the snapshot names no workspace")
	}
	d, err := c.acquire(ctx, s)
	if err != nil {
		return nil, checkoutError(s, err)
	}
	if err := d.reset(ctx, s); err != nil {
		return nil, checkoutError(s, errors.Join(err, d.discard()))
	}
	return d, nil
}

func checkoutError(s segno.Snapshot, err error) error {
	kind := segno.KindOf(err)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return segno.NewError(segno.KindIO, "check out", string(s.Workspace), err).
			WithHint("free space on the disk of the cache, or lower the limit of the cache")
	case kind == segno.KindNotFound: // the snapshot proves that the object existed
		kind = segno.KindCorrupt
	case kind == segno.KindInternal && !errors.Is(err, context.Canceled):
		kind = segno.KindIO
	}
	return segno.NewError(kind, "check out", string(s.Workspace), err)
}

// acquire locks the best directory of a workspace: one with the same tree, else the newest one. If all are in use or there
// is none, it makes a new one.
func (c *Cache) acquire(ctx context.Context, s segno.Snapshot) (*Checkout, error) {
	in := filepath.Join(c.dir, dirsDir, segno.DerivedID("workspace", string(s.Workspace)))
	names, err := listDir(in)
	if err != nil {
		return nil, err
	}
	type candidate struct {
		path string
		state
	}
	var all []candidate
	if s.Tree.IsZero() {
		names = nil
	}
	for _, name := range names {
		if filepath.Ext(name) != "" {
			continue // see retire
		}
		path := filepath.Join(in, name)
		st, _ := readState(path) // without a state, the directory is not reusable
		all = append(all, candidate{path, st})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if x, y := a.Tree == s.Tree, b.Tree == s.Tree; x != y {
			if x {
				return -1
			}
			return 1
		}
		return b.Used.Compare(a.Used)
	})
	for _, k := range all {
		d, err := c.lock(ctx, k.path)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		if st, err := readState(k.path); err == nil && c.isReusable(&st) && st.Workspace == s.Workspace {
			d.state, d.warm = st, true
			if err := d.begin(); err != nil {
				return nil, errors.Join(err, d.unlock()) // it is as it was
			}
			return d, nil
		}
		if err := c.retire(k.path); err != nil {
			return nil, errors.Join(err, d.unlock())
		}
		if err := d.discard(); err != nil {
			return nil, err
		}
	}
	return c.create(ctx, in, s.Workspace)
}

// retire records that the processes of a dead worker may still use a path, so that no other directory gets it.
func (c *Cache) retire(path string) error {
	return writeFile(c.options.FS, path+retired, []byte(c.boot))
}

// isRetired reports whether retire was called for a path since the machine started.
func (c *Cache) isRetired(path string) bool {
	boot, err := os.ReadFile(path + retired)
	return err == nil && string(boot) == c.boot
}

// retired ends the name of the file that retire writes.
const retired = ".retired"

// isReusable reports whether a directory that no process has locked may be used again.
func (c *Cache) isReusable(st *state) bool { return !st.InUse && st.Boot == c.boot }

// create makes a new directory and locks it. Its name is the first free number, so that a thread has the same path on
// machines whose caches have the same path: the conversation may contain it.
func (c *Cache) create(ctx context.Context, in string, id segno.WorkspaceID) (*Checkout, error) {
	for n, tries := 1, 0; ; {
		path := filepath.Join(in, strconv.Itoa(n))
		if c.isRetired(path) {
			n++
			continue
		}
		err := vfs.MkdirAll(c.options.FS, in)
		if err == nil {
			err = c.options.FS.Mkdir(path, 0o700)
		}
		if errors.Is(err, fs.ErrExist) {
			n++
			continue
		}
		var d *Checkout
		if err == nil {
			d, err = c.lock(ctx, path)
		}
		if isGone := errors.Is(err, fs.ErrNotExist) || d == nil && err == nil; isGone && tries < maxTries {
			tries++
			continue // another process removed the directory, because it was empty or not locked
		}
		if d == nil && err == nil {
			err = segno.Errorf(segno.KindBusy, "check out", path, "other processes remove each new directory")
		}
		if err != nil {
			return nil, err
		}
		d.state = state{Workspace: id, Boot: c.boot}
		if err := d.prepare(ctx); err != nil {
			return nil, errors.Join(err, d.discard())
		}
		return d, nil
	}
}

// maxTries limits how often a new directory is made because another process removed it before it was locked.
const maxTries = 10

// prepare makes the contents of a new directory.
func (d *Checkout) prepare(ctx context.Context) error {
	if err := d.begin(); err != nil {
		return err
	}
	for _, dir := range []string{d.Files(), d.StateDir()} {
		if err := vfs.MkdirAll(d.cache.options.FS, dir); err != nil {
			return err
		}
	}
	if d.cache.options.Prepare == nil {
		return nil
	}
	return d.cache.options.Prepare(ctx, d.Files())
}

// reset makes the files equal to a snapshot.
func (d *Checkout) reset(ctx context.Context, s segno.Snapshot) (err error) {
	if s.Tree.IsZero() {
		return nil
	}
	scratch, err := workspace.OpenScratch(d.Files(), workspace.Options{ID: s.Workspace, Objects: d.cache.objects,
		Index: d.Index(), FS: d.cache.options.FS})
	if err != nil {
		return err
	}
	scratch.KeepTimes = !d.warm
	d.Missing, err = scratch.Reset(ctx, s)
	return err
}
