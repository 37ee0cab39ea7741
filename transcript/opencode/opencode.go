// Package opencode reads the sessions of OpenCode, and has OpenCode import new ones. [Transcripts]
// implements [segno.Transcript].
//
// # Sessions
//
// OpenCode keeps all sessions in one SQLite database, opencode.db. Its tables message and part have
// one row for each message and each part of a message: an id, and the rest as JSON. Ids increase
// with time. A session of a subagent has a parent.
//
// This package only reads the database. It represents a session as a stream of lines: one with the
// unchanging facts of the session, then one for each message and each part, by id. It writes a
// message without its summary, because OpenCode changes the summary later and no model sees it.
// Offsets and hashes of a position count bytes of that stream.
//
// A cut is the document that 'opencode import' reads, with new ids. The package runs that command,
// because only OpenCode writes its database. Without the command there are no cuts; see
// [transcript.NoCutError].
package opencode

import (
	"context"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sessionfile"
)

// Agent is the name of OpenCode in links and checkpoints.
const Agent = "opencode"

// Transcripts are the sessions in one database. All methods may be called concurrently. Errors are
// [segno.Error]s.
type Transcripts struct {
	sessionfile.WholeCapture
	file string
	tmp  string
}

var _ segno.Transcript = (*Transcripts)(nil)

// New returns the sessions of the database in data, OpenCode's data directory, which must be an
// absolute path. Documents to import are written below tmp. New reads nothing.
func New(data, tmp string) *Transcripts {
	c := &Transcripts{file: filepath.Join(data, "opencode.db"), tmp: tmp}
	c.WholeCapture = sessionfile.CaptureWith(c.read)
	return c
}

// Agent returns [Agent].
func (c *Transcripts) Agent() string { return Agent }

// Resume returns the command that continues a session.
func (c *Transcripts) Resume(src segno.Source) []string {
	return []string{"opencode", "--session", string(src.Session)}
}

// Trace calls visit for each object p reaches. visit returns false if it already knows the
// references of an object.
func (c *Transcripts) Trace(ctx context.Context, p segno.Position, o segno.Objects, visit func(segno.Hash) bool) error {
	return sessionfile.TraceLog(ctx, o, p.Log, visit)
}

// Find returns where a session is kept.
func (c *Transcripts) Find(ctx context.Context, id segno.SessionID) (segno.Source, error) {
	const op = "find session"
	if err := sessionfile.CheckSession(op, id); err != nil {
		return segno.Source{}, err
	}
	row, err := c.find(ctx, id)
	return segno.Source{Session: id, Path: c.file, Dir: row.Dir}, sessionfile.IOError(op, c.file, err)
}

// EndsAt reports whether the session has p's bytes and no others.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	s, err := c.read(ctx, "compare session", src)
	if err != nil {
		return false, err
	}
	return int64(len(s.Lines)) == p.Offset && segno.HashOf(s.Lines) == p.SHA256, nil
}

// Relocate returns a session that already runs in dir. OpenCode ties a session to its directory, so
// the error is [segno.KindRefused] if it runs in another one.
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	const op = "relocate session"
	found, err := c.Find(ctx, src.Session)
	if err == nil && found.Dir != dir {
		err = segno.Errorf(segno.KindRefused, op, string(src.Session), "OpenCode continues it only in %s", found.Dir).
			WithHint("fork it at its newest turn instead")
	}
	return found, err
}
