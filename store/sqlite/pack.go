package sqlite

import (
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
	"github.com/dalsegno/segno/internal/record"
	"github.com/dalsegno/segno/internal/vfs"
)

// The pack format is in the package comment.
const (
	packMagic   = "segnopk1"
	packHead    = len(packMagic) + 8
	packTail    = 8 + 8 + sha256.Size + len(packMagic)
	packSuffix  = ".pack"
	packBuffer  = 256 << 10
	mostRecords = math.MaxInt32
)

var errPack = errors.New("the pack is damaged or was not finished")

// packEntry says where an object's stored bytes are in a pack.
type packEntry struct {
	name   segno.Hash
	size   int64 // of the object
	at     int64 // of its stored bytes
	length int64 // of them
	record.Encoding
}

// packWriter writes one pack. Its methods may not be called at once.
type packWriter struct {
	fs      vfs.FS
	dir     string
	name    string
	file    vfs.File
	buf     []byte
	at      int64 // bytes so far, buffered ones too
	begun   int64 // bytes the kernel was asked to write
	entries []packEntry
}

// A pack's name is an id that is random. The name of a pack that replaces another is the
// same id, "-" and another random text, so that a commit that was staged with the old
// pack finds the new one. Names of plain packs end in plainSuffix.
const plainSuffix = "-plain"

func newPackName() string { return strings.ToLower(rand.Text()) }

// packID returns the id in a pack's name.
func packID(name string) string {
	id, _, _ := strings.Cut(name, "-")
	return id
}

// createPack begins a pack of the store.
func (s *Store) createPack(name string) (*packWriter, error) {
	return createPack(s.options.FS, s.packs.dir, name, s.options.Clock())
}

// createPack begins a pack in dir, which is made if it is not there.
func createPack(fsys vfs.FS, dir, name string, now time.Time) (*packWriter, error) {
	if err := makeDurable(fsys, dir); err != nil {
		return nil, err
	}
	p := &packWriter{fs: fsys, dir: dir, name: name, buf: make([]byte, 0, packBuffer)}
	var err error
	if p.file, err = fsys.OpenFile(p.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	head := binary.LittleEndian.AppendUint64([]byte(packMagic), uint64(now.Unix()))
	if err := p.write(head); err != nil {
		return nil, errors.Join(err, p.abandon())
	}
	return p, nil
}

// makeDurable makes a directory whose name survives a crash.
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

func (p *packWriter) write(data []byte) error {
	p.at += int64(len(data))
	for len(data) > 0 {
		if len(p.buf) == 0 && len(data) >= packBuffer {
			_, err := p.file.Write(data)
			p.hasten(p.at)
			return err
		}
		n := min(len(data), packBuffer-len(p.buf))
		p.buf, data = append(p.buf, data[:n]...), data[n:]
		if len(p.buf) == packBuffer {
			if err := p.flush(); err != nil {
				return err
			}
			p.hasten(p.at - int64(len(data)))
		}
	}
	return nil
}

func (p *packWriter) flush() error {
	_, err := p.file.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// hasten lets the disk begin on what was written up to end, now and then.
func (p *packWriter) hasten(end int64) {
	const stretch = 8 << 20
	if end-p.begun >= stretch {
		vfs.WriteBack(p.file, p.begun, end-p.begun)
		p.begun = end
	}
}

// add appends a record.
func (p *packWriter) add(name segno.Hash, size int64, e record.Encoding, stored []byte) error {
	head := append(make([]byte, 0, 64), name[:]...)
	head = append(head, byte(e))
	head = binary.AppendUvarint(head, uint64(size))
	head = binary.AppendUvarint(head, uint64(len(stored)))
	if err := p.write(head); err != nil {
		return err
	}
	p.entries = append(p.entries, packEntry{name: name, size: size, at: p.at, length: int64(len(stored)), Encoding: e})
	return p.write(stored)
}

// seal writes the index and makes pack and directory durable.
func (p *packWriter) seal() error {
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
	for _, data := range [][]byte{index, tail} {
		if err := p.write(data); err != nil {
			return err
		}
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.buf = nil
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	p.file = nil
	return p.fs.SyncDir(p.dir)
}

// abandon removes a pack that nothing refers to.
func (p *packWriter) abandon() error {
	if p.file != nil {
		p.file.Close() // what it holds is not wanted
		p.file = nil
	}
	return p.fs.Remove(p.path())
}

// packIndex is what a sealed pack says it holds.
type packIndex struct {
	name    string
	born    time.Time
	size    int64
	entries []packEntry
}

// readPackIndex reads the index of a sealed pack. A pack that was not finished or
// is damaged is errPack.
func readPackIndex(f io.ReaderAt, size int64) (*packIndex, error) {
	if size < int64(packHead+packTail) {
		return nil, errPack
	}
	head, tail := make([]byte, packHead), make([]byte, packTail)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(tail, size-int64(packTail)); err != nil {
		return nil, err
	}
	if string(head[:len(packMagic)]) != packMagic || string(tail[packTail-len(packMagic):]) != packMagic {
		return nil, errPack
	}
	at, count := binary.LittleEndian.Uint64(tail), binary.LittleEndian.Uint64(tail[8:])
	end := uint64(size - int64(packTail))
	if at < uint64(packHead) || at > end || count > mostRecords {
		return nil, errPack
	}
	index := make([]byte, end-at)
	if _, err := f.ReadAt(index, int64(at)); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(index); !bytes.Equal(sum[:], tail[16:16+sha256.Size]) {
		return nil, errPack
	}
	x := &packIndex{size: size, born: time.Unix(int64(binary.LittleEndian.Uint64(head[len(packMagic):])), 0)}
	var err error
	x.entries, err = parsePackIndex(index, int(count), int64(at))
	return x, err
}

// parsePackIndex reads count entries whose records end before end.
func parsePackIndex(index []byte, count int, end int64) ([]packEntry, error) {
	const least = len(segno.Hash{}) + 4
	if count > len(index)/least {
		return nil, errPack
	}
	entries := make([]packEntry, 0, count)
	for range count {
		if len(index) < least {
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
		if e.at < int64(packHead) || e.at+e.length > end {
			return nil, errPack
		}
		entries = append(entries, e)
	}
	if len(index) != 0 {
		return nil, errPack
	}
	return entries, nil
}
