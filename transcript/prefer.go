package transcript

import (
	"context"

	"github.com/dalsegno/segno"
)

// Prefer makes a session the newest of its project, so that the agent's "go on
// with the newest" finds it. Its bytes stay as they are.
func (c *Claude) Prefer(ctx context.Context, src segno.Source) error {
	const op = "prefer session"
	src, err := c.locate(ctx, op, src)
	if err != nil {
		return err
	}
	now := c.now()
	return ioError(op, src.Path, c.fs.Chtimes(src.Path, now, now))
}
