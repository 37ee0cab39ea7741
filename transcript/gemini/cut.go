package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opCut = "cut session"

// Cut writes the session to.Session, which ends at p. Its first line has the new id. Its last line
// has the id and the time at which it began, by which Gemini CLI finds the newest session. Cut does
// not change the other lines.
//
// Bytes come from the agent's file while it still begins with p's, else from o. The file appears
// whole or not at all. The error is [segno.KindConflict] if the session exists with other bytes,
// and [segno.KindInvalid] if p has nothing to resume or to.Session is not a UUID.
func (c *Transcripts) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	if p.Leaf == "" || p.Offset <= 0 {
		return segno.Source{}, sessionfile.EmptyError(opCut, p.Session)
	}
	if err := sessionfile.CheckNewSession(opCut, to.Session); err != nil {
		return segno.Source{}, err
	}
	lines, err := c.bytesOf(ctx, opCut, p, o)
	if err != nil {
		return segno.Source{}, err
	}
	began := time.Now()
	if to.Yield {
		began = startOf(lines).Add(-time.Second)
	}
	return c.write(opCut, withID(lines, to.Session, began), to.Session, to.Dir, began)
}

// bytesOf returns the bytes of a position, from the agent's file or the store.
func (c *Transcripts) bytesOf(ctx context.Context, op string, p segno.Position, o segno.Objects) ([]byte, error) {
	var lines []byte
	if path, err := c.locate(op, segno.Source{Session: p.Session, Path: p.Path}); err == nil {
		if lines, err = sessionfile.ReadConversation(op, path); err != nil {
			lines = nil // the store has a copy
		}
	}
	data, err := sessionfile.Bytes(ctx, op, p, lines, o)
	return data, sessionfile.IOError(op, string(p.Session), err)
}

// startOf returns the start time of a session from the last line that records one.
func startOf(lines []byte) (start time.Time) {
	for line := range bytes.Lines(lines) {
		var r struct {
			Start time.Time `json:"startTime"`
			Set   struct {
				Start time.Time `json:"startTime"`
			} `json:"$set"`
		}
		if json.Unmarshal(line, &r) != nil {
			continue
		}
		for _, t := range []time.Time{r.Start, r.Set.Start} {
			if !t.IsZero() {
				start = t
			}
		}
	}
	return start
}

// withID returns the lines of a session with another id and another start time.
func withID(lines []byte, id segno.SessionID, began time.Time) []byte {
	end := bytes.IndexByte(lines, '\n') + 1
	first, rest := lines[:end], lines[end:]
	out := bytes.Clone(first)
	if at := jsonscan.Find(first, jsonscan.Span{To: len(first)}, "sessionId"); !at.IsZero() {
		out = slices.Concat(first[:at.From], fmt.Appendf(nil, "%q", id), first[at.To:])
	}
	out = append(out, rest...)
	return fmt.Appendf(out, "{\"$set\":{\"sessionId\":%q,\"startTime\":%q}}\n", id, sessionfile.Timestamp(began))
}

// write writes the file of a session in a directory.
func (c *Transcripts) write(op string, lines []byte, id segno.SessionID, dir string, began time.Time) (segno.Source, error) {
	if !filepath.IsAbs(dir) {
		return segno.Source{}, segno.Errorf(segno.KindInvalid, op, dir, "the directory is not absolute")
	}
	project, err := c.projectOf(dir)
	if err != nil {
		return segno.Source{}, sessionfile.IOError(op, dir, err)
	}
	short := string(id)[:min(len(id), shortID)]
	path := filepath.Join(project, "chats", filePrefix+began.UTC().Format("2006-01-02T15-04")+"-"+short+fileSuffix)
	if at, err := c.locate(op, segno.Source{Session: id}); err == nil && at != path {
		return segno.Source{}, sessionfile.ExistsError(op, at)
	}
	if err := sessionfile.WriteNew(c.fs, path, lines); errors.Is(err, fs.ErrExist) {
		return segno.Source{}, sessionfile.ExistsError(op, path)
	} else if err != nil {
		return segno.Source{}, sessionfile.IOError(op, path, err)
	}
	return segno.Source{Session: id, Path: path, Dir: dir}, nil
}

