package codex

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// maxAttempts limits how often a capture is tried while another process rewrites the file.
const maxAttempts = 3

var errRewritten = errors.New("the transcript was rewritten while it was read")

// Capture stores the bytes of the session after prev. It reads only the new bytes, unless the
// session was reverted or rewritten, or prev is nil or its log is gone. Bytes after the last
// newline are left for the next capture. The leaf of a position is the id of the newest turn with a
// prompt. The error is [segno.KindNotFound] if there is no rollout, [segno.KindCorrupt] if a
// rollout that it refers to is missing, and [segno.KindBusy] if the session kept changing in ways
// other than growth.
func (c *Transcripts) Capture(ctx context.Context, src segno.Source, prev *segno.Position, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	t := &capture{c: c, op: "capture session", src: src, isFirst: prev == nil, batch: b, isKnown: known}
	if prev != nil {
		t.prev = *prev
	}
	err := t.run(ctx)
	return t.out, err
}

// CaptureCut returns the position at the end of src, which was cut from of. The result is what
// [Transcripts.Capture] would return, except that its log replaces the first line of of's log.
// CaptureCut stores all of src if of's log cannot be read, or if src does not continue it. Errors are
// those of Capture.
func (c *Transcripts) CaptureCut(ctx context.Context, src segno.Source, of segno.Position, o segno.Objects, b segno.Batch) (segno.Position, error) {
	t := &capture{c: c, op: "read session that was cut", src: src, isFirst: true, batch: b, of: &of, objects: o}
	err := t.run(ctx)
	return t.out.Position, err
}

// CaptureTurns is [Transcripts.Capture] for a session that may have had several turns since prev. If
// the session is a fork of a session at of, the new log derives from of's log if it can.
func (c *Transcripts) CaptureTurns(ctx context.Context, src segno.Source, prev, of *segno.Position, o segno.Objects, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	t := &capture{c: c, op: "capture session", src: src, isFirst: prev == nil, allTurns: true, batch: b, isKnown: known, of: of, objects: o}
	if prev != nil {
		t.prev = *prev
	}
	err := t.run(ctx)
	return t.out, err
}

type capture struct {
	c       *Transcripts
	op      string
	src     segno.Source
	prev    segno.Position // the position of the capture before
	isFirst bool           // there is no earlier capture
	// allTurns is set if a later capture reports all new turns, too.
	allTurns bool
	batch    segno.Batch
	isKnown  func(string) bool // nil: no leaf is known

	of      *segno.Position // the session was cut from it; nil for Capture
	objects segno.Objects   // contain of's bytes

	// isEndOnly is set if the capture reads only the record that ends prev's turn.
	isEndOnly bool

	stream  *stream
	from    int64 // where the new bytes begin
	hash    hash.Hash
	history *history // of the new bytes
	out     segno.Captured
}

func (t *capture) run(ctx context.Context) (err error) {
	for range maxAttempts {
		if err = t.try(ctx); !errors.Is(err, errRewritten) {
			return sessionfile.IOError(t.op, t.src.Path, err)
		}
	}
	return segno.NewError(segno.KindBusy, t.op, t.src.Path, err)
}

func (t *capture) try(ctx context.Context) (err error) {
	if t.stream, err = t.c.open(ctx, t.op, t.src); err != nil {
		return err
	}
	defer t.stream.close()
	t.src.Path = t.stream.src.Path
	if err := t.findNew(ctx); err != nil {
		return err
	}
	to := t.stream.size
	if t.isEndOnly {
		if to, err = t.endOfTurn(ctx); err != nil || to == t.prev.Offset {
			t.out.Position = t.prev
			return err
		}
	}
	if err := sessionfile.CheckSize(t.op, t.src.Path, to-t.from); err != nil {
		return err
	}
	if t.history, err = readHistory(ctx, t.stream, t.from, to); err != nil {
		return err
	}
	t.out = segno.Captured{}
	t.setTurns()
	if err := t.store(ctx); err != nil {
		return err
	}
	return t.setDamage(ctx)
}

// findNew decides where the new bytes begin. The first log of a session begins at 0. So does a
// log if the store has lost the log before it.
func (t *capture) findNew(ctx context.Context) error {
	t.from, t.hash = 0, sha256.New()
	h, ok := sessionfile.ResumeHash(t.stream, t.stream.size, &t.prev)
	if !ok || t.prev.Offset == 0 {
		return nil
	}
	has, err := t.batch.Has(ctx, t.prev.Log)
	if has {
		t.from, t.hash = t.prev.Offset, h
	}
	return err
}

