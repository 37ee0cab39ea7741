package sqlite

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// An encoding says how bytes are kept. The numbers are on disk.
type encoding byte

const (
	plain    encoding = 0
	zstdData encoding = 1 // with or without the dictionary: the frame says
	s2Data   encoding = 2
)

// worthwhile is the length below which nothing is compressed.
const worthwhile = 64

// squeezer compresses and expands; all methods may be called at once. Its parts
// are made when they are first needed: a process that commits one small turn
// should not pay for them.
type squeezer struct {
	writer func() *zstd.Encoder
	reader func() *zstd.Decoder
	spare  sync.Pool // of *[]byte
}

func newSqueezer() *squeezer {
	return &squeezer{
		writer: sync.OnceValue(func() *zstd.Encoder {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
				zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<18), zstd.WithEncoderDictRaw(dictionaryID, []byte(dictionary)))
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

// buffer returns an empty buffer with room for n bytes; give it back with free.
func (q *squeezer) buffer(n int) *[]byte {
	p, ok := q.spare.Get().(*[]byte)
	if !ok {
		p = new([]byte)
	}
	if cap(*p) < n {
		*p = make([]byte, 0, n)
	}
	return p
}

func (q *squeezer) free(p *[]byte) {
	const most = 8 << 20
	if cap(*p) <= most {
		*p = (*p)[:0]
		q.spare.Put(p)
	}
}

// small appends data compressed as well as it pays to.
func (q *squeezer) small(dst, data []byte) ([]byte, encoding) {
	if len(data) < worthwhile {
		return append(dst, data...), plain
	}
	return orPlain(q.writer().EncodeAll(data, dst), len(dst), data, zstdData)
}

// fast appends data compressed as fast as possible.
func (q *squeezer) fast(dst, data []byte) ([]byte, encoding) {
	if len(data) < worthwhile {
		return append(dst, data...), plain
	}
	at, most := len(dst), s2.MaxEncodedLen(len(data))
	if most < 0 {
		return append(dst, data...), plain
	}
	if cap(dst)-at < most {
		dst = append(make([]byte, 0, at+most), dst...)
	}
	out := s2.Encode(dst[at:at+most], data)
	return orPlain(dst[:at+len(out)], at, data, s2Data)
}

// orPlain keeps a compressed form only if it saves an eighth: expanding it costs
// every reader.
func orPlain(dst []byte, at int, data []byte, e encoding) ([]byte, encoding) {
	if len(dst)-at > len(data)-len(data)/8 {
		return append(dst[:at], data...), plain
	}
	return dst, e
}

// expand returns the size bytes that data stands for. The result never aliases data.
func (q *squeezer) expand(e encoding, data []byte, size int64) ([]byte, error) {
	var out []byte
	var err error
	switch e {
	case plain:
		out = append(make([]byte, 0, len(data)), data...)
	case zstdData:
		if err := expects(data, size); err != nil {
			return nil, err
		}
		out, err = q.reader().DecodeAll(data, make([]byte, 0, size))
	case s2Data:
		n, lenErr := s2.DecodedLen(data)
		if lenErr != nil || int64(n) != size {
			return nil, fmt.Errorf("expand: %d bytes are not what was stored", n)
		}
		out, err = s2.Decode(make([]byte, 0, size), data)
	default:
		return nil, fmt.Errorf("expand: encoding %d is not known", e)
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
