package generation

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/workspace"
)

// copyTree copies the directories, files and symlinks of a template into a directory. Existing ones stay
// unchanged. Agents wrote the template, so it may be hostile: copyTree follows no symlink, and
// leaves out devices, sockets, FIFOs and unreadable files. Like a checkpoint, the copy has no directories
// that a tool can make again. Files get the modes of files from an archive.
func copyTree(from, to string) error {
	isLeftOut := func(rel string, d fs.DirEntry) bool {
		return d.IsDir() && workspace.CanBeMadeAgain(filepath.Join(from, rel))
	}
	return treeCopy{from: from, to: to, isLeftOut: isLeftOut, mode: func(m fs.FileMode) fs.FileMode {
		if m&0o100 != 0 {
			return 0o755
		}
		return 0o644
	}}.run()
}

// copyHome is copyTree for the home of an agent, but the files keep their modes. It leaves out the files of a
// loaded session, whatever their names are. It also leaves out the databases of Codex: they contain positions in the
// session's file, and Codex creates them again.
func copyHome(from, to, loaded string) error {
	if info, err := os.Lstat(from); err != nil || !info.IsDir() {
		return nil // there is none
	}
	return treeCopy{from: from, to: to, mode: func(m fs.FileMode) fs.FileMode {
		if m.IsDir() {
			return m.Perm() | 0o700
		}
		return m.Perm()
	}, isLeftOut: func(rel string, d fs.DirEntry) bool {
		isIndex := filepath.Dir(rel) == ".codex" && strings.Contains(d.Name(), ".sqlite")
		return !d.IsDir() && (isIndex || loaded != "" && strings.Contains(d.Name(), loaded))
	}}.run()
}

// treeCopy is a copy of a tree of files.
type treeCopy struct {
	from, to  string
	isLeftOut func(rel string, d fs.DirEntry) bool
	mode      func(fs.FileMode) fs.FileMode // of a new file or directory
}

func (c treeCopy) run() error {
	if err := os.MkdirAll(c.to, 0o755); err != nil {
		return err
	}
	src, err := os.OpenRoot(c.from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(c.to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return filepath.WalkDir(c.from, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && file != c.from {
			return nil
		}
		if err != nil || file == c.from {
			return err
		}
		rel, err := filepath.Rel(c.from, file)
		if err != nil {
			return err
		}
		return c.copyOne(src, dst, rel, d)
	})
}

// copyOne copies one file, symlink or empty directory.
func (c treeCopy) copyOne(src, dst *os.Root, rel string, d fs.DirEntry) error {
	if _, err := dst.Lstat(rel); err == nil && !d.IsDir() {
		return nil
	}
	switch {
	case c.isLeftOut(rel, d) && d.IsDir():
		return fs.SkipDir
	case c.isLeftOut(rel, d):
		return nil
	case d.IsDir():
		info, err := d.Info()
		if err != nil {
			return err
		}
		return dst.MkdirAll(rel, c.mode(info.Mode()))
	case d.Type() == fs.ModeSymlink:
		target, err := src.Readlink(rel)
		if err != nil {
			return err
		}
		return dst.Symlink(target, rel)
	case d.Type().IsRegular():
		if err := c.copyFile(src, dst, rel); !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// copyFile copies one file with its time.
func (c treeCopy) copyFile(src, dst *os.Root, rel string) error {
	in, err := src.Open(rel)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	perm := c.mode(info.Mode())
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
