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
	"unicode/utf16"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const alphanumerics = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Find returns the file of a session and the directory it runs in. If several files have
// the session's name, Find returns the newest. The error is [segno.KindNotFound] if there
// is none and [segno.KindInvalid] for an id that cannot be a file name.
func (c *Transcripts) Find(ctx context.Context, session segno.SessionID) (segno.Source, error) {
	const op = "find session"
	if err := sessionfile.CheckSession(op, session); err != nil {
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
		return segno.Source{}, sessionfile.IOError(op, string(session), err)
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
// directory the agent was in at that time, which may be a subdirectory. readDir prefers the
// newest directory whose slug is the name of the file's directory, and else takes the newest
// one. It searches the end of the file first.
func readDir(ctx context.Context, path string) (string, error) {
	f, err := vfs.OpenRegular(path)
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
		if _, err := g.read(ctx, sessionfile.NewLineReader(io.NewSectionReader(f, from, fi.Size()-from), from)); err != nil {
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
	return src, sessionfile.CheckSession(op, src.Session)
}

// open completes a source and opens its transcript.
func (c *Transcripts) open(ctx context.Context, op string, src segno.Source) (*os.File, segno.Source, error) {
	src, err := c.resolve(ctx, op, src)
	if err != nil {
		return nil, src, err
	}
	f, err := vfs.OpenRegular(src.Path)
	return f, src, sessionfile.IOError(op, src.Path, err)
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

// isOwn reports whether a path is that of a transcript of the agent.
func (c *Transcripts) isOwn(path string) bool {
	return vfs.RealPath(filepath.Dir(filepath.Dir(path))) == vfs.RealPath(c.projects())
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
	for entry := range c.registry(ctx) {
		if session == "" || entry.Session != session {
			continue
		}
		if entry.isAlive() {
			return entry.PID, true
		}
		pid = entry.PID
	}
	return pid, false
}

// Writers returns all processes that have a session open. The agent does not lock its sessions:
// each of several processes misses the records of the others in its conversation.
func (c *Transcripts) Writers(ctx context.Context, session segno.SessionID) (pids []int) {
	for entry := range c.registry(ctx) {
		if session != "" && entry.Session == session && entry.isAlive() {
			pids = append(pids, entry.PID)
		}
	}
	return pids
}

// readStart reads the first 64 KiB of a file. It returns nil if it cannot.
func readStart(name string) []byte {
	f, err := vfs.OpenRegular(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return data
}
