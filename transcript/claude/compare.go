package claude

import (
	"context"
	"io"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opCompare = "compare session"

// BeginsWith reports whether a session's transcript still begins with the bytes of a
// position. It compares only the length and the 4 KiB before the position. If a user deletes the
// transcript of a running agent, the agent writes a new one with only the later records. BeginsWith
// returns true for a position without a digest, because nothing can be compared.
func (c *Transcripts) BeginsWith(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	if len(p.Digest) == 0 {
		return true, nil
	}
	return c.compare(ctx, src, func(f *os.File) (bool, error) {
		fi, err := f.Stat()
		if err != nil {
			return false, err
		}
		_, ok := sessionfile.ResumeHash(f, fi.Size(), &p)
		return ok, nil
	})
}

// EndsAt reports whether the agent, resuming src, would continue from p: the
// file begins with p's bytes, no record behind them is part of the
// conversation, and the agent's own rules choose p.Leaf as the head. It returns false for a file
// with a torn last line, because the agent would lose the next record that it writes, and for a
// file that does not exist.
func (c *Transcripts) EndsAt(ctx context.Context, src segno.Source, p segno.Position) (bool, error) {
	return c.compare(ctx, src, func(f *os.File) (bool, error) { return endsAt(ctx, f, &p) })
}

// compare opens a session's transcript and passes it to the function compare. It returns false
// if there is no transcript.
func (c *Transcripts) compare(ctx context.Context, src segno.Source, compare func(*os.File) (bool, error)) (bool, error) {
	f, src, err := c.open(ctx, opCompare, src)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	ok, err := compare(f)
	return ok, sessionfile.IOError(opCompare, src.Path, err)
}

func endsAt(ctx context.Context, f *os.File, p *segno.Position) (bool, error) {
	a := sessionfile.NewReadAhead(ctx, io.LimitReader(f, p.Offset))
	defer a.Close()
	g := newGraph(f.Name())
	n, err := g.read(ctx, sessionfile.NewLineReader(a, 0))
	if err != nil {
		return false, err
	}
	if !a.Is(p) || n != p.Offset {
		return false, nil
	}
	l := sessionfile.NewLineReader(f, p.Offset)
	var r record
	for at := range l.All() {
		if isBlank(at.Bytes) {
			continue
		}
		if r.parse(at.Bytes) != nil || !g.isUnchangedBy(&r, p.Leaf) {
			return false, nil
		}
		g.add(&r, at)
	}
	if torn, err := l.End(); torn > 0 || err != nil {
		return false, err
	}
	leaf := g.index(p.Leaf)
	if leaf == none {
		return p.Leaf == "" && g.newest == none, nil
	}
	v := g.load()
	return !v.gone[leaf] && v.continuesFrom(leaf) != none, nil
}

// isUnchangedBy reports whether a record that comes after leaf leaves the conversation as
// it is.
func (g *graph) isUnchangedBy(r *record, leaf string) bool {
	if r.kind.inConversation() {
		return r.isSidechain || r.isHousekeeping() && g.isHousekeepingAfter(string(r.parent), leaf)
	}
	switch string(r.typ) {
	case "content-replacement", "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset":
		return false // these change what the model sees of older records
	}
	return true
}

// isHousekeepingAfter reports whether a record is leaf, or below leaf with only
// housekeeping records between them.
func (g *graph) isHousekeepingAfter(uuid, leaf string) bool {
	for range len(g.nodes) + 1 {
		i := g.index(uuid)
		if uuid == leaf || i == none || !g.nodes[i].isHousekeeping {
			break
		}
		uuid = g.nodes[i].parent
	}
	return uuid == leaf
}
