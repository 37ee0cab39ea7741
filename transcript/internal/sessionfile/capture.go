package sessionfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"github.com/dalsegno/segno"
)

// Capturer implements the captures of a [segno.Transcript] and of a [transcript.TurnCapturer], and
// Trace. An adapter embeds it.
//
// A capture reads only the bytes after the earlier position, unless the session was rewritten, the
// user went back to an older turn, or the store has lost the log of that position. Bytes after the
// last newline are left for the next capture. The error is [segno.KindNotFound] if there is no
// session, and [segno.KindBusy] if its files kept changing in ways other than growth.
type Capturer struct {
	try    func(ctx context.Context, t *Capture) error
	blocks *sync.Pool // of *[]byte, the buffers of captures
}

// NewCapturer returns the captures of an adapter. try makes one attempt; see [Capture.Run].
func NewCapturer(try func(ctx context.Context, t *Capture) error) Capturer {
	return Capturer{try, new(sync.Pool)}
}

// NewWholeCapturer returns the captures of an adapter that always reads a whole session. Its sessions
// do not refer to other sessions, so the capture of a cut or a fork captures the whole session. The
// store keeps equal blocks only once.
func NewWholeCapturer(read func(ctx context.Context, op string, src segno.Source) (*Conversation, error)) Capturer {
	return NewCapturer(func(ctx context.Context, t *Capture) error {
		c, err := read(ctx, t.Op, t.Source)
		if err != nil {
			return err
		}
		t.Source.Path = c.Position.Path
		return c.capture(ctx, t)
	})
}

const opCapture = "capture session"

// Capture stores the bytes of the session after prev.
func (c Capturer) Capture(ctx context.Context, src segno.Source, prev *segno.Position, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	return c.run(ctx, &Capture{Op: opCapture, Source: src, Batch: b, isKnown: known}, prev)
}

// CaptureTurns is like Capture for a session that may have had several turns since prev. If the session
// is a fork of the session at of, the new log derives from of's log if it can.
func (c Capturer) CaptureTurns(ctx context.Context, src segno.Source, prev, of *segno.Position, o segno.Objects, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	return c.run(ctx, &Capture{Op: opCapture, Source: src, AllTurns: true, Batch: b, isKnown: known, Of: of, Objects: o}, prev)
}

// CaptureCut returns the position at the end of src, which was cut from of. The result is what Capture
// would return, except that its log derives from of's log and lists only the bytes that are new in src.
// CaptureCut stores all of src if of's log cannot be read, if src does not continue it, or if the
// derived log would cost its readers too much.
func (c Capturer) CaptureCut(ctx context.Context, src segno.Source, of segno.Position, o segno.Objects, b segno.Batch) (segno.Position, error) {
	got, err := c.run(ctx, &Capture{Op: "read session that was cut", Source: src, Batch: b, Of: &of, Objects: o}, nil)
	return got.Position, err
}

// Trace calls visit for each object that a position without sidecars reaches. visit returns false if it
// already knows the references of an object.
func (Capturer) Trace(ctx context.Context, p segno.Position, o segno.Objects, visit func(segno.Hash) bool) error {
	return TraceLog(ctx, o, p.Log, visit)
}

func (c Capturer) run(ctx context.Context, t *Capture, prev *segno.Position) (segno.Captured, error) {
	if t.IsFirst = prev == nil; prev != nil {
		t.Prev = *prev
	}
	t.blocks = c.blocks
	return t.Run(ctx, c.try)
}

// Capture is one capture of a session that grows. The adapter finds the turns in the new bytes.
type Capture struct {
	Op       string
	Source   segno.Source
	Prev     segno.Position // the position of the capture before
	IsFirst  bool           // there is no earlier capture
	AllTurns bool           // a later capture reports all new turns, too
	Batch    segno.Batch
	Of       *segno.Position // the session was cut or forked from it; nil for other sessions
	Objects  segno.Objects   // contain Of's bytes

	// Copies are the places that may have Of's bytes. Compare looks for the bytes of a copy in the
	// session and writes the session's bytes that derive from them to own. It returns the log that
	// derives from the newest of logs and, if that log has a head, the bytes of the head. The size of
	// the log is 0 if the session must be stored like any other. Without Compare, no log derives.
	Copies  []CopySource
	Compare func(ctx context.Context, from CopySource, logs LogChain, own io.Writer) (node Log, head []byte, err error)

	From int64          // where the new bytes begin
	Out  segno.Captured // the result; until Store, its positions have only a leaf and an offset

	blocks    *sync.Pool             // of *[]byte; nil if no other capture follows
	isKnown   func(leaf string) bool // nil: no leaf is known
	in        io.ReaderAt            // the session's bytes
	hash      hash.Hash              // of the bytes up to From, later of all that were stored
	unchanged int64                  // Prev's offset if the session still begins with Prev's bytes
}

// maxAttempts limits how often a capture is tried while another process rewrites the session.
const maxAttempts = 3

// ErrRewritten is the cause of an error if the session was rewritten while it was read.
var ErrRewritten = errors.New("the transcript was rewritten while it was read")

// Run calls try until it returns an error other than [ErrRewritten]. try opens the session, completes
// t.Source, calls FindNew, sets t.Out and calls Store.
func (t *Capture) Run(ctx context.Context, try func(context.Context, *Capture) error) (segno.Captured, error) {
	var err error
	for range maxAttempts {
		t.Out = segno.Captured{}
		if err = try(ctx, t); !errors.Is(err, ErrRewritten) {
			return t.Out, IOError(t.Op, t.Source.Path, err)
		}
	}
	return t.Out, segno.NewError(segno.KindBusy, t.Op, t.Source.Path, err)
}

