package codex

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
	"github.com/google/uuid"
)

const (
	dirSessions = "sessions"
	dirArchived = "archived_sessions"
)

// rollout is one file of a session.
type rollout struct {
	path   string
	thread segno.SessionID
	id     string // of this file; the thread's id for its first file
}

func (r rollout) isCompressed() bool { return strings.HasSuffix(r.path, ".zst") }

// isArchived reports whether the user archived the session. Codex does not resume it then.
func (r rollout) isArchived() bool {
	_, dir := homeOf(r.path)
	return dir == dirArchived
}

const (
	namePrefix = "rollout-"
	nameTime   = "2006-01-02T15-04-05"
	idLength   = 36
)

// parseName reads the name of a rollout: rollout-TIME-THREAD.jsonl or
// rollout-TIME-THREAD_ID.jsonl, perhaps with .zst.
func parseName(path string) (rollout, bool) {
	name, isLines := strings.CutSuffix(strings.TrimSuffix(filepath.Base(path), ".zst"), ".jsonl")
	name, isRollout := strings.CutPrefix(name, namePrefix)
	if !isLines || !isRollout || len(name) < len(nameTime)+1+idLength || name[len(nameTime)] != '-' {
		return rollout{}, false
	}
	thread, id, hasID := strings.Cut(name[len(nameTime)+1:], "_")
	if !hasID {
		id = thread
	}
	if !isID(thread) || !isID(id) {
		return rollout{}, false
	}
	return rollout{path: path, thread: segno.SessionID(thread), id: id}, true
}

// RolloutID returns the id of the rollout at a path, or "" if the file has not the name of one. Codex begins another rollout of
// a session when the user goes back to an earlier turn.
func RolloutID(path string) string {
	r, _ := parseName(path)
	return r.id
}

// isID reports whether s is an id as Codex writes it.
func isID(s string) bool {
	return len(s) == idLength && uuid.Validate(s) == nil && strings.ToLower(s) == s
}

// checkNewSession returns an error unless id can be the id of a new session.
func checkNewSession(op string, id segno.SessionID) error {
	if err := sessionfile.CheckNewSession(op, id); err != nil {
		return err
	}
	if !isID(string(id)) {
		return segno.Errorf(segno.KindInvalid, op, string(id), "the session id has capital letters")
	}
	return nil
}

// rolloutIndex are the rollouts of a home.
type rolloutIndex struct {
	byThread map[segno.SessionID][]rollout
	byID     map[string]rollout
	links    map[segno.SessionID]string // files that are not plain files
}

// readIndex lists the rollouts of a home. It reads only directories. The two directories may be
// symlinks; it follows no others.
func readIndex(ctx context.Context, home string) (rolloutIndex, error) {
	x := rolloutIndex{map[segno.SessionID][]rollout{}, map[string]rollout{}, map[segno.SessionID]string{}}
	for _, dir := range []string{dirSessions, dirArchived} {
		root := filepath.Join(home, dir) + string(filepath.Separator) // the separator follows a link
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return errors.Join(sessionfile.IgnoreMissing(err), ctx.Err())
			}
			if r, ok := parseName(path); ok {
				x.add(r, d.Type())
			}
			return nil
		})
		if err != nil {
			return x, err
		}
	}
	return x, nil
}

// add adds a file. If a plain and a compressed file have the same id, Codex prefers the plain one.
func (x *rolloutIndex) add(r rollout, mode fs.FileMode) {
	if mode.IsDir() {
		return
	}
	if !mode.IsRegular() {
		x.links[r.thread] = r.path
		return
	}
	if other, ok := x.byID[r.id]; ok && !other.isCompressed() {
		return
	}
	x.byID[r.id] = r
	x.byThread[r.thread] = append(slices.DeleteFunc(x.byThread[r.thread], func(o rollout) bool { return o.id == r.id }), r)
}

// current returns the rollout that Codex continues: the newest one of the thread. Ids of
// rollouts ascend with time.
func (x *rolloutIndex) current(thread segno.SessionID) (rollout, bool) {
	all := x.byThread[thread]
	if len(all) == 0 {
		return rollout{}, false
	}
	return slices.MaxFunc(all, func(a, b rollout) int { return strings.Compare(a.order(), b.order()) }), true
}

// order returns a text by which the files of a thread sort from old to new.
func (r rollout) order() string {
	if r.id == string(r.thread) {
		return ""
	}
	return r.id
}

// homeOf returns the home that contains a rollout, and which of its two directories. Both are "" if
// the path is in neither.
func homeOf(path string) (home, dir string) {
	for at := filepath.Dir(path); at != filepath.Dir(at); at = filepath.Dir(at) {
		if name := filepath.Base(at); name == dirSessions || name == dirArchived {
			return filepath.Dir(at), name
		}
	}
	return "", ""
}

// Find returns the rollout of a session that Codex continues, and the directory of its newest
// turn. The error is [segno.KindNotFound] if there is none.
func (c *Transcripts) Find(ctx context.Context, session segno.SessionID) (segno.Source, error) {
	const op = "find session"
	s, err := c.open(ctx, op, segno.Source{Session: session})
	if err != nil {
		return segno.Source{}, err
	}
	defer s.close()
	dir, err := s.dir()
	return segno.Source{Session: session, Path: s.file.path, Dir: dir}, sessionfile.IOError(op, s.file.path, err)
}

// locate finds the current rollout of a source. It uses src.Path only if the home has no rollout of
// the session.
func (c *Transcripts) locate(ctx context.Context, op string, src segno.Source) (rollout, *rolloutIndex, error) {
	given, isNamed := parseName(src.Path)
	if src.Session == "" && isNamed {
		src.Session = given.thread
	}
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return rollout{}, nil, err
	}
	homes := []string{c.home}
	if other, _ := homeOf(src.Path); other != "" && other != c.home {
		homes = []string{other, c.home}
	}
	var x rolloutIndex
	for _, home := range homes {
		var err error
		if x, err = readIndex(ctx, home); err != nil {
			return rollout{}, nil, sessionfile.IOError(op, home, err)
		}
		if r, ok := x.current(src.Session); ok {
			return r, &x, nil
		}
		if link := x.links[src.Session]; link != "" {
			return rollout{}, nil, segno.Errorf(segno.KindInvalid, op, link, "the rollout is not a plain file")
		}
	}
	if src.Path == "" {
		return rollout{}, nil, segno.NewError(segno.KindNotFound, op, string(src.Session), nil)
	}
	if fi, err := os.Lstat(src.Path); err == nil && !fi.Mode().IsRegular() {
		return rollout{}, nil, segno.Errorf(segno.KindInvalid, op, src.Path, "the rollout is not a plain file")
	}
	given.path, given.thread = src.Path, src.Session
	return given, &x, nil
}
