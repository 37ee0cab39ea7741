package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/dalsegno/segno"
)

const (
	// atOnce is the size up to which a compressed file is read with one system call.
	atOnce = 256 << 10
	// readBuffer is how much of a larger file is read at once.
	readBuffer = 128 << 10
)

// An unpacker reads one file of an archive after the other with the same memory.
type unpacker struct {
	ctx    context.Context // ends a copy; nil is Background
	small  []byte          // a header and its content
	memory bytes.Reader    // of small
	stream *bufio.Reader   // of a larger file
	flate  io.ReadCloser
	zstd   *zstd.Decoder
	buffer []byte        // for copies
	file   *bufio.Writer // that is written
	want   []byte        // a header
	meter  *meter        // counts the content, or nil
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// writer returns a buffered writer to a file.
func (u *unpacker) writer(f io.Writer) *bufio.Writer {
	if u.file == nil {
		u.file = bufio.NewWriterSize(nil, readBuffer)
	}
	u.file.Reset(f)
	return u.file
}

// whole returns the content of a small file.
func (r *Reader) whole(i int, limit int64) ([]byte, error) {
	h := &r.headers[i]
	if h.size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", h.name, h.size, limit)
	}
	var u unpacker
	defer u.close()
	f, err := u.open(r, i)
	if err != nil {
		return nil, err
	}
	b := make([]byte, h.size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	if err := f.end(); !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// open checks the local header of a file and returns its content, which is valid until the
// next open. Read returns an error instead of io.EOF if the content does not have the size or the
// checksum in the header.
func (u *unpacker) open(r *Reader, i int) (*entryReader, error) {
	h := &r.headers[i]
	raw, section, err := u.raw(r, h)
	if err != nil {
		return nil, err
	}
	e := &entryReader{name: h.name, left: h.size, crc: h.crc, raw: raw, content: raw}
	switch h.method {
	case methodDeflate:
		e.content, err = u.inflate(raw)
	case methodZstd:
		if err := checkFrame(section, h.compressed, h.size); err != nil {
			return nil, unsafe(fmt.Errorf("%s: %w", h.name, err))
		}
		e.content, err = u.unzstd(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.name, err)
	}
	return e, nil
}

// A byteReader is the input of the decompressors. They read no byte beyond the compressed data from it.
type byteReader interface {
	io.Reader
	io.ByteReader
}

// raw returns the compressed content of a file. It checks the local header.
func (u *unpacker) raw(r *Reader, h *header) (byteReader, io.ReaderAt, error) {
	if n := h.localSize() + h.compressed; n <= atOnce {
		var err error
		if u.small, err = r.read(u.small, h.offset, n); err != nil {
			return nil, nil, err
		}
		if err := u.checkLocal(h, u.small[:h.localSize()]); err != nil {
			return nil, nil, err
		}
		u.memory.Reset(u.small[h.localSize():])
		return &u.memory, &u.memory, nil
	}
	if err := r.checkLocal(u, h); err != nil {
		return nil, nil, err
	}
	section := io.NewSectionReader(r.file, h.offset+h.localSize(), h.compressed)
	if u.stream == nil {
		u.stream = bufio.NewReaderSize(nil, readBuffer)
	}
	u.stream.Reset(section)
	return u.stream, section, nil
}

// checkLocal reads the local header of a file and compares it with the directory.
func (r *Reader) checkLocal(u *unpacker, h *header) (err error) {
	if u.small, err = r.read(u.small, h.offset, h.localSize()); err != nil {
		return err
	}
	return u.checkLocal(h, u.small)
}

// checkLocal compares the local header of a file with the one in the directory.
func (u *unpacker) checkLocal(h *header, local []byte) error {
	u.want = h.appendLocal(u.want[:0])
	if !bytes.Equal(local, u.want) {
		return unsafe(fmt.Errorf("the two headers of %q disagree", h.name))
	}
	return nil
}

func (u *unpacker) inflate(raw byteReader) (io.Reader, error) {
	if u.flate == nil {
		u.flate = flate.NewReader(raw)
		return u.flate, nil
	}
	return u.flate, u.flate.(flate.Resetter).Reset(raw, nil)
}

func (u *unpacker) unzstd(raw byteReader) (io.Reader, error) {
	var err error
	if u.zstd == nil {
		u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return nil, err
		}
	}
	return u.zstd, u.zstd.Reset(raw)
}

// An entryReader reads the content of one file.
type entryReader struct {
	name    string
	content io.Reader
	raw     byteReader
	left    int64
	crc     uint32
	sum     uint32 // of the content read so far
}

func (e *entryReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, e.end()
	}
	n, err := e.content.Read(p[:min(int64(len(p)), e.left)])
	e.sum = crc32.Update(e.sum, crc32.IEEETable, p[:n])
	e.left -= int64(n)
	switch {
	case err == nil || errors.Is(err, io.EOF) && e.left == 0:
		return n, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("%s is cut off", e.name)
	}
	return n, fmt.Errorf("decompress %s: %w", e.name, err)
}

