package claude

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf16"

	"github.com/dalsegno/segno"
	"github.com/google/uuid"
)

const alphanumerics = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// maxSession is the length of the longest session id that Find accepts.
const maxSession = 128

// checkSession returns an error unless a session id may become a part of a path.
func checkSession(op string, id segno.SessionID) error {
	invalid := func(why string) error { return segno.Errorf(segno.KindInvalid, op, "", "the session id %s", why) }
	switch {
	case id == "":
		return invalid("is empty")
	case id[0] == '-':
		return invalid("begins with a dash, like a command-line option")
	case len(id) > maxSession:
		return invalid("is too long")
	case strings.Trim(string(id), "-_"+alphanumerics) != "":
		return invalid("contains characters other than letters, digits, - and _")
	}
	return nil
}

// checkNewSession returns an error unless id can be the id of a new session. The agent
// resumes UUIDs only.
func checkNewSession(op string, id segno.SessionID) error {
	if err := checkSession(op, id); err != nil {
		return err
	}
	if len(id) != 36 || uuid.Validate(string(id)) != nil {
		return segno.Errorf(segno.KindInvalid, op, string(id), "the session id is not a UUID")
	}
	return nil
}

// Find returns the file of a session and the directory it runs in. If several files have
// the session's name, Find returns the newest. The error is [segno.KindNotFound] if there
// is none and [segno.KindInvalid] for an id that cannot be a file name.
func (c *Transcripts) Find(ctx context.Context, session segno.SessionID) (segno.Source, error) {
	const op = "find session"
	if err := checkSession(op, session); err != nil {
		return segno.Source{}, err
	}
	paths, err := c.files(session)
	if err == nil && len(paths) == 0 {
		err = segno.NewError(segno.KindNotFound, op, string(session), nil)
	}
	var dir string
	if err == nil {
		dir, err = readDir(ctx, paths[0])
	}
	if err != nil {
		return segno.Source{}, ioError(op, string(session), err)
	}
	return segno.Source{Session: session, Path: paths[0], Dir: dir}, nil
}

// files returns the transcripts of a session. The first is the newest.
func (c *Transcripts) files(session segno.SessionID) ([]string, error) {
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

// readDir returns the directory that the session at path runs in. Each record has the
// directory the agent was in at that time, which may be a subdirectory. The newest
// directory with a slug that is the name of the file's directory counts, else the newest one.
// The end of the file is searched first.
func readDir(ctx context.Context, path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	const tail = 256 << 10
	newest := ""
	for _, from := range []int64{max(0, fi.Size()-tail), 0} {
		g := newGraph(path)
		if _, err := g.read(ctx, newLineReader(io.NewSectionReader(f, from, fi.Size()-from), from)); err != nil {
			return "", err
		}
		if g.dir != "" {
			return g.dir, nil
		}
		if newest == "" {
			newest = g.cwdText()
		}
	}
	return newest, nil
}

// openRegular opens a plain file for reading. Paths come from hooks and archives, so a
// FIFO or a device that took the file's place must not block the process: for anything but
// a plain file the error is [fs.ErrNotExist].
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

// resolve completes a source that lacks the path or the session id.
func (c *Transcripts) resolve(ctx context.Context, op string, src segno.Source) (segno.Source, error) {
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

// open completes a source and opens its transcript.
func (c *Transcripts) open(ctx context.Context, op string, src segno.Source) (*os.File, segno.Source, error) {
	src, err := c.resolve(ctx, op, src)
	if err != nil {
		return nil, src, err
	}
	f, err := openRegular(src.Path)
	return f, src, ioError(op, src.Path, err)
}

// path returns where the agent looks for the transcript of a session that runs in dir.
func (c *Transcripts) path(session segno.SessionID, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("directory %q is not absolute", dir)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(c.projects(), Slug(filepath.Clean(dir)), string(session)+".jsonl"), nil
}

// ioError wraps an error of the operating system or of a context in a [segno.Error] of the
// matching kind. It returns nil and errors that wrap a [segno.Error] as they are.
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

// maxSlug is the length of the longest directory name that is not shortened.
const maxSlug = 200

// Slug returns the name of the directory in which Claude Code keeps the sessions of the
// working directory dir, a real path: every UTF-16 code unit that is not an ASCII letter
// or digit becomes "-". A name longer than 200 is cut there and followed by the checksum
// of the whole path that Java's String.hashCode computes. Several paths can have one slug.
func Slug(dir string) string {
	out := make([]byte, 0, len(dir))
	sum := int32(0)
	for _, unit := range utf16.Encode([]rune(dir)) {
		sum = sum*31 + int32(unit)
		if strings.ContainsRune(alphanumerics, rune(unit)) {
			out = append(out, byte(unit))
		} else {
			out = append(out, '-')
		}
	}
	if len(out) <= maxSlug {
		return string(out)
	}
	return string(out[:maxSlug]) + "-" + strconv.FormatInt(max(int64(sum), -int64(sum)), 36)
}

// Live returns the process that has a session open, from the agent's registry of
// running processes. alive is false if there is none, or if the registered process is gone
// and another process has its number.
func (c *Transcripts) Live(ctx context.Context, session segno.SessionID) (pid int, alive bool) {
	names, _ := filepath.Glob(filepath.Join(c.home, "sessions", "*.json"))
	for _, name := range names {
		if session == "" || ctx.Err() != nil {
			break
		}
		entry, ok := readRegistered(name)
		if !ok || entry.Session != session {
			continue
		}
		if entry.isAlive() {
			return entry.PID, true
		}
		pid = entry.PID
	}
	return pid, false
}

// readStart reads the first 64 KiB of a file. It returns nil if it cannot.
func readStart(name string) []byte {
	f, err := openRegular(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return data
}
