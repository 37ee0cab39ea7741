package codex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sessionfile"
)

// EndsAt reports whether Codex, resuming src, would continue from p: the session begins with p's
// bytes, and no line behind them is part of another turn or changes what the model sees. The record
// of the end of p's turn may follow, because Codex writes it after the hook that captures p. EndsAt
// returns false for a session that the user archived, for one with a torn last line, in which Codex may stumble,
// and for one that does not exist.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	const op = "compare session"
	s, err := c.open(ctx, op, src)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindCorrupt {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.close()
	if s.file.isArchived() || s.size < p.Offset {
		return false, nil
	}
	ok, err := s.endsAt(ctx, &p)
	return ok, sessionfile.IOError(op, s.src.Path, err)
}

func (s *stream) endsAt(ctx context.Context, p *segno.Position) (bool, error) {
	a := sessionfile.NewReadAhead(ctx, s.section(0, p.Offset))
	defer a.Close()
	if _, err := io.Copy(io.Discard, a); err != nil || !a.Is(p) {
		return false, err
	}
	after := sessionfile.NewLineReader(s.section(p.Offset, s.size), p.Offset)
	after.Max = maxLine
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

// PromptedAfter reports whether the user prompted Codex in src behind p, also in the turn of p. It
// reads only what is behind p.
func (c *Transcripts) PromptedAfter(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	const op = "read session"
	s, err := c.open(ctx, op, src)
	if err != nil {
		return false, err
	}
	defer s.close()
	after := sessionfile.NewLineReader(s.section(min(p.Offset, s.size), s.size), p.Offset)
	after.Max = maxLine
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
