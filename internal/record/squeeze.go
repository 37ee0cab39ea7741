package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// An Encoding says how bytes are kept. The numbers are on disk.
type Encoding byte

// The encodings.
const (
	Plain Encoding = 0
	Zstd  Encoding = 1 // with or without the dictionary: the frame says
	S2    Encoding = 2
)

// worthwhile is the length below which nothing is compressed.
const worthwhile = 64

// ownWords is the length from which the dictionary is left out: there it saves nothing
// any more beside the next better level, and a frame that refers to it takes half as
// long again to read, and to write. At 2 KB of talk it still saves what decides
// whether one more row goes onto a page.
const ownWords = 4 << 10

// Squeezer compresses and expands; all methods may be called at once. Its parts
// are made when they are first needed: a process that commits one small turn
// should not pay for them.
type Squeezer struct {
	writer func() *zstd.Encoder // with the dictionary
	longer func() *zstd.Encoder // without
	reader func() *zstd.Decoder
	spare  sync.Pool // of *[]byte
}

// NewSqueezer returns a squeezer; it costs nothing until it is used.
func NewSqueezer() *Squeezer {
	return &Squeezer{
		writer: sync.OnceValue(func() *zstd.Encoder {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
				zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<18), zstd.WithEncoderDictRaw(dictionaryID, []byte(dictionary)))
			if err != nil {
				panic("segno: internal error: zstd writer: " + err.Error())
			}
			return w
		}),
		longer: sync.OnceValue(func() *zstd.Encoder {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
				zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<18))
			if err != nil {
				panic("segno: internal error: zstd writer: " + err.Error())
			}
			return w
		}),
		reader: sync.OnceValue(func() *zstd.Decoder {
			r, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0),
				zstd.WithDecoderDictRaw(dictionaryID, []byte(dictionary)))
			if err != nil {
				panic("segno: internal error: zstd reader: " + err.Error())
			}
			return r
		}),
	}
}

// Buffer returns an empty buffer with room for n bytes; give it back with Free.
func (q *Squeezer) Buffer(n int) *[]byte {
	p, ok := q.spare.Get().(*[]byte)
	if !ok {
		p = new([]byte)
	}
	if cap(*p) < n {
		*p = make([]byte, 0, n)
	}
	return p
}

// Free takes a buffer back.
func (q *Squeezer) Free(p *[]byte) {
	const most = 8 << 20
	if cap(*p) <= most {
		*p = (*p)[:0]
		q.spare.Put(p)
	}
}

// Small appends data compressed as well as it pays to.
func (q *Squeezer) Small(dst, data []byte) ([]byte, Encoding) {
	if len(data) < worthwhile {
		return append(dst, data...), Plain
	}
	w := q.writer
	if len(data) >= ownWords {
		w = q.longer
	}
	return orPlain(w().EncodeAll(data, dst), len(dst), data, Zstd)
}

// Fast appends data compressed as fast as possible.
func (q *Squeezer) Fast(dst, data []byte) ([]byte, Encoding) {
	if len(data) < worthwhile {
		return append(dst, data...), Plain
	}
	at, most := len(dst), s2.MaxEncodedLen(len(data))
	if most < 0 {
		return append(dst, data...), Plain
	}
	if cap(dst)-at < most {
		dst = append(make([]byte, 0, at+most), dst...)
	}
	out := s2.Encode(dst[at:at+most], data)
	return orPlain(dst[:at+len(out)], at, data, S2)
}

// orPlain keeps a compressed form only if it saves an eighth: expanding it costs
// every reader.
func orPlain(dst []byte, at int, data []byte, e Encoding) ([]byte, Encoding) {
	if len(dst)-at > len(data)-len(data)/8 {
		return append(dst[:at], data...), Plain
	}
	return dst, e
}

// Expand returns the size bytes that data stands for. The result never aliases data.
func (q *Squeezer) Expand(e Encoding, data []byte, size int64) ([]byte, error) {
	var out []byte
	var err error
	switch e {
	case Plain:
		out = append(make([]byte, 0, len(data)), data...)
	case Zstd:
		if err := expects(data, size); err != nil {
			return nil, err
		}
		out, err = q.reader().DecodeAll(data, make([]byte, 0, size))
	case S2:
		n, lenErr := s2.DecodedLen(data)
		if lenErr != nil || int64(n) != size {
			return nil, fmt.Errorf("expand: %d bytes are not what was stored", n)
		}
		out, err = s2.Decode(make([]byte, 0, size), data)
	default:
		return nil, fmt.Errorf("expand: Encoding %d is not known", e)
	}
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	if int64(len(out)) != size {
		return nil, fmt.Errorf("expand: %d bytes instead of %d", len(out), size)
	}
	return out, nil
}

// expects asks a zstd frame's word on its size before that much memory is asked
// for. Only frames under 256 bytes may not say.
func expects(data []byte, size int64) error {
	var frame zstd.Header
	if err := frame.Decode(data); err != nil {
		return fmt.Errorf("expand: %w", err)
	}
	if frame.HasFCS && frame.FrameContentSize != uint64(size) || !frame.HasFCS && size > 255 {
		return fmt.Errorf("expand: %d bytes are not what was stored", size)
	}
	return nil
}

// Pack is how a record is kept: an encoding, its length, and its bytes.
func (q *Squeezer) Pack(rec []byte) []byte {
	head := binary.AppendUvarint([]byte{byte(Plain)}, uint64(len(rec)))
	out, e := q.Small(head, rec)
	out[0] = byte(e)
	return out
}

// Unpack is what Pack packed; the error is [ErrDamaged] or says more. What was
// kept plain aliases packed.
func (q *Squeezer) Unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, ErrDamaged
	}
	size, n := binary.Uvarint(packed[1:])
	if n <= 0 || size > math.MaxInt32 {
		return nil, ErrDamaged
	}
	if Encoding(packed[0]) == Plain {
		if uint64(len(packed)-1-n) != size {
			return nil, ErrDamaged
		}
		return packed[1+n:], nil
	}
	return q.Expand(Encoding(packed[0]), packed[1+n:], int64(size))
}
