// Package filelog reads and writes conversations that segno keeps for an agent: threads of a store in
// files, package store/file, one conversation in each. [Transcripts] implements [segno.Transcript].
//
// The transcript of a conversation is the log of its thread. A record of the log is one line, and
// lines are only ever appended, so the first lines of a log are the conversation at an earlier moment. A
// cut is a copy of these lines. The lines contain the id of their thread, so a cut has the id of its source.
package filelog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// Agent is the name in checkpoints for all agents whose conversations segno keeps.
const Agent = "segno-log"

// Transcripts are the conversations in one store. All methods may be called concurrently. Errors are
// [segno.Error]s.
type Transcripts struct {
	sessionfile.Capturer
	dir string
	fs  vfs.FS
}

var _ segno.Transcript = (*Transcripts)(nil)

// New returns the conversations of the store in dir, an absolute path, or none if dir is "". It reads nothing.
// All writes go through fsys; nil is the operating system.
func New(dir string, fsys vfs.FS) *Transcripts {
	if fsys == nil {
		fsys = vfs.OS
	}
	c := &Transcripts{dir: dir, fs: fsys}
	c.Capturer = sessionfile.NewWholeCapturer(c.read)
	return c
}

// Agent returns [Agent].
func (c *Transcripts) Agent() string { return Agent }

// Resume returns nil: only the runner of the agent continues it.
func (c *Transcripts) Resume(segno.Source) []string { return nil }

// path returns the file of a conversation. If the id of a thread is a UUID, the store names the thread's
// directory after it.
func (c *Transcripts) path(id segno.SessionID) string {
	if c.dir == "" {
		return ""
	}
	return filepath.Join(c.dir, "threads", string(id), "log.jsonl")
}

// Has reports whether there is a conversation.
func (c *Transcripts) Has(id segno.SessionID) bool {
	if sessionfile.CheckSession("find session", id) != nil {
		return false
	}
	_, err := os.Lstat(c.path(id))
	return err == nil
}

// Find returns where a conversation is kept.
func (c *Transcripts) Find(_ context.Context, id segno.SessionID) (segno.Source, error) {
	const op = "find session"
	if err := sessionfile.CheckSession(op, id); err != nil {
		return segno.Source{}, err
	}
	_, err := os.Lstat(c.path(id))
	return segno.Source{Session: id, Path: c.path(id)}, sessionfile.IOError(op, c.path(id), err)
}

// Sessions yields the conversations, in no order.
func (c *Transcripts) Sessions(context.Context) iter.Seq2[transcript.SessionFile, error] {
	return func(yield func(transcript.SessionFile, error) bool) {
		dirs, err := os.ReadDir(filepath.Join(c.dir, "threads"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(transcript.SessionFile{}, sessionfile.IOError("list sessions", c.dir, err))
			return
		}
		for _, d := range dirs {
			f := transcript.SessionFile{Session: segno.SessionID(d.Name()), Path: c.path(segno.SessionID(d.Name()))}
			err := sessionfile.CheckNewSession("list sessions", f.Session)
			if info, statErr := os.Lstat(f.Path); statErr == nil && err == nil {
				f.Bytes, f.Modified = info.Size(), info.ModTime()
			} else {
				err = errors.Join(err, statErr)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// record is what this package reads of a line.
type record struct {
	Commit struct {
		ID string `json:"id"`
	} `json:"commit"`
	Entries []segno.Entry `json:"entries"`
}

// read reads a conversation whole.
func (c *Transcripts) read(_ context.Context, op string, src segno.Source) (*sessionfile.Conversation, error) {
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return nil, err
	}
	path := c.path(src.Session)
	lines, err := sessionfile.ReadConversation(op, path)
	if err != nil {
		return nil, sessionfile.IOError(op, path, err)
	}
	out := &sessionfile.Conversation{Lines: lines,
		Position: segno.Position{Agent: Agent, Session: src.Session, Dir: src.Dir, Path: path}}
	number, offset := 0, int64(0)
	for line := range bytes.Lines(lines) {
		number, offset = number+1, offset+int64(len(line))
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			out.Damage = append(out.Damage, segno.Damage{Line: number, Offset: offset - int64(len(line)), Why: "the line is not JSON"})
			continue
		}
		for _, e := range r.Entries {
			if prompt, is := promptOf(e); is {
				out.Turns = append(out.Turns, sessionfile.Turn{Leaf: r.Commit.ID, Prompt: prompt})
			} else if n := len(out.Turns); n > 0 {
				out.Turns[n-1].IsAnswered = true
			}
		}
		if n := len(out.Turns); n > 0 {
			out.Turns[n-1].To = offset
		}
	}
	return out, nil
}

// promptOf returns the prompt in an entry, if the entry is a message of the user. The body has the form of
// package agent or is a text.
func promptOf(e segno.Entry) (prompt string, is bool) {
	if e.Kind != segno.EntryMessage {
		return "", false
	}
	if e.Name == "user" && json.Unmarshal(e.Body, &prompt) == nil {
		return prompt, true
	}
	var m struct {
		Role  string `json:"role"`
		Parts []struct {
			Text string `json:"text"`
		} `json:"parts"`
	}
	if json.Unmarshal(e.Body, &m) != nil || m.Role != "user" {
		return "", false
	}
	for _, p := range m.Parts {
		prompt += p.Text
	}
	return prompt, true
}

// EndsAt reports whether the conversation has p's bytes and no more.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	s, err := c.read(ctx, "compare session", src)
	if err != nil {
		return false, err
	}
	return int64(len(s.Lines)) == p.Offset && segno.HashOf(s.Lines) == p.SHA256, nil
}

// Cut writes the conversation that ends at p. Bytes come from the file while it still begins with p's, else
// from o. The file appears whole or not at all. The error is [segno.KindConflict] if the conversation exists with
// other bytes, and [segno.KindRefused] if to has another id than p.
func (c *Transcripts) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	const op = "cut session"
	if p.Leaf == "" || p.Offset <= 0 {
		return segno.Source{}, sessionfile.EmptyError(op, p.Session)
	}
	if err := sessionfile.CheckNewSession(op, to.Session); err != nil {
		return segno.Source{}, err
	}
	if to.Session != p.Session || c.dir == "" {
		return segno.Source{}, segno.Errorf(segno.KindRefused, op, string(p.Session), "only the runner of the agent continues its conversation").
			WithHint("continue the experiment with 'segno generations run --resume-from'")
	}
	lines, err := sessionfile.ReadConversation(op, c.path(p.Session))
	if err != nil {
		lines = nil // the store has a copy
	}
	if lines, err = sessionfile.Bytes(ctx, op, p, lines, o); err != nil {
		return segno.Source{}, sessionfile.IOError(op, string(p.Session), err)
	}
	src := segno.Source{Session: to.Session, Path: c.path(to.Session), Dir: to.Dir}
	if err := sessionfile.WriteNew(c.fs, src.Path, lines); errors.Is(err, fs.ErrExist) {
		return segno.Source{}, segno.Errorf(segno.KindConflict, op, src.Path, "the session exists already")
	} else if err != nil {
		return segno.Source{}, sessionfile.IOError(op, src.Path, err)
	}
	return src, nil
}

// Relocate returns the same conversation, because a conversation does not depend on a directory.
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	found, err := c.Find(ctx, src.Session)
	found.Dir = dir
	return found, err
}
