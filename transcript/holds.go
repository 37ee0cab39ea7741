package transcript

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/dalsegno/segno"
)

const opHolds = "compare session"

// BeginsWith reports whether a session's transcript still begins with what a position
// has of it, as far as its length and the 4 KiB before the position tell: one that
// was deleted under a running agent is begun anew with what comes then. Of a
// position without a digest nothing can be told, and it holds.
func (c *Claude) BeginsWith(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	if len(p.Digest) == 0 {
		return true, nil
	}
	f, err := c.openIfThere(ctx, opHolds, src)
	if f == nil {
		return false, err
	}
	defer f.Close()
	_, ok := resume(f, &p)
	return ok, nil
}

// openIfThere opens a session's transcript; it is nil without an error if there is
// none.
func (c *Claude) openIfThere(ctx context.Context, op string, src segno.Source) (*os.File, error) {
	src, err := c.locate(ctx, op, src)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := openRegular(src.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, ioError(op, src.Path, err)
	}
	return f, nil
}
