package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/dalsegno/segno"
)

// Limits of an archive.
const (
	maxEntries  = 200_000 // also of directories
	maxAgents   = 1_000
	maxManifest = 64 << 20
	maxMetadata = 1 << 20
	// maxTop is how many files an archive has beside the entries.
	maxTop = 6
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

// A Reader is an open archive. Open has checked everything except the content of the files:
// the profile of the zip, the manifest, and that both agree. It is safe for concurrent use.
type Reader struct {
	file     io.ReaderAt
	closer   io.Closer
	size     int64
	headers  []header
	entries  map[string]int // name → headers
	metadata *Metadata
	manifest *Manifest
	delta    *Delta   // or nil
	sources  []source // of the manifest's entries
	base     *Reader  // of a delta, or nil
	paths    map[string]int
	// signature is the content of the signature file, or nil.
	signature []byte
}

// Open opens an archive. The error has KindCorrupt if any byte that Open reads does not have
// this format, and KindNotFound if the file does not exist.
func Open(path string) (*Reader, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, openError(path, err)
	}
	r, err := NewReader(f, info.Size())
	if err != nil {
		f.Close()
		return nil, openError(path, err)
	}
	r.closer = f
	return r, nil
}

// openRegular opens a file. It refuses a named pipe, because opening one would wait for a writer.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
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

// Metadata returns metadata.json. The caller must not change it.
func (r *Reader) Metadata() *Metadata { return r.metadata }

// Manifest returns manifest.json. The caller must not change it.
func (r *Reader) Manifest() *Manifest { return r.manifest }

// ReadMetadata returns the metadata of an archive. It reads only what Open reads.
func ReadMetadata(path string) (*Metadata, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	return r.metadata, r.Close()
}

// read reads n bytes into b, or into new memory if b is too small.
func (r *Reader) read(b []byte, offset, n int64) ([]byte, error) {
	if offset < 0 || n < 0 || offset+n > r.size || offset+n < offset {
		return nil, errors.New("the file is cut off")
	}
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	if _, err := r.file.ReadAt(b, offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// readDirectory reads the end records and the central directory. It compares each of their bytes
// with those that a writer would have written for the same files.
func (r *Reader) readDirectory() error {
	n, offset, size, err := r.readEnd()
	if err != nil {
		return err
	}
	return unsafe(r.checkDirectory(n, offset, size))
}

// checkDirectory reads and compares n headers and the end records behind them.
func (r *Reader) checkDirectory(n int, offset, size int64) error {
	if n > maxEntries+maxTop {
		return fmt.Errorf("it has %d files, more than %d", n, maxEntries)
	}
	if size > int64(n)*(centralSize+32)+maxManifest { // the manifest has all names, too
		return errors.New("the directory is larger than its files need")
	}
	directory, err := r.read(nil, offset, size)
	if err != nil {
		return err
	}
	at := int64(0)
	var want []byte
	for range n {
		h, err := parseCentral(directory)
		if err != nil {
			return err
		}
		h.offset = at
		want = h.appendCentral(want[:0])
		if !bytes.HasPrefix(directory, want) {
			return fmt.Errorf("the header of %q is not in the form of this format", h.name)
		}
		directory = directory[len(want):]
		if _, twice := r.entries[h.name]; twice {
			return fmt.Errorf("%q is there twice", h.name)
		}
		r.entries[h.name] = len(r.headers)
		r.headers = append(r.headers, h)
		at += h.localSize() + h.compressed
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
	end, err := r.read(nil, offset+size, r.size-offset-size)
	if err != nil {
		return err
	}
	if !bytes.Equal(end, endRecords(n, offset, size)) {
		return errors.New("the end record is not in the form of this format")
	}
	return nil
}

// readEnd reads the end records: the number of files in the directory, its offset and its length.
func (r *Reader) readEnd() (n int, offset, size int64, err error) {
	if r.size < endSize {
		return 0, 0, 0, errors.New("it is not an archive: it is too short")
	}
	end, err := r.read(nil, r.size-endSize, endSize)
	if err != nil {
		return 0, 0, 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(end) != 0x06054b50 {
		return 0, 0, 0, r.noEnd()
	}
	n, size, offset = int(le.Uint16(end[10:])), int64(le.Uint32(end[12:])), int64(le.Uint32(end[16:]))
	if n == max16 || size == max32 || offset == max32 {
		if n, offset, size, err = r.readEnd64(); err != nil {
			return 0, 0, 0, err
		}
	}
	if n < 3 || size < 0 || offset < 0 || offset > r.size || size > r.size {
		return 0, 0, 0, errors.New("the end record names a directory that cannot be")
	}
	return n, offset, size, nil
}

// noEnd returns the error for a file without end records.
func (r *Reader) noEnd() error {
	head, err := r.read(nil, 0, min(r.size, 4))
	if err == nil && len(head) == 4 && binary.LittleEndian.Uint32(head) == 0x04034b50 {
		return errors.New("it is cut off or has bytes behind its end")
	}
	return errors.New("it is not an archive")
}

// readEnd64 reads the end record of ZIP64, which has the numbers that are too large for the other one.
func (r *Reader) readEnd64() (n int, offset, size int64, err error) {
	end, err := r.read(nil, r.size-endSize-locatorSize-end64Size, end64Size)
	if err != nil {
		return 0, 0, 0, err
	}
	le := binary.LittleEndian
	count := le.Uint64(end[32:])
	if count > maxEntries+maxTop {
		return 0, 0, 0, fmt.Errorf("it has more than %d files", maxEntries)
	}
	return int(count), int64(le.Uint64(end[48:])), int64(le.Uint64(end[40:])), nil
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
	if err := parse(data, r.metadata); err != nil {
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
	tops := []namedData{{metadataName, data}, {manifestName, manifest}}
	if len(r.headers) > 3 && r.headers[3].name == deltaName {
		delta, err := r.readDelta()
		if err != nil {
			return fmt.Errorf("%s: %w", deltaName, err)
		}
		tops = append(tops, namedData{deltaName, delta})
	}
	if !bytes.Equal(sums, checksums(tops, r.manifest.Entries, r.delta)) {
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

// namedData is a file at the top of an archive.
type namedData struct {
	name string
	data []byte
}

// checksums returns SHA256SUMS, in the format of the program sha256sum.
func checksums(top []namedData, entries []Entry, delta *Delta) []byte {
	var b bytes.Buffer
	for _, t := range top {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(t.data), t.name)
	}
	var shared []Prefix
	if delta != nil {
		shared = delta.Files
	}
	for _, e := range entries {
		sum, prefix := e.SHA256, ""
		if len(shared) > 0 && shared[0].Path == e.Path {
			sum, prefix = shared[0].Tail, tailsName
			shared = shared[1:]
			if sum == "" {
				continue
			}
		}
		for _, part := range []string{sum, "  ", prefix, e.Path, "\n"} {
			b.WriteString(part)
		}
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
	first := 3
	if r.delta != nil {
		first++
		if err := r.delta.check(m); err != nil {
			return fmt.Errorf("%s: %w", deltaName, err)
		}
	}
	if err := r.findSources(first); err != nil {
		return err
	}
	// No signature covers the metadata, so they must not contradict the manifest, which one covers.
	if names, format := describeAgents(m.Agents); !slices.Equal(r.metadata.Agents, names) || r.metadata.SessionFormat != format {
		return fmt.Errorf("%s names other agents or another format of their sessions than the manifest", metadataName)
	}
	return m.check()
}
