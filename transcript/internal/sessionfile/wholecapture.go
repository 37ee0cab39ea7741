package sessionfile

import (
	"context"

	"github.com/dalsegno/segno"
)

// WholeCapture implements the captures of a [segno.Transcript] that always reads a whole session.
// An adapter embeds it. Its sessions do not refer to other sessions, so the capture of a cut or a
// fork captures the whole session. The store keeps equal blocks only once.
type WholeCapture struct {
	read func(ctx context.Context, op string, src segno.Source) (*Conversation, error)
}

// CaptureWith returns the captures of sessions that read reads.
func CaptureWith(read func(ctx context.Context, op string, src segno.Source) (*Conversation, error)) WholeCapture {
	return WholeCapture{read}
}

// Capture reads the session and stores the bytes after prev.
func (w WholeCapture) Capture(ctx context.Context, src segno.Source, prev *segno.Position, b segno.Batch, _ func(string) bool) (segno.Captured, error) {
	return w.capture(ctx, src, prev, false, b)
}

// CaptureTurns is like Capture, with all turns after prev.
func (w WholeCapture) CaptureTurns(ctx context.Context, src segno.Source, prev, _ *segno.Position, _ segno.Objects, b segno.Batch, _ func(string) bool) (segno.Captured, error) {
	return w.capture(ctx, src, prev, true, b)
}

// CaptureCut stores the whole session.
func (w WholeCapture) CaptureCut(ctx context.Context, src segno.Source, _ segno.Position, _ segno.Objects, b segno.Batch) (segno.Position, error) {
	got, err := w.capture(ctx, src, nil, false, b)
	return got.Position, err
}

func (w WholeCapture) capture(ctx context.Context, src segno.Source, prev *segno.Position, all bool, b segno.Batch) (segno.Captured, error) {
	const op = "capture session"
	c, err := w.read(ctx, op, src)
	if err != nil {
		return segno.Captured{}, err
	}
	out, err := c.Capture(ctx, prev, all, b)
	return out, IOError(op, c.Position.Path, err)
}
