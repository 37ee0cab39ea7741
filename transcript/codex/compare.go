package codex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opCompare = "compare session"

// BeginsWith reports whether a session's rollouts still begin with the bytes of a position. It
// compares only their length and the 4 KiB before the position. It returns true for a position
// without a digest, because nothing can be compared. It returns false if the user archived the
// session or if one of its rollouts is missing: codex-acp opens both without an error and without
// their history.
func (c *Transcripts) BeginsWith(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	if len(p.Digest) == 0 {
		return true, nil
	}
	s, err := c.openExisting(ctx, src)
	if s == nil {
		return false, err
	}
	defer s.close()
	_, ok := sessionfile.ResumeHash(s, s.size, &p)
	return ok && !s.file.isArchived(), nil
}

// openExisting opens the stream of a session. It returns nil if a rollout of it is missing.
func (c *Transcripts) openExisting(ctx context.Context, src segno.Source) (*stream, error) {
	s, err := c.open(ctx, opCompare, src)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindCorrupt {
		return nil, nil
	}
	return s, err
}

// EndsAt reports whether Codex, resuming src, would continue from p: the session begins with p's
// bytes, and no line behind them is part of another turn or changes what the model sees. The record
// of the end of p's turn may follow, because Codex writes it after the hook that captures p. EndsAt
// returns false for a session that the user archived, for a session that does not exist, and for one
// with a torn last line, because Codex may fail on it.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	s, err := c.openExisting(ctx, src)
	if s == nil {
		return false, err
	}
	defer s.close()
	if s.file.isArchived() || s.size < p.Offset {
		return false, nil
	}
	ok, err := s.endsAt(ctx, &p)
	return ok, sessionfile.IOError(opCompare, s.src.Path, err)
}

func (s *stream) endsAt(ctx context.Context, p *segno.Position) (bool, error) {
	a := sessionfile.NewReadAhead(ctx, s.section(0, p.Offset))
	defer a.Close()
	if _, err := io.Copy(io.Discard, a); err != nil || !a.Is(p) {
		return false, err
	}
	after := sessionfile.NewLineReader(s.section(p.Offset, s.size), p.Offset)
	var r record
	for at := range after.All() {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if len(bytes.TrimSpace(at.Bytes)) == 0 {
			continue
		}
		if r.parse(at.Bytes) != nil || r.kind != kindNote && (r.kind != kindEnd || r.text("turn_id") != p.Leaf) {
			return false, nil
		}
	}
	torn, err := after.End()
	return torn == 0, err
}

// PromptedAfter reports whether src has a prompt of the user behind p, also in the turn of p. It
// reads only the bytes behind p.
func (c *Transcripts) PromptedAfter(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	const op = "read session"
	s, err := c.open(ctx, op, src)
	if err != nil {
		return false, err
	}
	defer s.close()
	after := sessionfile.NewLineReader(s.section(min(p.Offset, s.size), s.size), p.Offset)
	var r record
	for at := range after.All() {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if r.parse(at.Bytes) == nil && r.kind == kindPrompt {
			return true, nil
		}
	}
	_, err = after.End()
	return false, sessionfile.IOError(op, s.src.Path, err)
}

// end returns a position at the end of the last whole line.
func (s *stream) end(ctx context.Context) (p segno.Position, err error) {
	h := sha256.New()
	l := sessionfile.NewLineReader(s.section(0, s.size), 0)
	for at := range l.All() {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		h.Write(at.Bytes)
	}
	p = segno.Position{Session: s.src.Session, Offset: l.Offset}
	h.Sum(p.SHA256[:0])
	_, err = l.End()
	return p, err
}
