package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dalsegno/segno"
)

// origin is a place a position's bytes may be had from.
type origin struct {
	name string // of the file
	open func(ctx context.Context) (io.ReadCloser, error)
}

var errStale = errors.New("the bytes are not those of the position")

// origins returns the places to try for a position's bytes: the agent's files,
// then the objects.
func (c *Claude) origins(p segno.Position, o segno.Objects) []origin {
	var out []origin
	paths, _ := c.files(p.Session)
	if p.Path != "" {
		paths = append([]string{p.Path}, paths...)
	}
	for i, path := range paths {
		if i > 0 && path == p.Path {
			continue
		}
		out = append(out, origin{path, func(context.Context) (io.ReadCloser, error) { return openRegular(path) }})
	}
	if p.Log.IsZero() || o == nil {
		return out
	}
	return append(out, origin{"stored transcript", func(ctx context.Context) (io.ReadCloser, error) {
		r, err := openLog(ctx, o, p.Log, p.Offset)
		return io.NopCloser(r), err
	}})
}

// sound reports whether the agent will find everything the conversation up to
// head is made of. What it would lose without a word is damage.
func (v *view) sound(head int) error {
	chain, gaps, lost := v.chain(head)
	if len(gaps) == 0 {
		return nil
	}
	broken := gaps[0]
	if v.damaged == 0 {
		if lost == none {
			return nil // the agent leaves a parent out now and then, and finds the way by time
		}
		if broken = lost; !v.cutsOff(chain, lost) {
			return nil
		}
	}
	n := &v.nodes[broken]
	return corrupt(opCut, "", fmt.Errorf("line %d hangs from record %s, which is not there%s", n.line, n.parent, v.worst()))
}

// cutsOff reports whether anything was said before the record lost that is not
// in chain.
func (v *view) cutsOff(chain []int, lost int) bool {
	in := make(map[int]bool, len(chain))
	for _, i := range chain {
		in[i] = true
	}
	for i := range lost {
		n := &v.nodes[i]
		if n.kind.speaks() && !n.sidechain && !v.gone[i] && !in[i] {
			return true
		}
	}
	return false
}

// worst describes the first damaged line, if there is one, for an error text.
func (g *graph) worst() string {
	if len(g.damage) == 0 {
		return ""
	}
	d := g.damage[0]
	return fmt.Sprintf("; line %d at byte %d is %s", d.line, d.offset, d.why)
}
