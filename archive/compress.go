package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/dalsegno/segno/secret"
)

const (
	// inMemory is the size up to which a worker reads, scans and compresses a file in memory.
	inMemory = 4 << 20
	workers  = 2
	// deflateLevel is the best trade of this library: beyond it time grows faster than ratio.
	deflateLevel = 5
	// frameWindow is the window of zstd frames. A reader needs this much memory.
	frameWindow = 1 << 20
	// minFrame is the size from which on a zstd frame names its content's size, which a
	// reader demands. A smaller file is stored.
	minFrame = 256
	// prefixStep is the distance between the places of a large file that have a verdict of
	// their own, so that of a transcript that has grown only the new part is scanned.
	prefixStep = 1 << 20
)

// A compressor reads files, scans them and writes them to the body, several at a time and
// in their order.
type compressor struct {
	options  *WriteOptions
	total    int64
	done     int64
	mu       sync.Mutex
	findings []secret.Finding
	shared   *sharer
	dry      bool // hash and scan only
}

// A job is one item: done is closed when its data is ready, or nil of a large one that the
// writer compresses itself.
type job struct {
	item *item
	data []byte
	err  error
	done chan struct{}
}

func (c *compressor) run(ctx context.Context, items []*item, body io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	jobs := make(chan *job)
	ordered := make(chan *job, 2*workers)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		defer close(jobs)
		defer close(ordered)
		for _, i := range items {
			j := &job{item: i, done: make(chan struct{})}
			select {
			case ordered <- j:
			case <-ctx.Done():
				return
			}
			if i.file.Size > inMemory {
				continue
			}
			select {
			case jobs <- j:
			case <-ctx.Done():
				return
			}
		}
	})
	for range workers {
		group.Go(func() {
			e := c.newEncoder()
			for j := range jobs {
				j.data, j.err = c.small(j.item, e)
				close(j.done)
			}
		})
	}
	return c.write(ctx, ordered, body)
}

// write takes the jobs in their order.
func (c *compressor) write(ctx context.Context, ordered <-chan *job, body io.Writer) error {
	large := c.newEncoder()
	at := int64(0)
	for j := range ordered {
		j.item.at = at
		if j.item.file.Size > inMemory {
			if err := c.large(j.item, large, body); err != nil {
				return fmt.Errorf("%s: %w", j.item.name, err)
			}
		} else {
			select {
			case <-j.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if j.err != nil {
				return fmt.Errorf("%s: %w", j.item.name, j.err)
			}
			if _, err := body.Write(j.data); err != nil {
				return err
			}
		}
		at += j.item.header.compressed
		c.done += j.item.file.Size
		if c.options.Progress != nil {
			c.options.Progress(c.done, c.total)
		}
	}
	return ctx.Err()
}

// small reads, scans and compresses a file in memory.
func (c *compressor) small(i *item, e *encoder) ([]byte, error) {
	f, err := i.file.Open()
	if err != nil {
		return nil, err
	}
	data := make([]byte, i.file.Size)
	_, err = io.ReadFull(f, data)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	i.sum = sha256.Sum256(data)
	if !c.known(i.sum) {
		s := c.options.Scanner.Start(i.name)
		_, _ = s.Write(data)
		c.found(s.Close(), i.sum)
	}
	rest := c.shared.small(i, data)
	i.header = header{name: i.stored(), crc: crc32.ChecksumIEEE(rest), size: int64(len(rest)), executable: i.file.Executable}
	packed, method, err := e.encode(rest, i.tier)
	i.header.method, i.header.compressed = method, int64(len(packed))
	return packed, err
}

func (c *compressor) known(sum [32]byte) bool {
	return c.options.Verdicts != nil && c.options.Verdicts.Clean(sum)
}

// found takes the result of a scan, and remembers contents that are clean.
func (c *compressor) found(findings []secret.Finding, sums ...[32]byte) {
	c.mu.Lock()
	c.findings = append(c.findings, findings...)
	c.mu.Unlock()
	if c.options.Verdicts != nil && len(findings) == 0 {
		for _, sum := range sums {
			c.options.Verdicts.Remember(sum)
		}
	}
}

// large compresses a file to the body while it is read. With verdicts the file is read
// once more before, to find how much of its beginning was clean at an earlier scan.
func (c *compressor) large(i *item, e *encoder, body io.Writer) error {
	clean := int64(0)
	if c.options.Verdicts != nil {
		prefixes := newPrefixes()
		if err := copyFile(prefixes, &i.file); err != nil {
			return err
		}
		clean = prefixes.clean(c.options.Verdicts, i.file.Size)
	}
	first, err := c.shared.large(i)
	if err != nil {
		return err
	}
	skip := int64(0)
	if i.shared != nil {
		skip = i.shared.Size
	}
	counted := &countWriter{w: body}
	packer, method, err := e.stream(counted, i.tier, i.file.Size-skip)
	if err != nil {
		return err
	}
	crc, prefixes := crc32.NewIEEE(), newPrefixes()
	scan, tail := c.options.Scanner.Start(i.name), sha256.New()
	stored := &skipWriter{w: io.MultiWriter(crc, packer), from: skip}
	if skip > 0 {
		stored.w = io.MultiWriter(crc, packer, tail)
	}
	if err := copyFile(io.MultiWriter(prefixes, &tailScan{scan, clean}, stored), &i.file); err != nil {
		return err
	}
	if err := packer.Close(); err != nil {
		return err
	}
	i.sum = [32]byte(prefixes.sum.Sum(nil))
	if first != nil && !bytes.Equal(first, i.sum[:]) {
		return errors.New("it changed while it was read")
	}
	if skip > 0 {
		i.setTail([32]byte(tail.Sum(nil)))
	}
	i.header = header{name: i.stored(), method: method, crc: crc.Sum32(), compressed: counted.n, size: i.file.Size - skip, executable: i.file.Executable}
	c.found(scan.Close(), append(prefixes.sums, i.sum)...)
	return nil
}

// copyFile writes exactly a file's size to w.
func copyFile(w io.Writer, file *File) error {
	f, err := file.Open()
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, f, file.Size)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// A tailScan scans all but the beginning of a file.
type tailScan struct {
	scan *secret.Scan
	skip int64
}

func (s *tailScan) Write(p []byte) (int, error) {
	n := min(s.skip, int64(len(p)))
	s.skip -= n
	s.scan.Skip(p[:n])
	_, _ = s.scan.Write(p[n:]) // a scan never fails
	return len(p), nil
}

// prefixes hash a file and its beginnings up to the first line end after each step.
type prefixes struct {
	sum  hash.Hash
	n    int64
	next int64
	ends []int64
	sums [][32]byte
}

func newPrefixes() *prefixes { return &prefixes{sum: sha256.New(), next: prefixStep} }

func (p *prefixes) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part := b
		if wait := p.next - p.n; wait < int64(len(b)) {
			from := max(wait, 0)
			if i := bytes.IndexByte(b[from:], '\n'); i >= 0 {
				part = b[:from+int64(i)+1]
			}
		}
		p.sum.Write(part)
		p.n += int64(len(part))
		if p.n > p.next && part[len(part)-1] == '\n' {
			p.ends = append(p.ends, p.n)
			p.sums = append(p.sums, [32]byte(p.sum.Sum(nil)))
			p.next = p.n + prefixStep
		}
		b = b[len(part):]
	}
	return n, nil
}

