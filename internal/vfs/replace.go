package vfs

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace makes name hold data, or leaves it as it was: a temporary file in the
// same directory is written, synced and renamed over it, and the directory is
// synced. A crash leaves the old content or the new one, and at most a stray
// ".segno-*" file.
func Replace(fsys FS, name string, data []byte, perm fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(name), ".segno-"+rand.Text())
	if err := WriteSynced(fsys, temp, data, perm); err != nil {
		_ = fsys.Remove(temp) // it is stray at worst; the first error is the one to tell
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		_ = fsys.Remove(temp)
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync directory of %s: %w", name, err)
	}
	return nil
}

// WriteSynced writes a new file and syncs it. The file's name is durable once its directory is synced.
func WriteSynced(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
