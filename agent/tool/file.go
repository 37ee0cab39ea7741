package tool

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// FileSystem contains an agent's files. A name is valid for [fs.ValidPath]: slash-separated,
// without a leading slash, "." for the root. state is the state of the calling agent, for a
// file system that keeps its files there. The error for a missing file is [fs.ErrNotExist]. All
// methods must be safe for concurrent use.
type FileSystem interface {
	// Name converts a path that a model wrote to a name, as [Clean] does. If the path begins with
	// the absolute path of the file system, Name first removes that.
	Name(path string) (string, error)
	// Effects returns the policies for lost writes and lost edits.
	Effects() (write, edit agent.OnLost)
	// FS returns the files for reading.
	FS(state *agent.Values) fs.FS
	// Write replaces a file's content, or changes nothing. It creates missing directories.
	Write(ctx context.Context, state *agent.Values, name string, data []byte) error
	// Edit replaces a file's content by the result of change. Concurrent edits run one after the
	// other. If change returns an error, Edit returns it and changes nothing.
	Edit(ctx context.Context, state *agent.Values, name string, change func(old []byte) ([]byte, error)) error
}

// Files returns the tools for files: ls, read_file, write_file, edit_file, glob and grep.
func Files(files FileSystem) []agent.Tool {
	files = evictedFiles{files}
	return []agent.Tool{list(files), read(files), write(files), edit(files), glob(files), grep(files)}
}

// Clean converts a path to a name: "/a//b/" and "a/./b" become "a/b", "/" and "" become ".". A
// path that leaves the root is an error.
func Clean(p string) (string, error) {
	if !utf8.ValidString(p) || strings.ContainsRune(p, 0) {
		return "", segno.Errorf(segno.KindInvalid, "", strconv.Quote(p), "invalid path: it is not UTF-8 or contains a zero byte")
	}
	name := path.Clean(strings.TrimLeft(p, "/"))
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", segno.Errorf(segno.KindRefused, "", display(p), "the path leaves the root: all files are below it")
	}
	return name, nil
}

// fileName converts a path to the name of a file.
func fileName(files FileSystem, p string) (string, error) {
	if p == "" {
		return "", errors.New("missing path")
	}
	name, err := files.Name(p)
	if err == nil && (name == "." || strings.HasSuffix(p, "/")) {
		err = segno.Errorf(segno.KindInvalid, "", display(p), "the path names a directory, not a file")
	}
	return name, err
}

// openFile opens a regular file for reading.
func openFile(fsys fs.FS, name string) (fs.File, fs.FileInfo, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func checkRegular(name string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errIsDir(name)
	case !mode.IsRegular():
		kind := "device"
		if mode&fs.ModeNamedPipe != 0 {
			kind = "pipe"
		} else if mode&fs.ModeSocket != 0 {
			kind = "socket"
		}
		return errFile(name, segno.KindInvalid, "not a regular file but a %s: leave it unchanged", kind)
	}
	return nil
}

func errIsDir(name string) error {
	return errFile(name, segno.KindInvalid, "the path is a directory: list it with ls")
}

// walk yields the names of all files below a directory, or of the file itself, in order. An
// error with a name concerns that file or directory; one without a name ends the walk. walk
// skips the directories of version control. It enters the evicted results only if it begins there,
// because a search must not find its old results.
func walk(ctx context.Context, fsys fs.FS, base string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		info, err := fs.Stat(fsys, base)
		if err == nil && !info.IsDir() {
			yield(base, nil)
			return
		}
		if err == nil {
			err = fs.WalkDir(fsys, base, func(name string, e fs.DirEntry, err error) error {
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case err == nil && e.IsDir() && name != base && (isVersionControl(name) || name == resultsDir):
					return fs.SkipDir
				case err == nil && !isFile(fsys, name, e), yield(name, err):
					return nil
				}
				return fs.SkipAll
			})
		}
		if err != nil {
			yield("", err)
		}
	}
}

// isFile follows symlinks, but not to directories, because a directory may contain the symlink.
func isFile(fsys fs.FS, name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := fs.Stat(fsys, name)
		return err == nil && info.Mode().IsRegular()
	}
	return e.Type().IsRegular()
}

// isVersionControl reports whether a directory belongs to version control.
func isVersionControl(name string) bool {
	return slices.Contains([]string{".git", ".hg", ".svn", ".jj"}, path.Base(name))
}

// display returns a name as one line of text.
func display(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// fileError adds the file's name to an error, and advice for the model.
func fileError(name string, err error) error {
	var known *segno.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := segno.NewError(segno.KindIO, "", display(name), err)
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		e.Err = p.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Err = segno.KindNotFound, modelError{"does not exist: find it with ls or glob", err}
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Err = segno.KindRefused, modelError{"permission denied", err}
	}
	return e
}

// modelError is an error with a text for the model.
type modelError struct {
	text string
	err  error
}

func (e modelError) Error() string { return e.text }
func (e modelError) Unwrap() error { return e.err }

// errFile returns an error about a file.
func errFile(name string, kind segno.Kind, format string, args ...any) error {
	return segno.Errorf(kind, "", display(name), format, args...)
}
