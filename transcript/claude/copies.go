package claude

import (
	"context"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// copies returns the places to try for a position's bytes: the agent's files,
// then the objects.
func (c *Transcripts) copies(op string, p *segno.Position, o segno.Objects) []sessionfile.CopySource {
	var out []sessionfile.CopySource
	paths, _ := c.files(p.Session)
	if p.Path != "" {
		paths = append([]string{p.Path}, paths...)
	}
	for i, path := range paths {
		if i == 0 || path != p.Path {
			out = append(out, sessionfile.CopySource{Op: op, Name: path, Position: p, Open: func(context.Context) (io.ReadCloser, error) { return vfs.OpenRegular(path) }})
		}
	}
	if p.Log.IsZero() || o == nil {
		return out
	}
	return append(out, sessionfile.CopySource{Op: op, Name: "stored transcript", Position: p, Open: func(ctx context.Context) (io.ReadCloser, error) {
		r, err := sessionfile.OpenLog(ctx, o, p.Log, p.Offset, filterLines)
		return io.NopCloser(r), err
	}})
}
