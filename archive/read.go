package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/dalsegno/segno"
)

// Limits of an archive that is read.
const (
	maxEntries  = 200_000
	maxManifest = 64 << 20
	maxMetadata = 1 << 20
	// maxWindow bounds the memory that a zstd frame may ask for.
	maxWindow = 8 << 20
)

// The names of the files at the top of an archive, in their order.
const (
	metadataName  = "metadata.json"
	manifestName  = "manifest.json"
	sumsName      = "SHA256SUMS"
	signatureName = "state_digest.sig"
	worldName     = "world.snapshot"
)

// A Reader is an open archive of which everything but the content of the files is checked:
// the profile of the zip, the manifest, and that both agree. It is safe for concurrent use.
type Reader struct {
	file     io.ReaderAt
	closer   io.Closer
	size     int64
	headers  []header
	entries  map[string]int // name → headers
	metadata *Metadata
	manifest *Manifest
	// signature is the content of the signature's file, or nil.
	signature []byte
}

// Open opens an archive. The error has KindCorrupt if the file is not an archive of this
// format in every byte that was looked at, and KindNotFound if it is not there.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, openError(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var r *Reader
	if err == nil {
		r, err = NewReader(f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, openError(path, err)
	}
	r.closer = f
	return r, nil
}

func openError(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return segno.NewError(segno.KindNotFound, "open archive", path, err)
	}
	var known *segno.Error
	if errors.As(err, &known) {
		return segno.NewError(known.Kind, "open archive", path, known.Err)
	}
	if errors.As(err, new(*fs.PathError)) {
		return segno.NewError(segno.KindIO, "open archive", path, err)
	}
	return segno.NewError(segno.KindCorrupt, "open archive", path, err)
}

// NewReader opens an archive of size bytes.
func NewReader(file io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{file: file, size: size, entries: map[string]int{}}
	if err := r.readDirectory(); err != nil {
		return nil, err
	}
	if err := r.readTop(); err != nil {
		return nil, err
	}
	if err := r.checkPlan(); err != nil {
		return nil, unsafe(err)
	}
	return r, nil
}

// Close closes the file, if Open opened it.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Metadata returns metadata.json.
func (r *Reader) Metadata() *Metadata { return r.metadata }

// Manifest returns manifest.json.
func (r *Reader) Manifest() *Manifest { return r.manifest }

// ReadMetadata returns the metadata of an archive and reads no more of it than Open does.
func ReadMetadata(path string) (*Metadata, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	return r.metadata, r.Close()
}

