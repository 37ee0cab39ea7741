package claude

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// maxAttempts limits how often a capture is tried while another process rewrites the file.
const maxAttempts = 3

var errRewritten = errors.New("the transcript was rewritten while it was read")

// Capture stores the bytes of the transcript after prev, and the session's
// sidecars. It reads only the new bytes, unless the file was rewritten, the user
// went back to an older record, or prev is nil or its log is gone. Bytes after the last
// newline are left for the next capture. The position's Digest is the state of the running
// hash and a checksum of the 4 KiB before the offset. The error is
// [segno.KindNotFound] if there is no transcript, and [segno.KindBusy] if the file kept
// changing in ways other than growth.
func (c *Transcripts) Capture(ctx context.Context, src segno.Source, prev *segno.Position, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	t := &capture{c: c, op: "capture session", src: src, isFirst: prev == nil, batch: b, isKnown: known}
	if prev != nil {
		t.prev = *prev
	}
	err := t.run(ctx)
	return t.out, err
}

// CaptureCut returns the position at the end of src, which was cut from of. The result is
// what [Transcripts.Capture] would return, except that its log derives from of's
// log and lists only the bytes that are new in src. CaptureCut stores all of src if of's log
// cannot be read, if a reader of the derived log would have to read more than twice the bytes
// of src, or if too many logs of the chain already leave out lines. Errors are those of Capture.
func (c *Transcripts) CaptureCut(ctx context.Context, src segno.Source, of segno.Position, o segno.Objects, b segno.Batch) (segno.Position, error) {
	t := &capture{c: c, op: "read session that was cut", src: src, isFirst: true, batch: b, of: &of, objects: o}
	err := t.run(ctx)
	return t.out.Position, err
}

// CaptureTurns is [Transcripts.Capture] for a session that may have had several turns since prev.
// If the session is a fork of the session at of, the new log derives from of's log as long as
// the lines of both differ only in the session id.
func (c *Transcripts) CaptureTurns(ctx context.Context, src segno.Source, prev, of *segno.Position, o segno.Objects, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	t := &capture{c: c, op: "capture session", src: src, isFirst: prev == nil, allTurns: true, batch: b, isKnown: known, of: of, objects: o}
	if prev != nil {
		t.prev = *prev
	}
	err := t.run(ctx)
	return t.out, err
}

type capture struct {
	c        *Transcripts
	op       string
	src      segno.Source
	prev     segno.Position // the position of the capture before
	isFirst  bool           // there is no earlier capture
	allTurns bool           // a later capture reports all new turns, too
	batch    segno.Batch
	isKnown  func(string) bool // nil: no leaf is known
	file     *os.File

	of      *segno.Position // the session was cut or forked from it; nil for Capture
	objects segno.Objects   // contain of's bytes

	from  int64 // where the new bytes begin
	to    int64 // the end of the last whole line
	hash  hash.Hash
	graph *graph // graph of the new bytes, or of all bytes
	check uint32 // checksum of the new bytes when the graph was read
	out   segno.Captured
}

func (t *capture) known(leaf string) bool { return t.isKnown != nil && t.isKnown(leaf) }

// run captures the session. It starts again if the file is rewritten meanwhile.
func (t *capture) run(ctx context.Context) (err error) {
	if t.file, t.src, err = t.c.open(ctx, t.op, t.src); err != nil {
		return err
	}
	defer t.file.Close()
	for range maxAttempts {
		if err = t.try(ctx); !errors.Is(err, errRewritten) {
			return sessionfile.IOError(t.op, t.src.Path, err)
		}
	}
	return segno.NewError(segno.KindBusy, t.op, t.src.Path, err)
}

func (t *capture) try(ctx context.Context) error {
	if err := t.findNew(ctx); err != nil {
		return err
	}
	fi, err := t.file.Stat()
	if err != nil {
		return err
	}
	if err := sessionfile.CheckSize(t.op, t.src.Path, fi.Size()-t.from); err != nil {
		return err
	}
	if err := t.readGraph(ctx, t.from, fi.Size()); err != nil {
		return err
	}
	t.check = t.graph.sum
	if !t.readConversation() {
		to, damage := t.to, t.graph.damage
		if err := t.readGraph(ctx, 0, to); err != nil {
			return err
		}
		t.to, t.graph.damage = to, damage
		t.readConversation()
	}
	if err := t.store(ctx); err != nil {
		return err
	}
	return t.finish(ctx)
}

