package opencode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const (
	opCut = "cut session"
	// importTime is how long 'opencode import' may take. It needs two seconds.
	importTime = time.Minute
)

// Cut has OpenCode import a session that ends at p. OpenCode's ids have another form, so Cut derives
// the new id from to.Session. Bytes come from the database while it still has p's, else from o. A
// repeated cut with the same to.Session imports the same session.
func (c *Transcripts) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	if p.Leaf == "" || p.Offset <= 0 {
		return segno.Source{}, sessionfile.EmptyError(opCut, p.Session)
	}
	if err := sessionfile.CheckNewSession(opCut, to.Session); err != nil {
		return segno.Source{}, err
	}
	session := "ses_" + segno.DerivedID("opencode", string(to.Session))
	return c.importAs(ctx, opCut, p, session, to.Dir, o, func(id string) string { return renamed(id, session) })
}

// renamed returns the id of a message or a part in another session. It keeps the first part of the
// id, which is the time, so the ids keep their order.
func renamed(id, session string) string {
	const ordered = len("msg_") + 12
	if len(id) <= ordered {
		return id
	}
	return id[:ordered] + segno.DerivedID(id, session)[:14]
}

// Restore has OpenCode import a deleted session, under its own id and with the ids of its messages.
func (c *Transcripts) Restore(ctx context.Context, p segno.Position, dir string, o segno.Objects) (segno.Source, error) {
	const op = "restore session"
	if _, err := c.find(ctx, p.Session); err == nil {
		return segno.Source{}, sessionfile.ExistsError(op, string(p.Session))
	}
	return c.importAs(ctx, op, p, string(p.Session), dir, o, func(id string) string { return id })
}

// importAs has OpenCode import p's bytes as a session in dir. It refuses the bytes of a session of OpenCode 2, because
// they need a document of another form, and no import by version 2 was tested.
func (c *Transcripts) importAs(ctx context.Context, op string, p segno.Position, session, dir string, o segno.Objects, rename func(string) string) (segno.Source, error) {
	var present []byte
	if s, err := c.read(ctx, op, segno.Source{Session: p.Session}); err == nil {
		present = s.Lines
	}
	lines, err := sessionfile.Bytes(ctx, op, p, present, o)
	if err != nil {
		return segno.Source{}, sessionfile.IOError(op, string(p.Session), err)
	}
	if isVersion2(lines) {
		return segno.Source{}, segno.NewError(segno.KindRefused, op, string(p.Session),
			&transcript.NoCutError{Why: "segno reads the sessions of OpenCode 2, but does not write them"}).
			WithHint("begin a new session in OpenCode")
	}
	doc, err := documentOf(lines, session, dir, rename)
	if err != nil {
		return segno.Source{}, segno.NewError(segno.KindCorrupt, op, string(p.Session), err)
	}
	if err := c.runImport(ctx, doc, dir); err != nil {
		return segno.Source{}, err
	}
	row, err := c.find(ctx, segno.SessionID(session))
	if err != nil {
		// OpenCode 2 answers 'opencode export' with its help and exits with 0, according to
		// https://github.com/entireio/cli/pull/2397. Its answer to 'opencode import' is unknown.
		return segno.Source{}, &transcript.NoCutError{Why: "opencode import added no session to " + c.data + ", as OpenCode 1 does"}
	}
	return segno.Source{Session: segno.SessionID(session), Path: row.File, Dir: dir}, nil
}

// runImport runs 'opencode import' in dir, because OpenCode ties the session to that directory.
func (c *Transcripts) runImport(ctx context.Context, doc []byte, dir string) error {
	program, err := exec.LookPath("opencode")
	if err != nil {
		return &transcript.NoCutError{Why: "opencode is not in PATH, and only it can write its sessions"}
	}
	// The document need not survive a crash: OpenCode makes its content durable.
	temp, err := os.MkdirTemp(c.tmp, "segno-import-*")
	if err != nil {
		return sessionfile.IOError(opCut, c.tmp, err)
	}
	defer os.RemoveAll(temp)
	file := filepath.Join(temp, "session.json")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		return sessionfile.IOError(opCut, file, err)
	}
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "import", file)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return sessionfile.IOError(opCut, program, ctx.Err())
	}
	return &transcript.NoCutError{Why: fmt.Sprintf("opencode import failed: %v: %s", err, lastLine(out))}
}

func lastLine(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return strings.ToValidUTF8(string(lines[len(lines)-1]), "")
}