// clean returns how much of a file's beginning was found clean before.
func (p *prefixes) clean(v *secret.Verdicts, size int64) int64 {
	if v.Clean([32]byte(p.sum.Sum(nil))) {
		return size
	}
	for i := len(p.sums) - 1; i >= 0; i-- {
		if v.Clean(p.sums[i]) {
			return p.ends[i]
		}
	}
	return 0
}

// A countWriter counts what is written.
type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// An encoder compresses file after file with the same memory.
type encoder struct {
	deflateAll bool
	dry        bool // nothing is written
	deflate    *flate.Writer
	zstd       *zstd.Encoder
	buffer     bytes.Buffer
}

func newEncoder(deflateAll bool) *encoder { return &encoder{deflateAll: deflateAll} }

func (c *compressor) newEncoder() *encoder {
	return &encoder{deflateAll: c.options.Deflate, dry: c.dry}
}

func (e *encoder) method(tier Tier) uint16 {
	if tier == Workspace || e.deflateAll {
		return methodDeflate
	}
	return methodZstd
}

// encode compresses data. What does not become smaller is stored.
func (e *encoder) encode(data []byte, tier Tier) ([]byte, uint16, error) {
	if e.dry {
		return nil, methodStore, nil
	}
	e.buffer.Reset()
	w, method, err := e.stream(&e.buffer, tier, int64(len(data)))
	if err != nil {
		return nil, 0, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, 0, err
	}
	if err := w.Close(); err != nil {
		return nil, 0, err
	}
	if e.buffer.Len() >= len(data) {
		return data, methodStore, nil
	}
	return bytes.Clone(e.buffer.Bytes()), method, nil
}

// stream returns a writer that compresses size bytes to w.
func (e *encoder) stream(w io.Writer, tier Tier, size int64) (io.WriteCloser, uint16, error) {
	if e.dry {
		return plain{io.Discard}, methodStore, nil
	}
	method := e.method(tier)
	if method == methodZstd && size < minFrame {
		return plain{w}, methodStore, nil
	}
	var err error
	if method == methodDeflate {
		if e.deflate == nil {
			if e.deflate, err = flate.NewWriter(w, deflateLevel); err != nil {
				return nil, 0, err
			}
		}
		e.deflate.Reset(w)
		return e.deflate, method, nil
	}
	if e.zstd == nil {
		e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(frameWindow), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, 0, err
		}
	}
	e.zstd.ResetContentSize(w, size)
	return e.zstd, method, nil
}

// plain writes what it gets.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }
