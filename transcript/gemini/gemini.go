// Package gemini reads and writes the session files of Gemini CLI. [Transcripts] implements
// [segno.Transcript].
//
// # Session files
//
// A session is a file of JSON lines, tmp/PROJECT/chats/session-TIME-ID.jsonl below .gemini, where ID
// is the beginning of the session's id. PROJECT names a directory: its file .project_root has the
// path. Gemini CLI finds a session only from that directory.
//
// The first line has the id of the session. A line with an id and a type is a message; a later line
// with the same id replaces it. {"$rewindTo": id} removes a message and those behind it, and
// {"$set": {…}} sets metadata or replaces all messages. Lines are only ever appended, so every
// beginning of the file that ends at a line is the session as it was then. A cut is such a
// beginning with another id.
//
// When Gemini CLI resumes a session, it first writes a file without messages under the session's id
// and the present minute, so a session may have several files; the largest one has the conversation.
// A later start of Gemini CLI 0.61 mistakes such a file for a damaged one and deletes all files of that
// id, including the conversation.
//
// Older versions wrote one JSON document per session, which Gemini CLI converts when it resumes the
// session. This package ignores those. It does not keep the files of subagents, which are in a
// directory beside the session.
package gemini

import (
	"context"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// Agent is the name of Gemini CLI in links and checkpoints.
const Agent = "gemini"

// Transcripts are the sessions of Gemini CLI under one directory. All methods may be called
// concurrently. Errors are [segno.Error]s.
type Transcripts struct {
	sessionfile.Capturer
	home string
	fs   vfs.FS
}

var _ segno.Transcript = (*Transcripts)(nil)

// Options are the optional settings of [New].
type Options struct {
	FS vfs.FS // for all writes; nil is the operating system
}

// New returns the transcripts under home, the directory .gemini, which must be absolute. It reads
// nothing.
func New(home string, o Options) *Transcripts {
	c := &Transcripts{home: filepath.Clean(home), fs: o.FS}
	if c.fs == nil {
		c.fs = vfs.OS
	}
	c.Capturer = sessionfile.NewWholeCapturer(func(ctx context.Context, op string, src segno.Source) (*sessionfile.Conversation, error) {
		s, err := c.read(ctx, op, src)
		if err != nil {
			return nil, err
		}
		return &s.Conversation, nil
	})
	return c
}

// Agent returns [Agent].
func (c *Transcripts) Agent() string { return Agent }

// Resume returns the command that continues a session.
func (c *Transcripts) Resume(src segno.Source) []string {
	return []string{"gemini", "--resume", string(src.Session)}
}

// EndsAt reports whether the session begins with p's bytes, no message follows p and no message before it changed. Gemini CLI writes
// the messages again when it resumes a session; these copies change nothing.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	s, err := c.read(ctx, "compare session", src)
	if err != nil {
		return false, err
	}
	if p.Offset > int64(len(s.Lines)) || segno.HashOf(s.Lines[:p.Offset]) != p.SHA256 {
		return false, nil
	}
	before := parse(s.Lines[:p.Offset])
	return before.isSame(s), nil
}
