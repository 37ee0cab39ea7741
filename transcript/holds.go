package transcript

import (
	"context"
	"errors"
	"io/fs"

	"github.com/dalsegno/segno"
)

const opHolds = "compare session"

// Holds reports whether a session's transcript still begins with what a position
// has of it, as far as its length and the 4 KiB before the position tell: one that
// was deleted under a running agent is begun anew with what comes then. Of a
// position without a digest nothing can be told, and it holds.
func (c *Claude) Holds(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	if len(p.Digest) == 0 {
		return true, nil
	}
	src, err := c.locate(ctx, opHolds, src)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := openRegular(src.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, ioError(opHolds, src.Path, err)
	}
	defer f.Close()
	_, ok := resume(f, &p)
	return ok, nil
}
