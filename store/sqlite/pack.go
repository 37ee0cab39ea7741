package sqlite

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/vfs"
)

// The package comment describes the format of packs.
const (
	packMagic  = "segnopk1"
	packHeader = len(packMagic) + 8
	packTail   = 8 + 8 + sha256.Size + len(packMagic)
	packSuffix = ".pack"
	packBuffer = 256 << 10
	maxRecords = math.MaxInt32
)

var errPack = errors.New("the pack is damaged or was not finished")

// packEntry locates the encoded bytes of an object in a pack.
type packEntry struct {
	name   segno.Hash
	size   int64 // the size of the object
	at     int64 // the offset of the encoded bytes
	length int64 // the length of the encoded bytes
	record.Encoding
}

// column returns the value of the column length in the object's row.
func (e *packEntry) column() int64 { return e.length<<encodingBits | int64(e.Encoding) }

// packWriter writes one pack. Only one goroutine uses it at a time.
type packWriter struct {
	fs      vfs.FS
	dir     string
	name    string
	file    vfs.File
	buf     *bufio.Writer // writes to the packWriter itself
	at      int64         // the number of bytes so far, including those in buf
	written int64         // the number of bytes in the file
	begun   int64         // the number of bytes that the kernel has begun to write to the disk
	entries []packEntry
}

// The name of a pack is a random id. A pack that replaces another one has the same id, "-" and more random
// text as its name, so that a commit that was staged with the old pack finds the new one. The names of plain
// packs end in plainSuffix.
const plainSuffix = "-plain"

func newPackName() string { return strings.ToLower(rand.Text()) }

// packID returns the id in a pack's name.
func packID(name string) string {
	id, _, _ := strings.Cut(name, "-")
	return id
}

// createPack starts a pack. It creates the directory of packs if that is missing.
func (s *Store) createPack(name string) (*packWriter, error) {
	return createPack(s.options.FS, s.packs.dir, name, s.options.Clock())
}

func createPack(fsys vfs.FS, dir, name string, now time.Time) (*packWriter, error) {
	if err := makeDurable(fsys, dir); err != nil {
		return nil, err
	}
	p := &packWriter{fs: fsys, dir: dir, name: name}
	p.buf = bufio.NewWriterSize(p, packBuffer)
	var err error
	if p.file, err = fsys.OpenFile(p.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	p.append(binary.LittleEndian.AppendUint64([]byte(packMagic), uint64(now.Unix())))
	return p, nil
}

// makeDurable creates a directory if it is missing, so that its name survives a crash.
func makeDurable(fsys vfs.FS, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := vfs.MkdirAll(fsys, dir); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(dir))
}

func (p *packWriter) path() string { return filepath.Join(p.dir, p.name+packSuffix) }

// append appends to the buffer, which keeps the first error of the file.
func (p *packWriter) append(data []byte) {
	p.at += int64(len(data))
	_, _ = p.buf.Write(data) // add and finish return the error
}

// Write writes full buffers to the file. From time to time it makes the kernel write to the disk, so that the
// final sync takes less time.
func (p *packWriter) Write(data []byte) (int, error) {
	const stretch = 8 << 20
	n, err := p.file.Write(data)
	p.written += int64(n)
	if p.written-p.begun >= stretch {
		vfs.WriteBack(p.file, p.begun, p.written-p.begun)
		p.begun = p.written
	}
	return n, err
}

// add appends a record. encoded is the encoding of the object and its encoded bytes.
func (p *packWriter) add(name segno.Hash, size int64, encoded []byte) error {
	return p.addAs(record.Encoding(encoded[0]), name, size, encoded[1:])
}

// addAs is add for bytes without their encoding in front.
func (p *packWriter) addAs(e record.Encoding, name segno.Hash, size int64, encoded []byte) error {
	head := append(make([]byte, 0, 64), name[:]...)
	head = append(head, byte(e))
	head = binary.AppendUvarint(head, uint64(size))
	head = binary.AppendUvarint(head, uint64(len(encoded)))
	p.append(head)
	p.entries = append(p.entries, packEntry{name: name, size: size, at: p.at, length: int64(len(encoded)), Encoding: e})
	p.append(encoded)
	_, err := p.buf.Write(nil)
	return err
}

