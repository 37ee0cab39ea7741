package codex

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxLineage limits how many rollouts a session may refer to, one through the other, because all
	// of them are open at once.
	maxLineage = 250
	// maxWindow is how much memory the decoder of a compressed rollout may use for earlier bytes.
	maxWindow = 64 << 20
)

// stream is the history of a session: the rollouts of its lineage as one sequence of bytes. It
// ends where the newest file ended when it was opened.
type stream struct {
	src    segno.Source
	file   rollout // the newest one
	meta   meta    // of file
	pieces []piece
	size   int64
}

// piece is a part of a rollout.
type piece struct {
	io.ReaderAt
	io.Closer // nil for bytes in memory
	from, to  int64
}

var errEmpty = errors.New("it has no complete line")

// open opens the stream of a session and completes src. The caller must call close.
func (c *Transcripts) open(ctx context.Context, op string, src segno.Source) (s *stream, err error) {
	s = &stream{src: src}
	var index *rolloutIndex
	if s.file, index, err = c.locate(ctx, op, src); err != nil {
		return nil, err
	}
	s.src.Session, s.src.Path = s.file.thread, s.file.path
	if err := s.openLineage(ctx, index); err != nil {
		s.close()
		kind := segno.KindCorrupt
		if errors.Is(err, errEmpty) {
			kind = segno.KindNotFound // the agent has not written the session yet
		}
		if !errors.Is(err, errLineage) && !errors.Is(err, errEmpty) {
			return nil, sessionfile.IOError(op, s.file.path, err)
		}
		return nil, segno.NewError(kind, op, s.file.path, err)
	}
	s.src.Dir = cmp.Or(src.Dir, s.meta.dir)
	return s, nil
}

var errLineage = errors.New("invalid rollout")

// openLineage opens the newest rollout and all those it refers to.
func (s *stream) openLineage(ctx context.Context, index *rolloutIndex) error {
	seen := map[string]bool{}
	at, end := s.file, int64(-1)
	for {
		if seen[at.id] || len(seen) == maxLineage {
			return fmt.Errorf("%w: its lineage does not end", errLineage)
		}
		seen[at.id] = true
		p, m, err := openPiece(ctx, at, end)
		if err != nil {
			return err
		}
		if s.pieces = append(s.pieces, p); len(s.pieces) == 1 {
			s.meta = m
		}
		if m.base == nil {
			break
		}
		base, ok := index.byID[m.base.rollout]
		if !ok {
			return fmt.Errorf("%w: rollout %s, which has its beginning, is missing", errLineage, m.base.rollout)
		}
		at, end = base, m.base.end
	}
	if len(s.pieces) == 1 {
		s.pieces[0].from = 0
	} else {
		line := s.meta.flattened()
		s.pieces = append(s.pieces, piece{ReaderAt: bytes.NewReader(line), to: int64(len(line))})
	}
	slices.Reverse(s.pieces)
	for _, p := range s.pieces {
		s.size += p.to - p.from
	}
	return nil
}

// openPiece opens a rollout and reads its first line. The piece contains the lines after that one,
// up to the offset end, or to the end of the file if end is negative.
func openPiece(ctx context.Context, r rollout, end int64) (p piece, m meta, err error) {
	f, err := vfs.OpenRegular(r.path)
	if err != nil {
		return p, m, err
	}
	p = piece{ReaderAt: f, Closer: f}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if r.isCompressed() {
		z := &compressedFile{ctx: ctx, file: f}
		p.ReaderAt, p.Closer = z, z
		p.to, err = z.size()
	} else {
		var fi os.FileInfo
		if fi, err = f.Stat(); err == nil {
			p.to = fi.Size()
		}
	}
	if err != nil {
		return p, m, err
	}
	lines := sessionfile.NewLineReader(io.NewSectionReader(p, 0, min(p.to, sessionfile.MaxLine)), 0)
	first, ok := lines.Next()
	if _, err := lines.End(); !ok && err != nil {
		return p, m, err
	}
	if !ok {
		return p, m, errEmpty
	}
	if m, err = parseMeta(bytes.Clone(first.Bytes)); err != nil {
		return p, m, fmt.Errorf("%w: %w", errLineage, err)
	}
	p.from = int64(len(first.Bytes))
	if end >= 0 {
		err = p.endAt(end)
	}
	return p, m, err
}

// endAt makes the piece end at an offset of its file.
func (p *piece) endAt(end int64) error {
	if end < p.from || end > p.to {
		return fmt.Errorf("%w: it continues at byte %d of a rollout of %d bytes", errLineage, end, p.to)
	}
	var before [1]byte
	if _, err := p.ReadAt(before[:], end-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if before[0] != '\n' {
		return fmt.Errorf("%w: it continues in the middle of a line of another rollout", errLineage)
	}
	p.to = end
	return nil
}

// ReadAt implements [io.ReaderAt].
func (s *stream) ReadAt(b []byte, off int64) (n int, err error) {
	for _, p := range s.pieces {
		size := p.to - p.from
		if off >= size {
			off -= size
			continue
		}
		want := b[n:min(len(b), n+int(min(size-off, int64(len(b)))))]
		got, err := p.ReadAt(want, p.from+off)
		if n += got; got < len(want) {
			return n, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		if off = 0; n == len(b) {
			return n, nil
		}
	}
	return n, io.EOF
}

// section reads the bytes between two offsets.
func (s *stream) section(from, to int64) io.Reader { return io.NewSectionReader(s, from, to-from) }

// close closes the files.
func (s *stream) close() {
	for _, p := range s.pieces {
		if p.Closer != nil {
			_ = p.Closer.Close() // it was only read
		}
	}
}

// dir returns the directory of the newest turn: the user may have continued the session in another
// one. It reads only the end of the stream.
func (s *stream) dir() (string, error) {
	const tail = 256 << 10
	dir := s.meta.dir
	l := sessionfile.NewLineReader(s.section(max(0, s.size-tail), s.size), 0)
	var r record
	for at := range l.All() {
		if r.parse(at.Bytes) == nil && r.kind == kindContext {
			dir = cmp.Or(r.text("cwd"), dir)
		}
	}
	_, err := l.End()
	return dir, err
}

// compressedFile reads a compressed rollout. Reading backwards decompresses the file again from its
// beginning. Only one goroutine may use it.
type compressedFile struct {
	ctx  context.Context
	file *os.File
	in   *zstd.Decoder
	at   int64
}

// size returns the number of decompressed bytes.
func (z *compressedFile) size() (int64, error) {
	if err := z.restart(); err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, readerFunc(z.read))
	return n, err
}

func (z *compressedFile) restart() error {
	if _, err := z.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z.at = 0
	if z.in != nil {
		return z.in.Reset(z.file)
	}
	in, err := zstd.NewReader(z.file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	z.in = in
	return err
}

// read continues where the last read ended.
func (z *compressedFile) read(b []byte) (int, error) {
	if err := z.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := z.in.Read(b)
	z.at += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: decompress: %w", errLineage, err)
	}
	return n, err
}

// ReadAt implements [io.ReaderAt].
func (z *compressedFile) ReadAt(b []byte, off int64) (int, error) {
	if off < z.at {
		if err := z.restart(); err != nil {
			return 0, err
		}
	}
	if _, err := io.CopyN(io.Discard, readerFunc(z.read), off-z.at); err != nil {
		return 0, err
	}
	return io.ReadFull(readerFunc(z.read), b)
}

// Close closes the file.
func (z *compressedFile) Close() error {
	if z.in != nil {
		z.in.Close()
	}
	return z.file.Close()
}

// readerFunc is a function as a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
