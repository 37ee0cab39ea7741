package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
)

// maxSession is the length of the longest session id that is looked for.
const maxSession = 128

// checkSession reports whether a session id may become a part of a path.
func checkSession(op string, id segno.SessionID) error {
	why := ""
	switch {
	case id == "":
		why = "the session id is empty"
	case id[0] == '-':
		why = "the session id begins like an option of a command"
	case len(id) > maxSession:
		why = "the session id is too long"
	case strings.Trim(string(id), "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		why = "the session id holds other characters than letters, digits, - and _"
	default:
		return nil
	}
	return segno.Errorf(segno.KindInvalid, op, "", "%s", why)
}

// checkNew reports whether id can be the id of a new session: the agent resumes
// UUIDs only.
func checkNew(op string, id segno.SessionID) error {
	if err := checkSession(op, id); err != nil {
		return err
	}
	ok := len(id) == 36
	for i := 0; ok && i < len(id); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			ok = id[i] == '-'
		} else {
			ok = isHex(id[i])
		}
	}
	if !ok {
		return segno.Errorf(segno.KindInvalid, op, string(id), "the session id is no UUID")
	}
	return nil
}

// Find returns where a session is kept. Of several files with its name the newest
// counts. The error is [segno.KindNotFound] if there is none and
// [segno.KindInvalid] for an id that cannot be a file's name.
func (c *Claude) Find(ctx context.Context, session segno.SessionID) (segno.Source, error) {
	const op = "find session"
	if err := checkSession(op, session); err != nil {
		return segno.Source{}, err
	}
	paths, err := c.files(session)
	if err != nil {
		return segno.Source{}, ioError(op, string(session), err)
	}
	if len(paths) == 0 {
		return segno.Source{}, segno.NewError(segno.KindNotFound, op, string(session), nil)
	}
	dir, err := runsIn(ctx, paths[0])
	if err != nil {
		return segno.Source{}, ioError(op, string(session), err)
	}
	return segno.Source{Session: session, Path: paths[0], Dir: dir}, nil
}

// files returns the transcripts of a session, the newest first.
func (c *Claude) files(session segno.SessionID) ([]string, error) {
	dirs, err := os.ReadDir(c.projects())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	var newest int64
	for _, d := range dirs {
		path := filepath.Join(c.projects(), d.Name(), string(session)+".jsonl")
		fi, err := os.Stat(path)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		out = append(out, path)
		if t := fi.ModTime().UnixNano(); t > newest {
			newest = t
			out[0], out[len(out)-1] = out[len(out)-1], out[0]
		}
	}
	return out, nil
}

// runsIn returns the directory the session at path runs in. The records name the
// directory the agent was in then, which may be below it: the newest one that
// fits the place of the file is taken, else the newest one.
func runsIn(ctx context.Context, path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	const near = 256 << 10
	newest := ""
	for _, from := range []int64{max(0, fi.Size()-near), 0} {
		g := newPlaceGraph(path)
		if _, err := g.read(ctx, newLines(io.NewSectionReader(f, from, fi.Size()-from), from)); err != nil {
			return "", err
		}
		if g.dir != "" {
			return g.dir, nil
		}
		if newest == "" {
			newest = plain(g.cwd)
		}
	}
	return newest, nil
}

// openRegular opens a plain file. Paths come from hooks and archives: what would
// block or is no file of an agent's is as good as not there.
// It asks for no wait, so that a FIFO that takes the file's place blocks nothing.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// locate completes a source from what the agent's files say.
func (c *Claude) locate(ctx context.Context, op string, src segno.Source) (segno.Source, error) {
	if src.Path == "" {
		found, err := c.Find(ctx, src.Session)
		if err != nil {
			return src, err
		}
		src.Path = found.Path
		if src.Dir == "" {
			src.Dir = found.Dir
		}
	}
	if src.Session == "" {
		src.Session = segno.SessionID(strings.TrimSuffix(filepath.Base(src.Path), ".jsonl"))
	}
	return src, checkSession(op, src.Session)
}

// place is the path of a session's transcript for a directory it runs in.
func (c *Claude) place(session segno.SessionID, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("directory %q is not absolute", dir)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(c.projects(), Slug(filepath.Clean(dir)), string(session)+".jsonl"), nil
}

// ioError gives an error of the operating system its kind; one that is an
// [segno.Error] already, or a context's, keeps its own.
func ioError(op, name string, err error) error {
	var known *segno.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	kind := segno.KindIO
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = segno.KindNotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = segno.KindCancelled
	}
	return segno.NewError(kind, op, name, err)
}
