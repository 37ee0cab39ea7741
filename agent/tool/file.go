package tool

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// FileSystem is where an agent's files are. A name is what [fs.ValidPath] takes:
// slash-separated, without a leading slash, "." for the root. state is the state of
// the agent that calls, for a file system that lives in it. A file that is not
// there is [fs.ErrNotExist]. All methods may be called at once.
type FileSystem interface {
	// Name makes a name of what a model wrote as a path, as [Clean] does; a file
	// system that has a name outside takes that away first.
	Name(path string) (string, error)
	// Effects are those of writing and of editing a file.
	Effects() (write, edit agent.OnLost)
	// List returns what is in a directory, or the file itself, sorted by name.
	List(ctx context.Context, state *agent.Values, name string) ([]File, error)
	// Walk yields the names of all files in and below a directory, or of the file
	// itself, each directory's in order. An error beside a name is about that file
	// or directory alone; one without a name is the last.
	Walk(ctx context.Context, state *agent.Values, name string) iter.Seq2[string, error]
	// Open reads a file.
	Open(ctx context.Context, state *agent.Values, name string) (io.ReadCloser, error)
	// Write makes a file hold data, or leaves everything as it was. It makes the
	// directories that are missing.
	Write(ctx context.Context, state *agent.Values, name string, data []byte) error
	// Edit makes a file hold what change makes of it. Of edits at once each sees
	// what the one before left. An error of change is returned and changes nothing.
	Edit(ctx context.Context, state *agent.Values, name string, change func(old []byte) ([]byte, error)) error
}

// File is a file or a directory.
type File struct {
	Name string // from the root
	Dir  bool
	Size int64 // in bytes, of a file
}

// Files are the tools for files: ls, read_file, write_file, edit_file, glob and
// grep.
func Files(files FileSystem) []agent.Tool {
	files = evictedFiles{FileSystem: files, state: InState()}
	return []agent.Tool{list(files), read(files), write(files), edit(files), glob(files), grep(files)}
}

// Clean makes a name of a path: "/a//b/" and "a/./b" are "a/b", "/" and "" are
// ".". A path that leaves the root is an error.
func Clean(p string) (string, error) {
	if !utf8.ValidString(p) || strings.ContainsRune(p, 0) {
		return "", segno.Errorf(segno.KindInvalid, "", strconv.Quote(p), "not a path: it has bytes that no name has")
	}
	name := path.Clean(strings.TrimLeft(p, "/"))
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", segno.Errorf(segno.KindRefused, "", display(p), "the path leaves the root: all files are below it")
	}
	return name, nil
}

// fileName is the name of a file, which the root is not.
func fileName(files FileSystem, p string) (string, error) {
	if p == "" {
		return "", errors.New("no path: say which file")
	}
	name, err := files.Name(p)
	if err == nil && (name == "." || strings.HasSuffix(p, "/")) {
		err = segno.Errorf(segno.KindInvalid, "", display(p), "it names a directory: say which file")
	}
	return name, err
}

// display is a name as one line of text.
func display(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// fileError says of which file an error is, and what to do.
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

// modelError is an error in the words the model reads.
type modelError struct {
	text string
	err  error
}

func (e modelError) Error() string { return e.text }
func (e modelError) Unwrap() error { return e.err }

// errFile is an error about a file that only its words tell.
func errFile(name string, kind segno.Kind, format string, args ...any) error {
	return segno.Errorf(kind, "", display(name), format, args...)
}
