package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace atomically and durably replaces the content of the file name with data. It writes and
// syncs a temporary file in the same directory, renames it over name, and syncs the directory. A
// crash leaves the old content or the new content, and at most a stray ".segno-*" file.
func Replace(fsys FS, name string, data []byte, perm fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(name), ".segno-"+rand.Text())
	err := WriteSynced(fsys, temp, data, perm)
	if err == nil {
		err = fsys.Rename(temp, name)
	}
	if err != nil {
		_ = fsys.Remove(temp) // at worst it is stray; the first error matters more
	} else {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// WriteSynced writes a new file and syncs it. The file's name is durable once its directory is synced.
func WriteSynced(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