// finish writes the index and makes the pack and its directory entry durable.
func (p *packWriter) finish() error {
	if err := p.close(); err != nil {
		return err
	}
	return p.fs.SyncDir(p.dir)
}

// close writes the index and makes the pack durable, but not its directory entry.
func (p *packWriter) close() error {
	slices.SortFunc(p.entries, func(a, b packEntry) int { return bytes.Compare(a.name[:], b.name[:]) })
	index := make([]byte, 0, 48*len(p.entries))
	for _, e := range p.entries {
		index = append(index, e.name[:]...)
		index = append(index, byte(e.Encoding))
		index = binary.AppendUvarint(index, uint64(e.size))
		index = binary.AppendUvarint(index, uint64(e.at))
		index = binary.AppendUvarint(index, uint64(e.length))
	}
	sum := sha256.Sum256(index)
	tail := binary.LittleEndian.AppendUint64(nil, uint64(p.at))
	tail = binary.LittleEndian.AppendUint64(tail, uint64(len(p.entries)))
	tail = append(append(tail, sum[:]...), packMagic...)
	p.append(index)
	p.append(tail)
	err := p.buf.Flush()
	p.buf = nil
	if err == nil {
		err = p.file.Sync()
	}
	if err == nil {
		err = p.file.Close()
	}
	if err != nil {
		return err
	}
	p.file = nil
	return nil
}

// remove deletes a pack that nothing refers to.
func (p *packWriter) remove() error {
	if p.file != nil {
		p.file.Close() // the error does not matter, because the file is deleted next
		p.file = nil
	}
	return p.fs.Remove(p.path())
}

// packIndex is the index of a finished pack.
type packIndex struct {
	name    string
	born    time.Time
	size    int64
	entries []packEntry
}

// readPackHead returns the time at which a pack was started.
func readPackHead(f io.ReaderAt) (born time.Time, err error) {
	head := make([]byte, packHeader)
	if _, err := f.ReadAt(head, 0); err != nil {
		return born, err
	}
	if string(head[:len(packMagic)]) != packMagic {
		return born, errPack
	}
	return time.Unix(int64(binary.LittleEndian.Uint64(head[len(packMagic):])), 0), nil
}

// readPackIndex reads the index of a pack. If the pack was not finished or is damaged, the error is errPack.
func readPackIndex(f io.ReaderAt, size int64) (*packIndex, error) {
	if size < int64(packHeader+packTail) {
		return nil, errPack
	}
	born, err := readPackHead(f)
	if err != nil {
		return nil, err
	}
	tail := make([]byte, packTail)
	if _, err := f.ReadAt(tail, size-int64(packTail)); err != nil {
		return nil, err
	}
	if string(tail[packTail-len(packMagic):]) != packMagic {
		return nil, errPack
	}
	at, count := binary.LittleEndian.Uint64(tail), binary.LittleEndian.Uint64(tail[8:])
	end := uint64(size - int64(packTail))
	if at < uint64(packHeader) || at > end || count > maxRecords {
		return nil, errPack
	}
	index := make([]byte, end-at)
	if _, err := f.ReadAt(index, int64(at)); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(index); !bytes.Equal(sum[:], tail[16:16+sha256.Size]) {
		return nil, errPack
	}
	x := &packIndex{size: size, born: born}
	x.entries, err = parsePackIndex(index, int(count), int64(at))
	return x, err
}

// parsePackIndex parses count entries, whose records must end before end.
func parsePackIndex(index []byte, count int, end int64) ([]packEntry, error) {
	const minEntry = len(segno.Hash{}) + 4
	if count > len(index)/minEntry {
		return nil, errPack
	}
	entries := make([]packEntry, 0, count)
	for range count {
		if len(index) < minEntry {
			return nil, errPack
		}
		var e packEntry
		index = index[copy(e.name[:], index):]
		e.Encoding, index = record.Encoding(index[0]), index[1:]
		for _, v := range []*int64{&e.size, &e.at, &e.length} {
			x, n := binary.Uvarint(index)
			if n <= 0 || x > math.MaxInt64/2 {
				return nil, errPack
			}
			*v, index = int64(x), index[n:]
		}
		if e.at < int64(packHeader) || e.at+e.length > end {
			return nil, errPack
		}
		entries = append(entries, e)
	}
	if len(index) != 0 {
		return nil, errPack
	}
	return entries, nil
}
