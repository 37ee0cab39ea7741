package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/secret"
)

const (
	// inMemory is the size up to which a worker reads, scans and compresses a file in memory.
	inMemory = 1 << 20
	// maxWorkers bounds the memory: a worker needs about 15 MB.
	maxWorkers = 4
	// deflateLevel is where this library is fastest. Each higher level saves 3 % and costs
	// 10 % more time. The level of zstd is chosen by the same measure.
	deflateLevel = 1
	// frameWindow is the window of zstd frames. A reader needs this much memory.
	frameWindow = 1 << 20
	// minFrame is the size from which on a zstd frame contains the size of its content, which a
	// reader requires. A smaller file is stored.
	minFrame = 256
	// prefixStep is the distance between the places of a large file that have separate
	// verdicts. When a transcript has grown, only its new part is scanned.
	prefixStep = 1 << 20
	// pieceSize is how much of a large file is read at once.
	pieceSize = 256 << 10
)

// workers is how many files are compressed or unpacked at the same time.
func workers() int { return min(runtime.GOMAXPROCS(0), maxWorkers) }

// A compressor reads files, scans them, and compresses them into bodies: temporary files, one
// for each worker. The order of files in a body does not matter.
type compressor struct {
	options  *WriteOptions
	meter    *meter
	next     atomic.Int64 // the index of the item that no worker has begun
	mu       sync.Mutex
	findings []secret.Finding
	shared   *sharer
	dry      bool // hash and scan only
}

// run fills in the items. Each worker writes to one body. The bodies are nil in a dry run.
func (c *compressor) run(ctx context.Context, items []*item, bodies []vfs.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A large file that is begun last would keep one worker busy and the others idle.
	queue := slices.Clone(items)
	slices.SortStableFunc(queue, func(a, b *item) int {
		return cmp.Compare(max(b.file.Size, inMemory), max(a.file.Size, inMemory))
	})
	var group sync.WaitGroup
	var failed sync.Once
	var failure error // the first one; later ones may only report that the context ended
	for _, body := range bodies {
		group.Go(func() {
			if err := c.work(ctx, queue, body); err != nil {
				failed.Do(func() { failure = err })
				cancel()
			}
		})
	}
	group.Wait()
	if failure == nil {
		failure = ctx.Err()
	}
	return failure
}

