// Package opencode reads the sessions of OpenCode, and has OpenCode import new ones. [Transcripts]
// implements [segno.Transcript].
//
// # Sessions
//
// OpenCode keeps all sessions in one SQLite database: opencode.db, or opencode-CHANNEL.db for some of its channels. The
// tables message and part of OpenCode 1 have one row for each message and each part of a message: an id, and the rest as
// JSON. Ids increase with time. A session of a subagent has a parent.
//
// OpenCode 2 keeps its sessions in the same database, in the tables session_v2 and session_message. A row has a whole
// message, with a type and a number that orders it. Some sessions are in the tables of both versions, because OpenCode 2
// imports those of OpenCode 1, which it may later continue. No version 2 was run with this package: it knows the
// tables from https://github.com/anomalyco/opencode (packages/core/src/session, packages/schema/src/session-message.ts)
// and from https://github.com/getagentseal/codeburn/issues/1293.
//
// This package only reads the database. It represents a session as a stream of lines: one with the
// unchanging facts of the session, then one for each message and each part, in order. It writes a message of
// OpenCode 1 without its summary, because OpenCode changes the summary later and no model sees it.
// Offsets and hashes of a position count bytes of that stream.
//
// A cut is the document that 'opencode import' reads, with new ids. The package runs that command,
// because only OpenCode writes its database. Without the command there are no cuts, and there are none of a session
// that OpenCode 2 wrote; see [transcript.NoCutError].
package opencode

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// Agent is the name of OpenCode in links and checkpoints.
const Agent = "opencode"

// Transcripts are the sessions in the databases of one directory. All methods may be called concurrently. Errors are
// [segno.Error]s.
type Transcripts struct {
	sessionfile.Capturer
	data string
	tmp  string
}

var _ segno.Transcript = (*Transcripts)(nil)

// New returns the sessions of the databases in data, OpenCode's data directory, which must be an
// absolute path. Documents to import are written below tmp. New reads nothing.
func New(data, tmp string) *Transcripts {
	c := &Transcripts{data: data, tmp: tmp}
	c.Capturer = sessionfile.NewWholeCapturer(c.read)
	return c
}

// Agent returns [Agent].
func (c *Transcripts) Agent() string { return Agent }

// Resume returns the command that continues a session.
func (c *Transcripts) Resume(src segno.Source) []string {
	return []string{"opencode", "--session", string(src.Session)}
}

// Find returns where a session is kept.
func (c *Transcripts) Find(ctx context.Context, id segno.SessionID) (segno.Source, error) {
	const op = "find session"
	if err := sessionfile.CheckSession(op, id); err != nil {
		return segno.Source{}, err
	}
	row, err := c.find(ctx, id)
	return segno.Source{Session: id, Path: row.File, Dir: row.Dir}, sessionfile.IOError(op, string(id), err)
}

// EndsAt reports whether the session has p's bytes and no conversation behind them.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	s, err := c.read(ctx, "compare session", src)
	if err != nil {
		return false, err
	}
	end := int64(len(s.Lines))
	if n := len(s.Turns); n > 0 {
		end = s.Turns[n-1].To
	}
	return end <= p.Offset && p.Offset <= int64(len(s.Lines)) && segno.HashOf(s.Lines[:p.Offset]) == p.SHA256, nil
}

// Relocate returns a session that already runs in dir. OpenCode ties a session to its directory, so
// the error is [segno.KindRefused] if it runs in another one.
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	const op = "relocate session"
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return segno.Source{}, err
	}
	row, err := c.find(ctx, src.Session)
	switch {
	case err != nil || row.Dir == dir:
	case row.OpenCode == 2:
		err = segno.Errorf(segno.KindRefused, op, string(src.Session), "segno does not move sessions of OpenCode 2").
			WithHint("continue it in " + row.Dir)
	default:
		err = segno.Errorf(segno.KindRefused, op, string(src.Session), "OpenCode continues it only in %s", row.Dir).
			WithHint("fork it at its newest turn instead")
	}
	return segno.Source{Session: src.Session, Path: row.File, Dir: row.Dir}, sessionfile.IOError(op, string(src.Session), err)
}
