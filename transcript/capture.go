package transcript

import (
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
)

const opCapture = "capture session"

// attempts is how often a capture begins anew because the file was rewritten
// meanwhile.
const attempts = 3

// Capture stores what the transcript holds beyond prev and the session's
// sidecars. It reads the new bytes only, unless the file was rewritten, the user
// went back to an older place, or prev is nil or its log is gone. Bytes after the last newline are
// left for the next capture. The position's Digest is the state of the running
// hash and a check of the 4 KiB before the offset. The error is
// [segno.KindNotFound] if there is no transcript and [segno.KindBusy] if it kept
// changing other than by growing.
func (c *Claude) Capture(ctx context.Context, src segno.Source, prev *segno.Position, b segno.Batch, known func(leaf string) bool) (segno.Captured, error) {
	if known == nil {
		known = func(string) bool { return false }
	}
	t := &taking{c: c, op: opCapture, src: src, prev: prev, batch: b, known: known}
	err := t.take(ctx)
	return t.out, err
}

var errRewritten = errors.New("the transcript was rewritten while it was read")

// taking is one capture.
type taking struct {
	c     *Claude
	op    string
	src   segno.Source
	prev  *segno.Position
	batch segno.Batch
	known func(string) bool
	file  *os.File

	of      *segno.Position // what the session was cut from, nil if that does not matter
	objects segno.Objects   // with of's bytes

	from  int64 // where the new bytes begin
	to    int64 // the end of the last whole line
	hash  hash.Hash
	graph *graph // of the new bytes, or of all
	check uint32 // of the new bytes, as the graph saw them
	out   segno.Captured
}

// take captures the session, again if it is rewritten meanwhile.
func (t *taking) take(ctx context.Context) (err error) {
	if t.src, err = t.c.locate(ctx, t.op, t.src); err != nil {
		return err
	}
	if t.file, err = openRegular(t.src.Path); err != nil {
		return ioError(t.op, t.src.Path, err)
	}
	defer t.file.Close()
	for range attempts {
		err = t.run(ctx)
		if !errors.Is(err, errRewritten) {
			break
		}
	}
	if errors.Is(err, errRewritten) {
		err = segno.NewError(segno.KindBusy, t.op, t.src.Path, err)
	}
	return ioError(t.op, t.src.Path, err)
}

func (t *taking) run(ctx context.Context) error {
	t.out = segno.Captured{}
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := t.look(ctx); err != nil {
		return err
	}
	s, sure := t.tell()
	if !sure {
		whole := newTurnGraph(t.src.Path)
		whole.whole = true
		if _, err := whole.read(ctx, newLines(io.NewSectionReader(t.file, 0, t.to), 0)); err != nil {
			return err
		}
		whole.damage = t.graph.damage
		t.graph = whole
		s, _ = t.tell()
	}
	if err := t.store(ctx, s); err != nil {
		return err
	}
	return t.report(ctx)
}

// begin decides where the new bytes begin. What is to follow a log that is not
// there any more begins a new one.
func (t *taking) begin(ctx context.Context) error {
	t.from, t.hash = 0, sha256.New()
	if t.prev == nil {
		return nil
	}
	h, ok := resume(t.file, t.prev)
	if !ok || t.prev.Offset == 0 {
		return nil
	}
	there, err := t.batch.Has(ctx, t.prev.Log)
	if there {
		t.from, t.hash = t.prev.Offset, h
	}
	return err
}

// look reads the new bytes.
func (t *taking) look(ctx context.Context) error {
	fi, err := t.file.Stat()
	if err != nil {
		return err
	}
	t.graph = newTurnGraph(t.src.Path)
	t.graph.whole = t.from == 0
	n, err := t.graph.read(ctx, newLines(io.NewSectionReader(t.file, t.from, fi.Size()-t.from), t.from))
	t.to = t.from + n
	t.check = t.graph.sum
	return err
}

// store puts the new bytes into the batch, cut where a position of s needs it,
// and fills in the positions.
func (t *taking) store(ctx context.Context, s story) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	w, at, err := t.begun(ctx, sum)
	if err != nil {
		return err
	}
	r := io.TeeReader(io.NewSectionReader(t.file, at, t.to-at), sum)
	block := make([]byte, min(blockSize, max(t.to-at, 1)))
	for _, e := range s.earlier {
		if err := t.copy(ctx, w, r, block, e.end-at); err != nil {
			return err
		}
		at = e.end
		p, err := t.position(ctx, w, e.leaf, at)
		if err != nil {
			return err
		}
		t.out.Earlier = append(t.out.Earlier, segno.TranscriptTurn{Key: segno.TurnKey(e.key), Prompt: e.prompt, Position: p})
	}
	if err := t.copy(ctx, w, r, block, t.to-at); err != nil {
		return err
	}
	if sum.Sum32() != t.check {
		return errRewritten
	}
	p, err := t.position(ctx, w, s.leaf, t.to)
	if err != nil {
		return err
	}
	if p.Digest, err = digest(t.file, t.hash, t.to); err != nil {
		return err
	}
	t.out.Position, t.out.Prompt, t.out.Follows, t.out.Origin = p, s.prompt, s.follows, s.origin
	if s.said != nil {
		t.out.Key, t.out.Text = segno.TurnKey(s.said.key), s.said.text
	}
	return nil
}

