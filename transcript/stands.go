package transcript

import (
	"context"
	"io"
	"os"

	"github.com/dalsegno/segno"
)

const opStands = "compare session"

// EndsAt reports whether the agent, resuming src, would continue from p: the
// file begins with p's bytes, whatever stands behind them is no part of the
// conversation, and the agent's own rules lead to p.Leaf. A torn last line does
// not stand, for the agent would lose what it writes next. No file is no error.
func (c *Claude) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	f, err := c.openIfThere(ctx, opStands, src)
	if f == nil {
		return false, err
	}
	defer f.Close()
	ok, err := stands(ctx, f, p)
	return ok, ioError(opStands, f.Name(), err)
}

func stands(ctx context.Context, f *os.File, p segno.Position) (bool, error) {
	a := readAhead(ctx, io.LimitReader(f, p.Offset))
	defer a.close()
	g := newGraph()
	n, err := g.read(ctx, a.lines())
	if err != nil {
		return false, err
	}
	if _, sum := a.sum(); n != p.Offset || sum != p.SHA256 {
		return false, nil
	}
	l := newLines(f, p.Offset)
	var s scanner
	var r record
	for {
		at, ok := l.next()
		if !ok {
			break
		}
		if blank(at.bytes) {
			continue
		}
		if s.parse(at.bytes, &r) != nil || !g.idle(&r, p.Leaf) {
			return false, nil
		}
		g.add(at, &r)
	}
	if torn, err := l.close(); torn > 0 || err != nil {
		return false, err
	}
	leaf := g.at(p.Leaf)
	if leaf == none {
		return p.Leaf == "" && g.newest == none, nil
	}
	v := g.view()
	return !v.gone[leaf] && v.head() == v.speaker(leaf) && v.speaker(leaf) != none, nil
}

// idle reports whether a record that comes after leaf leaves the conversation as
// it is.
func (g *graph) idle(r *record, leaf string) bool {
	if r.kind.chains() {
		if r.sidechain {
			return true
		}
		return harmless(r) && (string(r.parent) == leaf || g.follows(string(r.parent), leaf))
	}
	switch string(r.typ) {
	case "content-replacement", "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset":
		return false // what the model sees of older records changes
	}
	return true
}

// follows reports whether a harmless record hangs from leaf.
func (g *graph) follows(uuid, leaf string) bool {
	for steps := 0; steps <= len(g.nodes); steps++ {
		i := g.at(uuid)
		if i == none || !g.nodes[i].harmless {
			return uuid == leaf
		}
		if uuid == leaf {
			return true
		}
		uuid = g.nodes[i].parent
	}
	return false
}