// findNew decides where the new bytes begin. The first log of a file begins at 0. So does
// a log if the store has lost the log before it.
func (t *capture) findNew(ctx context.Context) error {
	t.from, t.hash = 0, sha256.New()
	fi, err := t.file.Stat()
	if err != nil {
		return err
	}
	h, ok := sessionfile.ResumeHash(t.file, fi.Size(), &t.prev)
	if !ok || t.prev.Offset == 0 {
		return nil
	}
	has, err := t.batch.Has(ctx, t.prev.Log)
	if has {
		t.from, t.hash = t.prev.Offset, h
	}
	return err
}

// readGraph reads the whole lines between two offsets.
func (t *capture) readGraph(ctx context.Context, from, to int64) error {
	t.graph = newGraph(t.src.Path)
	t.graph.readTurns, t.graph.isWhole = true, from == 0
	n, err := t.graph.read(ctx, sessionfile.NewLineReader(io.NewSectionReader(t.file, from, to-from), from))
	t.to = from + n
	return err
}

// store puts the new bytes into the batch and completes the positions. It splits the bytes at
// the position of each earlier turn, because that position needs a log that ends there.
func (t *capture) store(ctx context.Context) error {
	sum := crc32.New(sessionfile.Castagnoli())
	w := &sessionfile.LogWriter{Batch: t.batch}
	at, err := t.from, error(nil)
	switch {
	case t.of != nil:
		at, err = t.derive(ctx, w, sum)
	case t.from > 0:
		w.Next = sessionfile.Log{Prev: t.prev.Log, Size: t.from}
	}
	if err != nil {
		return err
	}
	r := io.TeeReader(io.NewSectionReader(t.file, at, t.to-at), io.MultiWriter(sum, t.hash))
	block := make([]byte, min(sessionfile.BlockSize, max(t.to-at, 1)))
	for i := range t.out.Earlier {
		if err := t.storeTo(ctx, w, r, block, &t.out.Earlier[i].Position); err != nil {
			return err
		}
	}
	p := &t.out.Position
	if err := t.storeTo(ctx, w, r, block, p); err != nil {
		return err
	}
	if sum.Sum32() != t.check {
		return errRewritten
	}
	p.Digest, err = sessionfile.Digest(t.file, t.hash, t.to)
	return err
}

// storeTo stores the next bytes of r, up to p's offset, and completes p.
func (t *capture) storeTo(ctx context.Context, w *sessionfile.LogWriter, r io.Reader, block []byte, p *segno.Position) (err error) {
	for left := p.Offset - w.Next.Size; left > 0; {
		piece := block[:min(int64(len(block)), left)]
		if _, err := io.ReadFull(r, piece); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errRewritten
		} else if err != nil {
			return err
		}
		if err := w.Put(ctx, piece); err != nil {
			return err
		}
		left -= int64(len(piece))
	}
	p.Agent, p.Session, p.Dir, p.Path, p.Version = t.c.agent, t.src.Session, t.dir(), t.src.Path, cmp.Or(t.graph.version, t.prev.Version)
	t.hash.Sum(p.SHA256[:0])
	p.Log, err = w.Close(ctx)
	return err
}

// dir returns the directory in which the session runs. It prefers a known directory whose slug
// is the name of the file's directory.
func (t *capture) dir() string {
	slug, first := filepath.Base(filepath.Dir(t.src.Path)), ""
	for _, dir := range []string{t.src.Dir, t.graph.dir, t.prev.Dir, t.graph.cwdText()} {
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

// finish adds the sidecars and the damage to the result.
func (t *capture) finish(ctx context.Context) error {
	name, skipped, err := t.c.captureSidecars(ctx, t.src, t.prev.Sidecars, t.batch)
	if err != nil {
		return err
	}
	t.out.Position.Sidecars = name
	for i := range t.out.Earlier {
		t.out.Earlier[i].Position.Sidecars = name
	}
	l := sessionfile.NewLineReader(io.NewSectionReader(t.file, 0, t.from), 0)
	if len(t.graph.damage) > 0 {
		for range l.All() { // counts the lines before the new bytes
		}
		if _, err := l.End(); err != nil {
			return err
		}
	}
	for _, d := range t.graph.damage {
		t.out.Damage = append(t.out.Damage, segno.Damage{Line: l.Number + d.line, Offset: d.offset, Why: d.why})
	}
	for _, s := range skipped {
		if len(t.out.Damage) < maxDamage {
			t.out.Damage = append(t.out.Damage, segno.Damage{Why: s})
		}
	}
	return nil
}