// projectOf returns the directory below tmp that stands for dir. If there is none, it claims one as
// Gemini CLI does: with a file that names its owner. Gemini CLI looks for such a file before it
// claims a directory.
func (c *Transcripts) projectOf(dir string) (string, error) {
	projects, err := c.projects()
	if err != nil {
		return "", err
	}
	registered := c.registry()
	if name := registered[dir]; name != "" && filepath.Base(name) == name {
		if project := filepath.Join(c.home, "tmp", name); isFreeFor(project, dir) {
			return project, nil
		}
	}
	for _, project := range projects {
		if ownerOf(project) == dir {
			return project, nil
		}
	}
	var taken []string
	for _, name := range registered {
		taken = append(taken, name)
	}
	for i := 0; ; i++ {
		name := slug(dir)
		if i > 0 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		project := filepath.Join(c.home, "tmp", name)
		if slices.Contains(taken, name) || slices.Contains(projects, project) {
			continue
		}
		if err := vfs.MkdirAllSynced(c.fs, project); err != nil {
			return "", err
		}
		if err := sessionfile.WriteNew(c.fs, filepath.Join(project, ownerFile), []byte(dir)); !errors.Is(err, fs.ErrExist) {
			return project, err
		}
	}
}

// isFreeFor reports whether no other directory owns a project's directory.
func isFreeFor(project, dir string) bool {
	owner := ownerOf(project)
	_, err := os.Lstat(filepath.Join(project, ownerFile))
	return owner == dir || owner == "" && os.IsNotExist(err)
}

// registry returns the names that Gemini CLI gave to directories, by directory.
func (c *Transcripts) registry() map[string]string {
	var r struct {
		Projects map[string]string `json:"projects"`
	}
	if data, err := os.ReadFile(filepath.Join(c.home, "projects.json")); err == nil {
		_ = json.Unmarshal(data, &r) // Gemini CLI resets a damaged one
	}
	return r.Projects
}

// slug returns the name that Gemini CLI gives to a directory.
func slug(dir string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return ' '
	}, strings.ToLower(filepath.Base(dir)))
	if name = strings.Join(strings.Fields(name), "-"); name == "" {
		return "project"
	}
	return name
}

// Relocate makes a session usable in dir. It copies a session of another directory under its own
// id, and the original remains.
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	const op = "relocate session"
	s, err := c.read(ctx, op, src)
	if err != nil {
		return segno.Source{}, err
	}
	path := s.Position.Path
	project := filepath.Dir(filepath.Dir(path))
	if ownerOf(project) == dir {
		return segno.Source{Session: src.Session, Path: path, Dir: dir}, nil
	}
	return c.restore(op, s.Lines, filepath.Base(path), src.Session, dir)
}

// Restore writes back a deleted session under its own id.
func (c *Transcripts) Restore(ctx context.Context, p segno.Position, dir string, o segno.Objects) (segno.Source, error) {
	const op = "restore session"
	if path, err := c.locate(op, segno.Source{Session: p.Session}); err == nil {
		return segno.Source{}, sessionfile.ExistsError(op, path)
	}
	lines, err := c.bytesOf(ctx, op, p, o)
	if err != nil {
		return segno.Source{}, err
	}
	return c.restore(op, lines, filepath.Base(p.Path), p.Session, dir)
}

// restore writes lines unchanged into a file with the given name, which the session's file had.
func (c *Transcripts) restore(op string, lines []byte, name string, id segno.SessionID, dir string) (segno.Source, error) {
	if !strings.HasPrefix(name, filePrefix) || !strings.HasSuffix(name, fileSuffix) {
		return segno.Source{}, segno.Errorf(segno.KindInvalid, op, name, "it is not the name of a session's file")
	}
	project, err := c.projectOf(dir)
	if err == nil {
		path := filepath.Join(project, "chats", name)
		if err = sessionfile.WriteNew(c.fs, path, lines); err == nil {
			return segno.Source{Session: id, Path: path, Dir: dir}, nil
		}
		if errors.Is(err, fs.ErrExist) {
			return segno.Source{}, sessionfile.ExistsError(op, path)
		}
	}
	return segno.Source{}, sessionfile.IOError(op, name, err)
}
