package workspaces

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Checkout is a directory of a cache that the caller uses alone.
type Checkout struct {
	// Missing are the paths for which the directory could not be made equal to the snapshot, with the reasons.
	Missing []segno.Conflict

	cache *Cache
	path  string
	lock  vfs.File
	state state
	warm  bool // the directory existed already
}

// state is the content of the file state.json of a directory.
type state struct {
	Workspace segno.WorkspaceID `json:"workspace"`
	Tree      segno.Hash        `json:"tree,omitzero"`    // of the files at the last release
	Used      time.Time         `json:"used"`             // the time of the last checkout or release
	Bytes     int64             `json:"bytes,omitempty"`  // on the disk, at the last release
	InUse     bool              `json:"in_use,omitempty"` // from Checkout until Release
	Boot      string            `json:"boot,omitempty"`   // the start of the machine at the last checkout
}

// Root returns the directory that contains the others. It exists until Release.
func (d *Checkout) Root() string { return d.path }

// Workspace returns the id of the workspace.
func (d *Checkout) Workspace() segno.WorkspaceID { return d.state.Workspace }

// Files returns the directory with the files of the snapshot.
func (d *Checkout) Files() string { return filepath.Join(d.path, "files") }

// Home returns the path of a directory for the home directories of the agents in Files. It may not exist yet.
func (d *Checkout) Home() string { return filepath.Join(d.path, "home") }

// Run returns the path of a directory for temporary files. It may not exist yet.
func (d *Checkout) Run() string { return filepath.Join(d.path, "run") }

// StateDir returns the directory for the state of a timeline over Files.
func (d *Checkout) StateDir() string { return filepath.Join(d.path, "segno") }

// Index returns the path for the index of the workspace in Files; see [workspace.Options].
func (d *Checkout) Index() string { return filepath.Join(d.path, "index") }

// IsWarm reports whether Checkout used an earlier directory of the workspace.
func (d *Checkout) IsWarm() bool { return d.warm }

// Release gives the directory back to the cache. No process that the caller started may still write there. tree is the
// tree of the files if the caller knows it, else the zero hash. Release then makes room if the cache is too large.
func (d *Checkout) Release(ctx context.Context, tree segno.Hash) error {
	size, err := sizeOf(d.path)
	if err != nil { // the agent may have made a directory that cannot be read
		return d.discard()
	}
	grown := size - d.state.Bytes
	d.state.Tree, d.state.Bytes, d.state.InUse, d.state.Used = tree, size, false, d.cache.options.Now()
	err = errors.Join(d.writeState(), d.unlock())
	d.cache.added(grown)
	if err != nil {
		return segno.NewError(segno.KindIO, "release directory", d.path, err)
	}
	return d.cache.makeRoom(ctx)
}

// Discard removes the directory, for example because a process that cannot be ended may still write there.
func (d *Checkout) Discard() error { return d.discard() }

// begin records that the directory is in use.
func (d *Checkout) begin() error {
	d.state.InUse, d.state.Boot, d.state.Used = true, d.cache.boot, d.cache.options.Now()
	return d.writeState()
}

// discard moves the directory to trash, where no process looks for it, and removes it there.
func (d *Checkout) discard() error {
	to := filepath.Join(d.cache.dir, trashDir, rand.Text())
	err := d.cache.options.FS.Rename(d.path, to)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, d.unlock())
	if err == nil {
		err = removeTree(to)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "remove directory", d.path, err).WithHint("remove it yourself")
	}
	d.cache.added(-d.state.Bytes)
	return nil
}

// lock locks the directory at a path. It returns nil if another process uses or removed the directory.
func (c *Cache) lock(ctx context.Context, path string) (*Checkout, error) {
	f, err := c.options.FS.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = vfs.Lock(ctx, f, 0)
	if err == nil {
		var now, locked fs.FileInfo
		if locked, err = f.Stat(); err == nil {
			// Another process may have moved the directory to trash since it was opened.
			if now, err = os.Lstat(f.Name()); err == nil && os.SameFile(now, locked) {
				return &Checkout{cache: c, path: path, lock: f}, nil
			}
		}
	}
	closeErr := f.Close()
	if err == nil || errors.Is(err, vfs.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil, closeErr
	}
	return nil, errors.Join(err, closeErr)
}

// unlock releases the lock. Closing the file would not be enough: a process that this one is starting has the file until it runs its program.
func (d *Checkout) unlock() error { return errors.Join(vfs.Unlock(d.lock), d.lock.Close()) }

// writeState replaces state.json. It syncs nothing: after a restart of the machine, the directory is not used again.
func (d *Checkout) writeState() error {
	data, err := json.Marshal(d.state)
	if err != nil {
		return err
	}
	return writeFile(d.cache.options.FS, filepath.Join(d.path, "state.json"), data)
}

func readState(path string) (st state, err error) {
	data, err := os.ReadFile(filepath.Join(path, "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	return st, err
}

// writeFile replaces a file atomically, but not durably.
func writeFile(fsys vfs.FS, name string, data []byte) error {
	temp := name + "." + rand.Text()
	f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	return nil
}
