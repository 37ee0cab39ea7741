package sessionfile

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/dalsegno/segno"
)

// tailSize is the number of bytes before an offset that a digest checks.
const tailSize = 4 << 10

// Digest returns the state of h and a hash of the bytes before offset. A later capture
// continues with them.
func Digest(f io.ReaderAt, h hash.Hash, offset int64) ([]byte, error) {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("save hash state: %w", err)
	}
	tail, err := tailSum(f, offset)
	return append(state, tail...), err
}

// ResumeHash returns the running hash at p's offset in f, which has size bytes. It returns false if
// f is shorter, if the bytes before the offset differ, or if p has no digest.
func ResumeHash(f io.ReaderAt, size int64, p *segno.Position) (hash.Hash, bool) {
	if size < p.Offset || p.Offset < 0 || len(p.Digest) < sha256.Size || p.Offset > 0 && p.Log.IsZero() {
		return nil, false
	}
	cut := len(p.Digest) - sha256.Size
	tail, err := tailSum(f, p.Offset)
	if err != nil || !bytes.Equal(tail, p.Digest[cut:]) {
		return nil, false
	}
	h := sha256.New()
	if h.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.Digest[:cut]) != nil {
		return nil, false
	}
	return h, segno.Hash(h.Sum(nil)) == p.SHA256
}

// tailSum returns the hash of the bytes before offset.
func tailSum(f io.ReaderAt, offset int64) ([]byte, error) {
	tail := make([]byte, min(offset, tailSize))
	if _, err := f.ReadAt(tail, offset-int64(len(tail))); err != nil && len(tail) > 0 {
		return nil, err
	}
	sum := sha256.Sum256(tail)
	return sum[:], nil
}

// Castagnoli returns the table of the polynomial of all CRCs in this package. The package crc32
// caches its table.
func Castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
