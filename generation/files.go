package generation

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// isRebuildable reports whether a new workspace goes without a directory or file of its template,
// because a tool makes it again.
func isRebuildable(name string) bool {
	return slices.Contains([]string{".venv", "__pycache__", ".pytest_cache"}, name) || path.Ext(name) == ".pyc"
}

// copyTree copies the directories, files and symlinks of a template into a directory, where existing ones
// stay as they are. Agents wrote the template, so it may be hostile: no symlink is followed, and
// devices, sockets, FIFOs and what cannot be read are left out.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && file != from {
			return nil
		}
		if err != nil || file == from {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		if _, err := dst.Lstat(rel); err == nil && !d.IsDir() {
			return nil
		}
		switch {
		case isRebuildable(d.Name()) && d.IsDir():
			return fs.SkipDir
		case isRebuildable(d.Name()):
			return nil
		case d.IsDir():
			return dst.MkdirAll(rel, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := src.Readlink(rel)
			if err != nil {
				return err
			}
			return dst.Symlink(target, rel)
		case d.Type().IsRegular():
			if err := copyFile(src, dst, rel); !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
		return nil
	})
}

// copyFile copies one file with its mode and its time.
func copyFile(src, dst *os.Root, rel string) error {
	in, err := src.Open(rel)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o644) // as a file that was loaded from an archive
	if info.Mode()&0o100 != 0 {
		perm = 0o755
	}
	out, err := dst.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Chmod(perm)
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return dst.Chtimes(rel, info.ModTime(), info.ModTime())
}