// Knows reports whether a leaf belongs to a session that is stored already.
func (t *Capture) Knows(leaf string) bool { return t.isKnown != nil && t.isKnown(leaf) }

// FindNew decides where the new bytes of a session of size bytes begin. The first log of a session
// begins at 0. So does a log if the store has lost the log before it.
func (t *Capture) FindNew(ctx context.Context, in io.ReaderAt, size int64) error {
	t.in, t.From, t.unchanged, t.hash = in, 0, 0, sha256.New()
	h, ok := ResumeHash(in, size, &t.Prev)
	if !ok || t.Prev.Offset == 0 {
		return nil
	}
	t.unchanged = t.Prev.Offset
	has, err := t.Batch.Has(ctx, t.Prev.Log)
	if has {
		t.From, t.hash = t.Prev.Offset, h
	}
	return err
}

// Store puts the new bytes into the batch and completes the positions of Out with the fields of about.
// It splits the bytes at the position of each earlier turn, because that position needs a log that
// ends there. sum is the CRC-32C of the bytes from From to the newest position when the turns were
// read. The error is [ErrRewritten] if they have changed.
func (t *Capture) Store(ctx context.Context, about segno.Position, sum uint32) error {
	w, stored, at := &LogWriter{Batch: t.Batch}, crc32.New(Castagnoli()), t.From
	switch {
	case t.Of != nil && t.Objects != nil && t.Compare != nil && !t.Of.Log.IsZero():
		var err error
		if at, err = t.derive(ctx, w, stored); err != nil {
			return err
		}
	case t.From > 0:
		w.Next = Log{Prev: t.Prev.Log, Size: t.From}
	}
	p := &t.Out.Position
	size := p.Offset - at
	r := io.TeeReader(io.NewSectionReader(t.in, at, size), io.MultiWriter(stored, t.hash))
	block, release := t.takeBlock(int(min(BlockSize, max(size, 1))))
	defer release()
	for i := range t.Out.Earlier {
		if err := t.storeTo(ctx, w, r, block, &t.Out.Earlier[i].Position, about); err != nil {
			return err
		}
	}
	if err := t.storeTo(ctx, w, r, block, p, about); err != nil {
		return err
	}
	if stored.Sum32() != sum {
		return ErrRewritten
	}
	var err error
	p.Digest, err = Digest(t.in, t.hash, p.Offset)
	return err
}

// takeBlock returns a buffer of n bytes, and the function that gives it to a later capture. Otherwise, a megabyte of new memory
// for each of thousands of sessions costs as much as to read them.
func (t *Capture) takeBlock(n int) (block []byte, release func()) {
	if t.blocks == nil {
		return make([]byte, n), func() {}
	}
	buf, ok := t.blocks.Get().(*[]byte)
	if !ok || cap(*buf) < n {
		buf = new(make([]byte, n))
	}
	return (*buf)[:n], func() { t.blocks.Put(buf) }
}

// storeTo stores the next bytes of r, up to p's offset, and completes p.
func (t *Capture) storeTo(ctx context.Context, w *LogWriter, r io.Reader, block []byte, p *segno.Position, about segno.Position) (err error) {
	about.Leaf, about.Offset = p.Leaf, p.Offset
	*p = about
	for left := p.Offset - w.Next.Size; left > 0; {
		part := block[:min(int64(len(block)), left)]
		if _, err := io.ReadFull(r, part); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrRewritten
		} else if err != nil {
			return err
		}
		if err := w.Put(ctx, part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	t.hash.Sum(p.SHA256[:0])
	p.Log, err = w.Close(ctx)
	return err
}

// derive makes w derive from Of's log, as far as both sessions are the same, and returns where the
// session's own bytes begin. It adds the bytes before that offset to sum. It returns 0 if the session
// must be stored like any other.
func (t *Capture) derive(ctx context.Context, w *LogWriter, sum hash.Hash32) (at int64, err error) {
	logs, err := ReadLog(ctx, t.Objects, t.Of.Log, t.Of.Offset)
	if err != nil {
		return 0, ctx.Err()
	}
	for _, from := range t.Copies {
		sum.Reset()
		t.hash.Reset()
		node, head, err := t.Compare(ctx, from, logs, io.MultiWriter(t.hash, sum))
		if err != nil {
			continue
		}
		if node.Size == 0 || len(t.Out.Earlier) > 0 && node.Size > t.Out.Earlier[0].Position.Offset {
			break // no log ends where the first own turn does
		}
		if node.Prev = t.Of.Log; head != nil {
			name, err := t.Batch.Put(ctx, head)
			if err != nil {
				return 0, err
			}
			node.Head = Chunk{Name: name, Size: int64(len(head))}
		}
		w.Next = node
		return node.Size, nil
	}
	sum.Reset()
	t.hash.Reset()
	return 0, ctx.Err()
}

// SetDamage sets the damage of the result. The lines of damage count from From.
func (t *Capture) SetDamage(ctx context.Context, damage []segno.Damage) error {
	if t.Out.Damage = damage; len(damage) == 0 || t.From == 0 {
		return nil
	}
	l := NewLineReader(io.NewSectionReader(t.in, 0, t.From), 0)
	for range l.All() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	_, err := l.End()
	for i := range damage {
		damage[i].Line += l.Number
	}
	return err
}