// begun returns a log of what is stored already, and where that ends. What is
// new of it to the graph is added to sum.
func (t *taking) begun(ctx context.Context, sum hash.Hash32) (w *logWriter, at int64, err error) {
	w = &logWriter{batch: t.batch}
	switch {
	case t.of != nil:
		at, err = t.derive(ctx, w, sum)
		return w, at, err
	case t.from > 0:
		w.node, w.size = t.prev.Log, t.from
	}
	return w, t.from, nil
}

// copy stores the next n bytes.
func (t *taking) copy(ctx context.Context, w *logWriter, r io.Reader, block []byte, n int64) error {
	for n > 0 {
		piece := block[:min(int64(len(block)), n)]
		if _, err := io.ReadFull(r, piece); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return errRewritten
			}
			return err
		}
		t.hash.Write(piece)
		if err := w.put(ctx, piece); err != nil {
			return err
		}
		n -= int64(len(piece))
	}
	return nil
}

// position returns the place the log has reached.
func (t *taking) position(ctx context.Context, w *logWriter, leaf string, offset int64) (segno.Position, error) {
	log, err := w.close(ctx)
	if err != nil {
		return segno.Position{}, err
	}
	p := segno.Position{
		Agent: t.c.agent, Session: t.src.Session, Dir: t.dir(), Path: t.src.Path,
		Leaf: leaf, Offset: offset, Log: log, Version: t.graph.version,
	}
	t.hash.Sum(p.SHA256[:0])
	if p.Version == "" && t.prev != nil {
		p.Version = t.prev.Version
	}
	return p, nil
}

// dir is the directory the session runs in: what fits the place of its file.
func (t *taking) dir() string {
	slug := filepath.Base(filepath.Dir(t.src.Path))
	candidates := []string{t.src.Dir, t.graph.dir}
	if t.prev != nil {
		candidates = append(candidates, t.prev.Dir)
	}
	for _, dir := range candidates {
		if dir != "" && Slug(dir) == slug {
			return dir
		}
	}
	for _, dir := range append(candidates, plain(t.graph.cwd)) {
		if dir != "" {
			return dir
		}
	}
	return ""
}

// report adds the sidecars and the damage.
func (t *taking) report(ctx context.Context) error {
	var before segno.Hash
	if t.prev != nil {
		before = t.prev.Sidecars
	}
	name, skipped, err := t.c.captureSidecars(ctx, t.src, before, t.batch)
	if err != nil {
		return err
	}
	t.out.Position.Sidecars = name
	for i := range t.out.Earlier {
		t.out.Earlier[i].Position.Sidecars = name
	}
	lines := 0
	if len(t.graph.damage) > 0 && t.from > 0 {
		if lines, err = countLines(ctx, io.NewSectionReader(t.file, 0, t.from)); err != nil {
			return err
		}
	}
	for _, d := range t.graph.damage {
		t.out.Damage = append(t.out.Damage, segno.Damage{Line: lines + d.line, Offset: d.offset, Why: d.why})
	}
	for _, s := range skipped {
		if len(t.out.Damage) < maxDamage {
			t.out.Damage = append(t.out.Damage, segno.Damage{Why: s})
		}
	}
	return nil
}

func countLines(ctx context.Context, r io.Reader) (int, error) {
	l := newLines(r, 0)
	for {
		if _, ok := l.next(); !ok {
			_, err := l.close()
			return l.number, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}

// tailSize is how much before an offset a digest checks.
const tailSize = 4 << 10

// digest returns what a later capture needs to go on at offset.
func digest(f io.ReaderAt, h hash.Hash, offset int64) ([]byte, error) {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("save hash state: %w", err)
	}
	tail, err := tailSum(f, offset)
	return append(state, tail...), err
}

// resume returns the running hash at p's offset, or false if the file does not
// look as it did then.
func resume(f *os.File, p *segno.Position) (hash.Hash, bool) {
	fi, err := f.Stat()
	if err != nil || fi.Size() < p.Offset || p.Offset < 0 || len(p.Digest) < sha256.Size || p.Offset > 0 && p.Log.IsZero() {
		return nil, false
	}
	cut := len(p.Digest) - sha256.Size
	tail, err := tailSum(f, p.Offset)
	if err != nil || string(tail) != string(p.Digest[cut:]) {
		return nil, false
	}
	h := sha256.New()
	if h.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.Digest[:cut]) != nil {
		return nil, false
	}
	return h, [sha256.Size]byte(h.Sum(nil)) == p.SHA256
}

// tailSum is the hash of the bytes before offset.
func tailSum(f io.ReaderAt, offset int64) ([]byte, error) {
	tail := make([]byte, min(offset, tailSize))
	if _, err := f.ReadAt(tail, offset-int64(len(tail))); err != nil && len(tail) > 0 {
		return nil, err
	}
	sum := sha256.Sum256(tail)
	return sum[:], nil
}
