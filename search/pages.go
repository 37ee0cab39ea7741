package search

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strconv"
	"sync"
)

// Sealer encrypts the pages of a sealed store. Content that was sealed for a place can be opened only for the same place.
type Sealer interface {
	Seal(plain []byte, place ...string) []byte
	Open(sealed []byte, place ...string) ([]byte, error)
}

var (
	errDamaged = errors.New("the segment is damaged")
	errVersion = errors.New("another version of segno wrote the segment")
)

// A file of a segment begins with a magic string with the version, and an id. Pages follow, each with a checksum, or sealed
// for the id and its number. All but the last have pageSize bytes of content. So a search reads and verifies only the
// pages that it needs.
const (
	magic     = "segno search 1\n\x00"
	idSize    = 16
	headSize  = int64(len(magic) + idSize)
	pageSize  = 16 << 10
	maxCached = 4096 // pages of one segment
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// pagePlace is the place of a page, for which it is sealed.
func pagePlace(id []byte, page int64) []string {
	return []string{"search", string(id), strconv.FormatInt(page, 10)}
}

// encodePages returns the file with a content. z may be nil.
func encodePages(content, id []byte, z Sealer) []byte {
	out := append([]byte(magic), id...)
	for page := int64(0); len(content) > 0; page++ {
		n := min(pageSize, len(content))
		if z != nil {
			out = append(out, z.Seal(content[:n], pagePlace(id, page)...)...)
		} else {
			out = append(out, content[:n]...)
			out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(content[:n], castagnoli()))
		}
		content = content[n:]
	}
	return out
}

// pageFile reads the content of a segment.
type pageFile struct {
	file   io.ReaderAt
	sealer Sealer
	id     []byte
	extra  int64 // the bytes of a page that are not content
	size   int64 // of the content

	mu     sync.Mutex
	cached map[int64][]byte
}

// openPages opens a file of length bytes.
func openPages(file io.ReaderAt, length int64, z Sealer) (*pageFile, error) {
	head := make([]byte, headSize)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, errDamaged
	}
	if !bytes.HasPrefix(head, []byte(magic)) {
		return nil, errVersion
	}
	p := &pageFile{file: file, sealer: z, id: head[len(magic):], extra: crc32.Size, cached: map[int64][]byte{}}
	if z != nil {
		p.extra = int64(len(z.Seal(nil)))
	}
	length -= headSize
	pages := (length + pageSize + p.extra - 1) / (pageSize + p.extra)
	if p.size = length - pages*p.extra; p.size <= 0 {
		return nil, errDamaged
	}
	return p, nil
}

// read returns n bytes of the content from off on. The caller must not change them.
func (p *pageFile) read(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > p.size || n > p.size-off {
		return nil, errDamaged
	}
	first, begin := off/pageSize, off%pageSize
	data, err := p.page(first)
	if err != nil || begin+n <= int64(len(data)) {
		return data[min(begin, int64(len(data))):min(begin+n, int64(len(data)))], err
	}
	out := append(make([]byte, 0, n), data[begin:]...)
	for at := first + 1; int64(len(out)) < n; at++ {
		if data, err = p.page(at); err != nil {
			return nil, err
		}
		out = append(out, data[:min(int64(len(data)), n-int64(len(out)))]...)
	}
	return out, nil
}

func (p *pageFile) page(i int64) ([]byte, error) {
	if i*pageSize >= p.size {
		return []byte{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if data, ok := p.cached[i]; ok {
		return data, nil
	}
	raw := make([]byte, min(pageSize, p.size-i*pageSize)+p.extra)
	if _, err := p.file.ReadAt(raw, headSize+i*(pageSize+p.extra)); err != nil {
		return nil, errDamaged
	}
	data := raw[:int64(len(raw))-p.extra]
	if p.sealer != nil {
		var err error
		if data, err = p.sealer.Open(raw, pagePlace(p.id, i)...); err != nil {
			return nil, errDamaged
		}
	} else if binary.LittleEndian.Uint32(raw[len(data):]) != crc32.Checksum(data, castagnoli()) {
		return nil, errDamaged
	}
	if len(p.cached) >= maxCached {
		clear(p.cached)
	}
	p.cached[i] = data
	return data, nil
}

// verify reads all pages.
func (p *pageFile) verify() error {
	for i := int64(0); i*pageSize < p.size; i++ {
		if _, err := p.page(i); err != nil {
			return err
		}
	}
	return nil
}
