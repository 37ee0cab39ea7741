package claude

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// capture is a [sessionfile.Capture] of a transcript and the session's sidecars.
type capture struct {
	*sessionfile.Capture
	c     *Transcripts
	file  *os.File
	to    int64  // the end of the last whole line
	graph *graph // graph of the new bytes, or of all bytes
}

// capture makes one attempt of a capture.
func (c *Transcripts) capture(ctx context.Context, s *sessionfile.Capture) (err error) {
	t := &capture{Capture: s, c: c}
	if t.file, t.Source, err = c.open(ctx, t.Op, t.Source); err != nil {
		return err
	}
	defer t.file.Close()
	fi, err := t.file.Stat()
	if err != nil {
		return err
	}
	if err := t.FindNew(ctx, t.file, fi.Size()); err != nil {
		return err
	}
	if err := sessionfile.CheckSize(t.Op, t.Source.Path, fi.Size()-t.From); err != nil {
		return err
	}
	if err := t.readGraph(ctx, t.From, fi.Size()); err != nil {
		return err
	}
	sum, damage := t.graph.sum, t.graph.damage
	if !t.readConversation() {
		if err := t.readGraph(ctx, 0, t.to); err != nil {
			return err
		}
		t.readConversation()
	}
	name, hasNew, skipped, err := c.captureSidecars(ctx, t.Source, t.Prev.Sidecars, t.Batch)
	if err != nil {
		return err
	}
	t.Out.HasNewSidecars = hasNew
	if t.Of != nil && sessionfile.CheckNewSession(t.Op, t.Source.Session) == nil {
		t.Copies, t.Compare = c.copies(t.Op, t.Of, t.Objects), t.compare
	}
	about := segno.Position{Agent: c.agent, Session: t.Source.Session, Dir: t.dir(), Path: t.Source.Path,
		Version: cmp.Or(t.graph.version, t.Prev.Version), Sidecars: name}
	if err := t.Store(ctx, about, sum); err != nil {
		return err
	}
	if err := t.SetDamage(ctx, damage); err != nil {
		return err
	}
	for _, why := range skipped[:min(len(skipped), maxDamage-len(damage))] {
		t.Out.Damage = append(t.Out.Damage, segno.Damage{Why: why})
	}
	return nil
}

// readGraph reads the whole lines between two offsets.
func (t *capture) readGraph(ctx context.Context, from, to int64) error {
	t.graph = newGraph(t.Source.Path)
	t.graph.readTurns, t.graph.isWhole = true, from == 0
	n, err := t.graph.read(ctx, sessionfile.NewLineReader(io.NewSectionReader(t.file, from, to-from), from))
	t.to = from + n
	return err
}

// dir returns the directory in which the session runs. It prefers a known directory whose slug
// is the name of the file's directory.
func (t *capture) dir() string {
	slug, first := filepath.Base(filepath.Dir(t.Source.Path)), ""
	for _, dir := range []string{t.Source.Dir, t.graph.dir, t.Prev.Dir, t.graph.cwdText()} {
		switch {
		case dir == "":
		case Slug(dir) == slug:
			return dir
		case first == "":
			first = dir
		}
	}
	return first
}