func sortFindings(list []secret.Finding) {
	slices.SortFunc(list, func(a, b secret.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Record, b.Record), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
}

// work takes items from the queue until it is empty.
func (c *compressor) work(ctx context.Context, queue []*item, temp vfs.File) error {
	var own []*item
	pack := func(w io.Writer) error {
		body := &countWriter{w: w}
		p := &packer{compressor: c, encoder: c.newEncoder(), body: body}
		for ctx.Err() == nil {
			n := c.next.Add(1) - 1
			if n >= int64(len(queue)) {
				return nil
			}
			i := queue[n]
			i.at = body.n
			if err := p.pack(ctx, i); err != nil {
				return fmt.Errorf("%s: %w", i.name, err)
			}
			own = append(own, i)
		}
		return nil
	}
	if c.dry {
		return pack(io.Discard)
	}
	content, err := writeBody(temp, len(c.options.Recipients) > 0, pack)
	for _, i := range own {
		i.body = content
	}
	return err
}

func (c *compressor) known(sum [32]byte) bool {
	return c.options.Verdicts != nil && c.options.Verdicts.Clean(sum)
}

// found records the result of a scan, and remembers contents that are clean.
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

// A packer is the part of a compressor that belongs to one worker. It uses the same memory for all
// files.
type packer struct {
	*compressor
	encoder *encoder
	body    *countWriter
	content []byte
}

func (p *packer) pack(ctx context.Context, i *item) error {
	if p.skip(i) {
		p.meter.add(i.file.Size)
		return nil
	}
	if i.file.Size > inMemory {
		return p.large(ctx, i)
	}
	return p.small(i)
}

// skip records a file that need not be read, because its content is known to be clean and is in the base. It reports
// whether there is such a content.
func (p *packer) skip(i *item) bool {
	if i.file.Sum.IsZero() || i.scanOnly || !p.known(i.file.Sum) {
		return false
	}
	i.shared = p.shared.prefix(i.name, i.file.Size, i.file.Sum)
	i.sum = i.file.Sum
	return i.shared != nil
}

// small reads, scans and compresses a file in memory, as a whole.
func (p *packer) small(i *item) error {
	f, err := i.file.Open()
	if err != nil {
		return err
	}
	p.content = slices.Grow(p.content[:0], int(i.file.Size))[:i.file.Size]
	_, err = io.ReadFull(f, p.content)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	i.sum = sha256.Sum256(p.content)
	if !p.known(i.sum) {
		s := p.options.Scanner.Start(i.name)
		_, _ = s.Write(p.content)
		p.found(s.Close(), i.sum)
	}
	if i.scanOnly {
		return nil
	}
	rest := p.shared.small(i, p.content)
	packed, method, err := p.encoder.encode(rest, i.tier)
	if err != nil {
		return err
	}
	i.header = header{name: i.stored(), method: method, crc: crc32.ChecksumIEEE(rest), compressed: int64(len(packed)),
		size: int64(len(rest)), executable: i.file.Executable}
	if _, err = p.body.Write(packed); err == nil {
		_, err = p.meter.Write(p.content)
	}
	return err
}

// large compresses a file to the body while it reads the file. If there are verdicts, it reads the
// file once before, to find how much of its beginning was clean at an earlier scan.
func (p *packer) large(ctx context.Context, i *item) error {
	clean := int64(0)
	if p.options.Verdicts != nil {
		prefixes := newPrefixes()
		if err := copyFile(ctx, prefixes, &i.file); err != nil {
			return err
		}
		clean = prefixes.clean(p.options.Verdicts)
	}
	first, err := p.shared.large(ctx, i)
	if err != nil {
		return err
	}
	skip := int64(0)
	if i.shared != nil {
		skip = i.shared.Size
	}
	e := p.encoder
	if i.scanOnly {
		e = &encoder{dry: true}
	}
	packed, method, err := e.stream(p.body, i.tier, i.file.Size-skip)
	if err != nil {
		return err
	}
	crc, prefixes := crc32.NewIEEE(), newPrefixes()
	scan, tail := startTailScan(p.options.Scanner.Start(i.name), clean), sha256.New()
	stored := &skipWriter{w: io.MultiWriter(crc, packed), from: skip}
	if skip > 0 {
		stored.w = io.MultiWriter(crc, packed, tail)
	}
	err = copyFile(ctx, io.MultiWriter(scan, prefixes, stored, p.meter), &i.file)
	findings := scan.close()
	if err == nil {
		err = packed.Close()
	}
	if err != nil {
		return err
	}
	if clean > 0 && prefixes.clean(p.options.Verdicts) < clean {
		return errors.New("it changed while it was read")
	}
	i.sum = [32]byte(prefixes.sum.Sum(nil))
	if first != nil && !bytes.Equal(first, i.sum[:]) {
		return errors.New("it changed while it was read")
	}
	if skip > 0 {
		i.setTail([32]byte(tail.Sum(nil)))
	}
	i.header = header{name: i.stored(), method: method, crc: crc.Sum32(), compressed: p.body.n - i.at, size: i.file.Size - skip, executable: i.file.Executable}
	p.found(findings, append(prefixes.sums, i.sum)...)
	return nil
}

// copyFile writes exactly as many bytes of a file to w as its size.
func copyFile(ctx context.Context, w io.Writer, file *File) error {
	f, err := file.Open()
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(w, io.LimitReader(&cancelReader{ctx, f}, file.Size), make([]byte, pieceSize))
	if err == nil && n < file.Size {
		err = io.ErrUnexpectedEOF
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// A cancelReader ends with its context, because the scan of a hostile file can take minutes.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// A tailScan scans all but the beginning of a file while another goroutine compresses the file.
type tailScan struct {
	scan   *secret.Scan
	skip   int64
	pieces chan []byte // to the scan
	free   chan []byte // back from it
	done   chan struct{}
}

func startTailScan(scan *secret.Scan, skip int64) *tailScan {
	const ahead = 4
	s := &tailScan{scan: scan, skip: skip, pieces: make(chan []byte, ahead), free: make(chan []byte, ahead), done: make(chan struct{})}
	for range ahead {
		s.free <- nil
	}
	go func() {
		defer close(s.done)
		for p := range s.pieces {
			_, _ = s.scan.Write(p) // a scan never fails
			s.free <- p
		}
	}()
	return s
}

func (s *tailScan) Write(p []byte) (int, error) {
	n := min(s.skip, int64(len(p)))
	if n > 0 {
		s.skip -= n
		s.scan.Skip(p[:n]) // nothing was sent to the scan yet
	}
	if int(n) < len(p) {
		s.pieces <- append((<-s.free)[:0], p[n:]...)
	}
	return len(p), nil
}

// close waits for the end of the scan and returns what it found.
func (s *tailScan) close() []secret.Finding {
	close(s.pieces)
	<-s.done
	return s.scan.Close()
}

// prefixes hashes a file, and each beginning of it that ends with the first line end after a step.
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

// clean returns how much of a file's beginning need not be scanned. The last step that was
// found clean is scanned again, because a secret may begin in it and end in the new part.
func (p *prefixes) clean(v *secret.Verdicts) int64 {
	if v.Clean([32]byte(p.sum.Sum(nil))) {
		return p.n
	}
	for i := len(p.sums) - 1; i > 0; i-- {
		if v.Clean(p.sums[i]) {
			return p.ends[i-1]
		}
	}
	return 0
}

// A countWriter counts the bytes that pass through it.
type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// An encoder compresses one file after the other with the same memory.
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
	if (tier == Session || tier == Thread) && !e.deflateAll {
		return methodZstd
	}
	return methodDeflate
}

// encode compresses data. It stores data that does not become smaller. The result is valid until
// the next use of the encoder.
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
	return e.buffer.Bytes(), method, nil
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
		e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(frameWindow), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, 0, err
		}
	}
	e.zstd.ResetContentSize(w, size)
	return e.zstd, method, nil
}

// plain writes its input unchanged.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }
