package vfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Replace atomically and durably replaces the content of the file name with data. It writes and
// syncs a temporary file in the same directory, renames it over name, and syncs the directory. A
// crash leaves the old content or the new content, and at most a stray ".segno-*" file.
func Replace(fsys FS, name string, data []byte, perm fs.FileMode) error {
	return replace(fsys, name, data, perm, func(File) error { return nil })
}

// ReplaceKeeping is like [Replace], but the new file has the permissions and the owner of was, the file that it replaces.
// The umask does not change them. Only root may keep the owner of another user's file. Another user keeps the group if that
// user is a member.
func ReplaceKeeping(fsys FS, name string, data []byte, was fs.FileInfo) error {
	return replace(fsys, name, data, was.Mode().Perm(), func(f File) error {
		if err := keepOwner(f, was); err != nil {
			return err
		}
		return f.Chmod(was.Mode().Perm())
	})
}

// keepOwner gives f the owner of was, as far as this process may.
func keepOwner(f File, was fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	from, isKnown := was.Sys().(*syscall.Stat_t)
	to, isSame := now.Sys().(*syscall.Stat_t)
	if !isKnown || !isSame || from.Uid == to.Uid && from.Gid == to.Gid {
		return nil
	}
	if os.Geteuid() != 0 {
		_ = unix.Fchown(int(f.Fd()), -1, int(from.Gid)) // the user need not be a member
		return nil
	}
	return unix.Fchown(int(f.Fd()), int(from.Uid), int(from.Gid))
}

func replace(fsys FS, name string, data []byte, perm fs.FileMode, prepare func(File) error) error {
	temp := filepath.Join(filepath.Dir(name), ".segno-"+rand.Text())
	err := writeSynced(fsys, temp, data, perm, prepare)
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
	return writeSynced(fsys, name, data, perm, func(File) error { return nil })
}

// writeSynced calls prepare before the file has any content.
func writeSynced(fsys FS, name string, data []byte, perm fs.FileMode, prepare func(File) error) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err = prepare(f); err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