func (r *Reader) read(offset int64, n int64) ([]byte, error) {
	if offset < 0 || n < 0 || offset+n > r.size || offset+n < offset {
		return nil, errors.New("the file is cut off")
	}
	b := make([]byte, n)
	if _, err := r.file.ReadAt(b, offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// readDirectory reads the end records and the central directory, and compares each byte of
// them with what a writer would have written for the same files.
func (r *Reader) readDirectory() error {
	n, offset, size, err := r.readEnd()
	if err != nil {
		return err
	}
	return unsafe(r.checkDirectory(n, offset, size))
}

// checkDirectory reads and compares n headers and the end records behind them.
func (r *Reader) checkDirectory(n int, offset, size int64) error {
	if n > maxEntries+5 {
		return fmt.Errorf("it has %d files, more than %d", n, maxEntries)
	}
	if size > int64(n)*(centralSize+maxNameBytes+32) {
		return errors.New("the directory is larger than its files need")
	}
	directory, err := r.read(offset, size)
	if err != nil {
		return err
	}
	at := int64(0)
	for range n {
		h, err := parseCentral(directory)
		if err != nil {
			return err
		}
		h.offset = at
		want := h.central()
		if !bytes.HasPrefix(directory, want) {
			return fmt.Errorf("the header of %q is not in the form of this format", h.name)
		}
		directory = directory[len(want):]
		if _, twice := r.entries[h.name]; twice {
			return fmt.Errorf("%q is there twice", h.name)
		}
		r.entries[h.name] = len(r.headers)
		r.headers = append(r.headers, h)
		at += int64(len(h.local())) + h.compressed
		if at > offset || at < 0 {
			return fmt.Errorf("%q goes beyond the files' part of the archive", h.name)
		}
	}
	if len(directory) > 0 {
		return errors.New("the directory has more bytes than its files need")
	}
	if at != offset {
		return errors.New("there are bytes between the files and the directory")
	}
	end, err := r.read(offset+size, r.size-offset-size)
	if err != nil {
		return err
	}
	if !bytes.Equal(end, endRecords(n, offset, size)) {
		return errors.New("the end record is not in the form of this format")
	}
	return nil
}

// readEnd reads how many files the directory has, where it is, and how long it is.
func (r *Reader) readEnd() (n int, offset, size int64, err error) {
	if r.size < endSize {
		return 0, 0, 0, errors.New("it is not an archive: it is too short")
	}
	end, err := r.read(r.size-endSize, endSize)
	if err != nil {
		return 0, 0, 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(end) != 0x06054b50 {
		if tail, err := r.read(0, min(r.size, 4)); err == nil && len(tail) == 4 && le.Uint32(tail) == 0x04034b50 {
			return 0, 0, 0, errors.New("it is cut off or has bytes behind its end")
		}
		return 0, 0, 0, errors.New("it is not an archive")
	}
	n, size, offset = int(le.Uint16(end[10:])), int64(le.Uint32(end[12:])), int64(le.Uint32(end[16:]))
	if n == max16 || size == max32 || offset == max32 {
		far, err := r.read(r.size-endSize-locatorSize-end64Size, end64Size)
		if err != nil {
			return 0, 0, 0, err
		}
		count := le.Uint64(far[32:])
		size, offset = int64(le.Uint64(far[40:])), int64(le.Uint64(far[48:]))
		if count > maxEntries+5 {
			return 0, 0, 0, fmt.Errorf("it has more than %d files", maxEntries)
		}
		n = int(count)
	}
	if n < 3 || size < 0 || offset < 0 || offset > r.size || size > r.size {
		return 0, 0, 0, errors.New("the end record names a directory that cannot be")
	}
	return n, offset, size, nil
}

// readTop reads the files at the top.
func (r *Reader) readTop() error {
	for i, name := range []string{metadataName, manifestName, sumsName} {
		if r.headers[i].name != name {
			return fmt.Errorf("file %d is %q instead of %s", i+1, r.headers[i].name, name)
		}
	}
	data, err := r.whole(0, maxMetadata)
	if err != nil {
		return err
	}
	r.metadata = new(Metadata)
	if err := parseCanonical(data, r.metadata); err != nil {
		return fmt.Errorf("%s: %w", metadataName, err)
	}
	if r.metadata.Schema != Schema {
		return fmt.Errorf("%s: format %q is not one of those that this version reads (%s)", metadataName, r.metadata.Schema, Schema)
	}
	manifest, err := r.whole(1, maxManifest)
	if err != nil {
		return err
	}
	if r.manifest, err = parseManifest(manifest); err != nil {
		return err
	}
	sums, err := r.whole(2, maxManifest)
	if err != nil {
		return err
	}
	if !bytes.Equal(sums, checksums(data, manifest, r.manifest.Entries)) {
		return errors.New("SHA256SUMS does not agree with the manifest")
	}
	last := len(r.headers) - 1
	if r.headers[last].name == signatureName {
		if r.signature, err = r.whole(last, maxMetadata); err != nil {
			return err
		}
	}
	return nil
}

// checksums returns SHA256SUMS, in the form of the program sha256sum.
func checksums(metadata, manifest []byte, entries []Entry) []byte {
	var b bytes.Buffer
	for _, top := range []struct {
		name string
		data []byte
	}{{metadataName, metadata}, {manifestName, manifest}} {
		sum := sha256.Sum256(top.data)
		fmt.Fprintf(&b, "%x  %s\n", sum, top.name)
	}
	for _, e := range entries {
		b.WriteString(e.SHA256 + "  " + e.Path + "\n")
	}
	return b.Bytes()
}

// checkPlan checks that the manifest and the directory name the same files in the same
// order, and that all names can be files of a directory.
func (r *Reader) checkPlan() error {
	m := r.manifest
	if len(m.Entries) > maxEntries {
		return fmt.Errorf("it has more than %d files", maxEntries)
	}
	want := 3 + len(m.Entries)
	if r.signature != nil {
		want++
	}
	if len(r.headers) != want {
		return fmt.Errorf("the manifest names %d files and the archive has %d", want, len(r.headers))
	}
	for i, e := range m.Entries {
		h := &r.headers[3+i]
		if h.name != e.Path {
			return fmt.Errorf("file %d is %q and %q in the manifest", i+4, h.name, e.Path)
		}
		if h.size != e.Size || h.executable != (e.Mode == modeExecutable) {
			return fmt.Errorf("%q has another size or mode than the manifest says", e.Path)
		}
		if h.method == methodStore && h.compressed != h.size {
			return fmt.Errorf("%q is stored and has two sizes", e.Path)
		}
	}
	return m.check()
}

// whole returns the content of a small file.
func (r *Reader) whole(i int, limit int64) ([]byte, error) {
	h := &r.headers[i]
	if h.size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", h.name, h.size, limit)
	}
	f, err := r.open(i)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// open checks the local header of a file and returns its content. Read returns an error
// instead of io.EOF if the content has not the size or the checksum that the header names.
func (r *Reader) open(i int) (*entryReader, error) {
	h := &r.headers[i]
	if err := r.checkLocal(h); err != nil {
		return nil, err
	}
	section := io.NewSectionReader(r.file, h.offset+int64(len(h.local())), h.compressed)
	raw := bufio.NewReader(section)
	e := &entryReader{name: h.name, left: h.size, crc: h.crc, sum: crc32.NewIEEE(), raw: raw}
	switch h.method {
	case methodStore:
		e.content = io.NopCloser(raw)
	case methodDeflate:
		e.content = flate.NewReader(raw)
	case methodZstd:
		if err := checkFrame(section, h.compressed, h.size); err != nil {
			return nil, unsafe(fmt.Errorf("%s: %w", h.name, err))
		}
		d, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, err)
		}
		e.content = d.IOReadCloser()
	}
	return e, nil
}

// checkLocal compares the local header of a file with the one in the directory.
func (r *Reader) checkLocal(h *header) error {
	want := h.local()
	local, err := r.read(h.offset, int64(len(want)))
	if err != nil {
		return err
	}
	if !bytes.Equal(local, want) {
		return unsafe(fmt.Errorf("the two headers of %q disagree", h.name))
	}
	return nil
}

// An entryReader reads the content of one file.
type entryReader struct {
	name    string
	content io.ReadCloser
	raw     *bufio.Reader
	left    int64
	crc     uint32
	sum     hash.Hash32
}

func (e *entryReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, e.end()
	}
	n, err := e.content.Read(p[:min(int64(len(p)), e.left)])
	e.sum.Write(p[:n])
	e.left -= int64(n)
	switch {
	case err == nil || errors.Is(err, io.EOF) && e.left == 0:
		return n, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("%s is cut off", e.name)
	}
	return n, fmt.Errorf("decompress %s: %w", e.name, err)
}

// end checks what is behind the last byte of the content: nothing.
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
	if e.sum.Sum32() != e.crc {
		return fmt.Errorf("the content of %s has another checksum than its header", e.name)
	}
	return io.EOF
}

func (e *entryReader) Close() error { return e.content.Close() }

// copyEntry writes the content of an entry and checks its hash.
func (r *Reader) copyEntry(w io.Writer, i int) error {
	e := &r.manifest.Entries[i]
	f, err := r.open(3 + i)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
		return fmt.Errorf("the content of %s has another hash than the manifest", e.Path)
	}
	return nil
}

// Verify reads every file and checks it. It writes nothing.
func (r *Reader) Verify(ctx context.Context) error {
	for i := range r.manifest.Entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.copyEntry(io.Discard, i); err != nil {
			return segno.NewError(segno.KindCorrupt, "verify archive", r.manifest.Entries[i].Path, err)
		}
	}
	return nil
}
