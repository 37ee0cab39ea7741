package codex

import (
	"bytes"
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// CaptureTurnEnd stores the record with which Codex ends p's turn, and returns the position behind
// it. Codex writes that record after the hook that captures p. CaptureTurnEnd returns p if p has
// the record already, if Codex has not written it, or if the session no longer begins with p's
// bytes. Errors are those of [Transcripts.Capture].
func (c *Transcripts) CaptureTurnEnd(ctx context.Context, src segno.Source, p segno.Position, b segno.Batch) (segno.Position, error) {
	t := &sessionfile.Capture{Op: "capture end of turn", Source: src, Prev: p, Batch: b}
	got, err := t.Run(ctx, func(ctx context.Context, t *sessionfile.Capture) error { return c.captureTo(ctx, t, true) })
	return got.Position, err
}

// endOfTurn returns the offset behind the record that ends prev's turn. If Codex continued the turn after an
// end, it takes the last such record. It returns prev's offset if no such record follows prev directly.
func (t *capture) endOfTurn(ctx context.Context) (int64, error) {
	end := t.Prev.Offset
	if t.From != end || end == 0 {
		return end, nil
	}
	lines := sessionfile.NewLineReader(t.stream.section(end, t.stream.size), end)
	var r record
	for at := range lines.All() {
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case len(bytes.TrimSpace(at.Bytes)) == 0:
		case r.parse(at.Bytes) != nil:
			return end, nil
		case r.kind == kindEnd && r.text("turn_id") == t.Prev.Leaf:
			end = lines.Offset
		case r.kind != kindNote:
			return end, nil
		}
	}
	_, err := lines.End()
	return end, err
}
