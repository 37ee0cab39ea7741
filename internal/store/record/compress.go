package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Encoding is the compression of stored bytes. Its numbers are part of the format.
type Encoding byte

const (
	Plain Encoding = 0
	Zstd  Encoding = 1 // the frame records whether it uses the dictionary
	S2    Encoding = 2
)

// minCompressedLength is the length below which data is not compressed.
const minCompressedLength = 64

// maxDictionaryLength is the length from which the dictionary is not used. From there on, the next better level of
// compression saves as much, and frames with the dictionary take 1.5 times as long to read and to write. For 2 KB of
// text, the dictionary still saves enough to fit one more row on a page of SQLite.
const maxDictionaryLength = 4 << 10

// Squeezer compresses and decompresses. It creates each encoder and decoder when it is first needed, because a process
// that commits one small turn should not pay for all of them. All methods are safe for concurrent use.
type Squeezer struct {
	withDictionary    encoders
	withoutDictionary func() *zstd.Encoder
	reader            func() *zstd.Decoder
	spare             sync.Pool // of *[]byte
}

// NewSqueezer returns a Squeezer, which allocates nothing until it is used.
func NewSqueezer() *Squeezer {
	writer := func(more ...zstd.EOption) *zstd.Encoder {
		return must(zstd.NewWriter(nil, append(more, zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(1<<18))...))
	}
	return &Squeezer{
		withDictionary: encoders{create: func() *zstd.Encoder {
			return writer(zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithEncoderDictRaw(dictionaryID, []byte(dictionary)))
		}},
		withoutDictionary: sync.OnceValue(func() *zstd.Encoder { return writer(zstd.WithEncoderLevel(zstd.SpeedDefault)) }),
		reader: sync.OnceValue(func() *zstd.Decoder {
			return must(zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0),
				zstd.WithDecoderDictRaw(dictionaryID, []byte(dictionary))))
		}),
	}
}

// must returns v. The options above are constants, so an error is a mistake in this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic("segno: internal error: zstd: " + err.Error())
	}
	return v
}

// encoders is a set of encoders for one goroutine each. With a dictionary, an encoder writes its whole table of 256 KiB for
// each record. The encoder that was used last has its table in the cache of the processor, so it is used again first. A
// [zstd.Encoder] for many goroutines uses its tables in turn.
type encoders struct {
	create func() *zstd.Encoder
	mu     sync.Mutex
	free   []*zstd.Encoder
}

func (e *encoders) acquire() *zstd.Encoder {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := len(e.free) - 1
	if last < 0 {
		return e.create()
	}
	w := e.free[last]
	e.free = e.free[:last]
	return w
}

func (e *encoders) release(w *zstd.Encoder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.free) < runtime.GOMAXPROCS(0) {
		e.free = append(e.free, w)
	}
}

// Buffer returns an empty buffer with a capacity of at least n bytes. The caller returns it with
// Free.
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

// Free makes a buffer from Buffer available for reuse.
func (q *Squeezer) Free(p *[]byte) {
	const most = 8 << 20
	if cap(*p) <= most {
		*p = (*p)[:0]
		q.spare.Put(p)
	}
}

// Small appends data to dst with good compression, for small records that are kept for a long time.
func (q *Squeezer) Small(dst, data []byte) ([]byte, Encoding) {
	if len(data) < minCompressedLength {
		return append(dst, data...), Plain
	}
	if len(data) >= maxDictionaryLength {
		return orPlain(q.withoutDictionary().EncodeAll(data, dst), len(dst), data, Zstd)
	}
	w := q.withDictionary.acquire()
	defer q.withDictionary.release(w)
	return orPlain(w.EncodeAll(data, dst), len(dst), data, Zstd)
}

// Fast appends data to dst with the fastest compression, for large data.
func (q *Squeezer) Fast(dst, data []byte) ([]byte, Encoding) {
	if len(data) < minCompressedLength {
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

// orPlain replaces the compressed data at the end of dst by the plain data if compression saves less than an eighth,
// because every read costs a decompression.
func orPlain(dst []byte, at int, data []byte, e Encoding) ([]byte, Encoding) {
	if len(dst)-at > len(data)-len(data)/8 {
		return append(dst[:at], data...), Plain
	}
	return dst, e
}

// Expand decompresses data to exactly size bytes. The result never aliases data.
func (q *Squeezer) Expand(e Encoding, data []byte, size int64) ([]byte, error) {
	var out []byte
	var err error
	switch e {
	case Plain:
		out = append(make([]byte, 0, len(data)), data...)
	case Zstd:
		if err := checkFrameSize(data, size); err != nil {
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

// checkFrameSize checks that a zstd frame records this size, before the caller allocates that much memory. Only frames
// of less than 256 bytes may omit it.
func checkFrameSize(data []byte, size int64) error {
	var frame zstd.Header
	if err := frame.Decode(data); err != nil {
		return fmt.Errorf("expand: %w", err)
	}
	if frame.HasFCS && frame.FrameContentSize != uint64(size) || !frame.HasFCS && size > 255 {
		return fmt.Errorf("expand: %d bytes are not what was stored", size)
	}
	return nil
}

// Pack returns the form in which stores write a record: an encoding, the length, and the compressed
// bytes.
func (q *Squeezer) Pack(rec []byte) []byte {
	head := append(make([]byte, 0, 1+binary.MaxVarintLen32+len(rec)), byte(Plain))
	out, e := q.Small(binary.AppendUvarint(head, uint64(len(rec))), rec)
	out[0] = byte(e)
	return out
}

// Unpack is the inverse of Pack. The error is [ErrDamaged] or an error of the decompression. The result aliases packed
// if the record was not compressed.
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
