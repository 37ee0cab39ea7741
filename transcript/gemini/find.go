package gemini

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const (
	filePrefix = "session-"
	fileSuffix = ".jsonl"
	// ownerFile has the path of the directory that a project's directory stands for.
	ownerFile = ".project_root"
	// shortID is how much of a session's id is in the name of its file.
	shortID = 8
)

// projects returns the directories of all projects.
func (c *Transcripts) projects() ([]string, error) {
	list, err := os.ReadDir(filepath.Join(c.home, "tmp"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var dirs []string
	for _, e := range list {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(c.home, "tmp", e.Name()))
		}
	}
	return dirs, nil
}

// ownerOf returns the directory that a project's directory stands for, "" if that is not known.
func ownerOf(project string) string {
	f, err := vfs.OpenRegular(filepath.Join(project, ownerFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 16<<10))
	if dir := strings.TrimSpace(string(data)); err == nil && filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return ""
}

// files calls visit for each session file, with the beginning of its session's id in the name.
func (c *Transcripts) files(visit func(path, short string)) error {
	projects, err := c.projects()
	for _, project := range projects {
		chats := filepath.Join(project, "chats")
		if fi, err := os.Lstat(chats); err != nil || !fi.IsDir() {
			continue // a link may point outside the agent's directory
		}
		list, readErr := os.ReadDir(chats)
		if readErr != nil && !os.IsNotExist(readErr) {
			err = readErr
		}
		for _, e := range list {
			name, isSession := strings.CutSuffix(e.Name(), fileSuffix)
			if _, id, ok := cutLast(name, "-"); ok && isSession && strings.HasPrefix(name, filePrefix) {
				visit(filepath.Join(chats, e.Name()), id)
			}
		}
	}
	return err
}

// cutLast slices s around the last instance of sep.
func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// locate returns the file of a session: the given path if it has that session, else the largest
// file that has it.
func (c *Transcripts) locate(op string, src segno.Source) (string, error) {
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return "", err
	}
	if src.Path != "" {
		if f, err := fileOf(src.Path); err == nil && f.Session == src.Session {
			return src.Path, nil
		}
	}
	var found transcript.SessionFile
	err := c.files(func(path, short string) {
		if !strings.HasPrefix(string(src.Session), short) {
			return
		}
		if f, err := fileOf(path); err == nil && f.Session == src.Session && isBetter(f, found) {
			found = f
		}
	})
	switch {
	case found.Path != "":
		return found.Path, nil
	case err != nil:
		return "", sessionfile.IOError(op, c.home, err)
	}
	return "", segno.Errorf(segno.KindNotFound, op, string(src.Session), "Gemini CLI has no such session")
}

// idOf returns the id in the first line of a session file.
func idOf(path string) (segno.SessionID, error) {
	f, err := vfs.OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(io.LimitReader(f, 64<<10), 4<<10).ReadBytes('\n')
	var r record
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil && (r.Session == "" || r.Kind == "subagent") {
		err = fs.ErrNotExist
	}
	return r.Session, err
}

// Find returns where a session is kept.
func (c *Transcripts) Find(_ context.Context, id segno.SessionID) (segno.Source, error) {
	path, err := c.locate("find session", segno.Source{Session: id})
	if err != nil {
		return segno.Source{}, err
	}
	return segno.Source{Session: id, Path: path, Dir: ownerOf(filepath.Dir(filepath.Dir(path)))}, nil
}

// read reads a session whole.
func (c *Transcripts) read(ctx context.Context, op string, src segno.Source) (*session, error) {
	path, err := c.locate(op, src)
	if err != nil {
		return nil, err
	}
	lines, err := sessionfile.ReadConversation(op, path)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, sessionfile.IOError(op, path, err)
	}
	s := parse(lines)
	s.Position = segno.Position{Agent: Agent, Session: src.Session, Path: path, Dir: src.Dir}
	if s.Position.Dir == "" {
		s.Position.Dir = ownerOf(filepath.Dir(filepath.Dir(path)))
	}
	return s, nil
}