// end returns an error if anything follows the last byte of the content.
func (e *entryReader) end() error {
	var more [1]byte
	switch n, err := e.content.Read(more[:]); {
	case n > 0:
		return unsafe(fmt.Errorf("%s is longer than its header says", e.name))
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("decompress %s: %w", e.name, err)
	}
	if _, err := e.raw.ReadByte(); !errors.Is(err, io.EOF) {
		return unsafe(fmt.Errorf("%s has bytes behind its compressed content", e.name))
	}
	if e.sum != e.crc {
		return fmt.Errorf("the content of %s has another checksum than its header", e.name)
	}
	return io.EOF
}

// copyEntry writes the content of an entry and checks its hash.
func (r *Reader) copyEntry(u *unpacker, w io.Writer, i int) error {
	e := &r.manifest.Entries[i]
	sum := sha256.New()
	if err := r.copyContent(u, io.MultiWriter(w, sum), i); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
		return fmt.Errorf("the content of %s has another hash than the manifest", e.Path)
	}
	return nil
}

// copyStored writes the content that the archive stores under a header.
func (r *Reader) copyStored(u *unpacker, w io.Writer, header int) error {
	f, err := u.open(r, header)
	if err != nil {
		return err
	}
	if u.buffer == nil {
		u.buffer = make([]byte, readBuffer)
	}
	var content io.Reader = f
	if u.ctx != nil {
		content = &cancelReader{u.ctx, f}
	}
	if u.meter != nil {
		w = io.MultiWriter(w, u.meter)
	}
	_, err = io.CopyBuffer(w, content, u.buffer)
	return err
}

// Verify reads every file and checks it. It writes nothing. For a delta without its base it
// checks the contents that the archive stores; Missing returns how many files remain unchecked.
// Progress may be nil. It is called with the bytes of content read so far and the total.
func (r *Reader) Verify(ctx context.Context, progress func(done, total int64)) error {
	m := &meter{report: progress}
	for i := range r.manifest.Entries {
		if !r.lacks(i) {
			m.total += r.manifest.Entries[i].Size
		} else if s := &r.sources[i]; s.header >= 0 {
			m.total += r.headers[s.header].size
		}
	}
	return inParallel(ctx, len(r.manifest.Entries), m, func(u *unpacker, i int) error {
		err := error(nil)
		if r.lacks(i) {
			err = r.verifyTail(u, i)
		} else {
			err = r.copyEntry(u, io.Discard, i)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		return segno.NewError(segno.KindCorrupt, "verify archive", r.manifest.Entries[i].Path, err)
	})
}

// inParallel does n tasks, several at a time, and begins no more once one fails. The error is
// that of the first failed task by index.
func inParallel(ctx context.Context, n int, m *meter, task func(u *unpacker, i int) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	var failure error
	failed := math.MaxInt
	for range min(n, workers()) {
		group.Go(func() {
			u := unpacker{ctx: ctx, meter: m}
			defer u.close()
			for {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = task(&u, i)
				}
				if err == nil {
					continue
				}
				next.Store(int64(n))
				mu.Lock()
				defer mu.Unlock()
				if i < failed {
					failed, failure = i, err
				}
				return
			}
		})
	}
	group.Wait()
	return failure
}