// setTurns fills t.out from the turns. The positions have only a leaf and an offset.
func (t *capture) setTurns() {
	turns := t.history.turns
	t.out.Position.Offset = t.history.to
	if t.from > 0 || len(turns) == 0 && !t.isFirst {
		t.out.Position.Leaf = t.prev.Leaf
	}
	if len(turns) == 0 {
		return
	}
	newest := turns[len(turns)-1]
	t.out.Position.Leaf = newest.key
	shared := 0 // turns that a known session has, too
	if t.isFirst {
		if shared = t.sharedTurns(); shared > 0 {
			t.out.Origin = &segno.Origin{Leaf: turns[shared-1].key}
		}
	}
	if t.isFirst || t.allTurns {
		for _, turn := range turns[shared:max(shared, len(turns)-1)] {
			if turn.isAnswered && (t.of == nil || t.allTurns) && turn.key != t.prev.Leaf && turn.to > t.from {
				t.out.Earlier = append(t.out.Earlier, segno.TranscriptTurn{Key: segno.TurnKey(turn.key), Prompt: turn.prompt,
					Position: segno.Position{Leaf: turn.key, Offset: turn.to}})
			}
		}
	}
	if shared < len(turns) && newest.key != t.prev.Leaf {
		t.out.Prompt, t.out.Key, t.out.Text = newest.key, segno.TurnKey(newest.key), newest.prompt
		t.out.Follows = t.followed()
		if t.allTurns && t.from > 0 {
			t.out.Follows = t.prev.Leaf
		}
	}
}

// sharedTurns returns the number of turns up to the newest one that is known.
func (t *capture) sharedTurns() int {
	for i, turn := range slices.Backward(t.history.turns) {
		if t.knows(turn.key) {
			return i + 1
		}
	}
	return 0
}

func (t *capture) knows(leaf string) bool { return t.isKnown != nil && t.isKnown(leaf) }

// followed returns the known leaf that the newest turn follows, "" if it follows none.
func (t *capture) followed() string {
	turns := t.history.turns
	for _, turn := range slices.Backward(turns[:len(turns)-1]) {
		isEarlier := slices.ContainsFunc(t.out.Earlier, func(e segno.TranscriptTurn) bool { return e.Position.Leaf == turn.key })
		if turn.key == t.prev.Leaf || isEarlier || t.knows(turn.key) {
			return turn.key
		}
	}
	if t.from > 0 {
		return t.prev.Leaf
	}
	return ""
}

// store puts the new bytes into the batch and completes the positions. It splits the bytes at the
// position of each earlier turn, because that position needs a log that ends there.
func (t *capture) store(ctx context.Context) error {
	w, sum, at := &sessionfile.LogWriter{Batch: t.batch}, crc32.New(sessionfile.Castagnoli()), t.from
	switch {
	case t.of != nil:
		var err error
		if at, err = t.derive(ctx, w, sum); err != nil {
			return err
		}
	case t.from > 0:
		w.Next = sessionfile.Log{Prev: t.prev.Log, Size: t.from}
	}
	r := io.TeeReader(t.stream.section(at, t.history.to), io.MultiWriter(sum, t.hash))
	block := make([]byte, min(sessionfile.BlockSize, max(t.history.to-at, 1)))
	for i := range t.out.Earlier {
		if err := t.storeTo(ctx, w, r, block, &t.out.Earlier[i].Position); err != nil {
			return err
		}
	}
	p := &t.out.Position
	if err := t.storeTo(ctx, w, r, block, p); err != nil {
		return err
	}
	if sum.Sum32() != t.history.sum {
		return errRewritten
	}
	var err error
	p.Digest, err = sessionfile.Digest(t.stream, t.hash, p.Offset)
	return err
}

// storeTo stores the next bytes of r, up to p's offset, and completes p.
func (t *capture) storeTo(ctx context.Context, w *sessionfile.LogWriter, r io.Reader, block []byte, p *segno.Position) (err error) {
	for left := p.Offset - w.Next.Size; left > 0; {
		part := block[:min(int64(len(block)), left)]
		if _, err := io.ReadFull(r, part); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errRewritten
		} else if err != nil {
			return err
		}
		if err := w.Put(ctx, part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	p.Agent, p.Session, p.Path, p.Version = Agent, t.stream.src.Session, t.src.Path, t.stream.meta.version
	if p.Dir = t.src.Dir; p.Dir == "" {
		p.Dir = t.lastDir()
	}
	t.hash.Sum(p.SHA256[:0])
	p.Log, err = w.Close(ctx)
	return err
}

// lastDir returns the directory of the newest turn.
func (t *capture) lastDir() string {
	for _, dir := range []string{t.history.dir, t.prev.Dir} {
		if dir != "" {
			return dir
		}
	}
	return t.stream.meta.dir
}

// setDamage sets the damage, with line numbers from the beginning of the session.
func (t *capture) setDamage(ctx context.Context) error {
	t.out.Damage = t.history.damage
	if len(t.out.Damage) == 0 || t.from == 0 {
		return nil
	}
	l := sessionfile.NewLineReader(t.stream.section(0, t.from), 0)
	for range l.All() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	_, err := l.End()
	for i := range t.out.Damage {
		t.out.Damage[i].Line += l.Number
	}
	return err
}
