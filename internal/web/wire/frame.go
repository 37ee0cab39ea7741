package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/dalsegno/segno"
)

// Objects travel as frames: the name, the length as eight bytes, the bytes. The last frame has no name. It is empty, or
// contains the [Problem] with which the sender ended, so that a reader detects a truncated stream.

// MaxObject is the size of the largest object that either side accepts.
const MaxObject = 256 << 20

// maxProblem is the size of the largest problem in a last frame.
const maxProblem = 1 << 20

const frameHeader = len(segno.Hash{}) + 8

// AppendFrame appends a frame. Without a name, it is the last one.
func AppendFrame(b []byte, name segno.Hash, data []byte) []byte {
	b = append(b, name[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(data)))
	return append(b, data...)
}

// AppendEnd appends the last frame. err is nil if the sender sent everything.
func AppendEnd(b []byte, p *Problem) []byte {
	if p == nil {
		return AppendFrame(b, segno.Hash{}, nil)
	}
	text, _ := json.Marshal(p) // a Problem always encodes
	return AppendFrame(b, segno.Hash{}, text)
}

// ReadFrame reads a frame. The error is [io.EOF] after the last one, the error of its problem, or
// [io.ErrUnexpectedEOF] if the stream ends without a last frame. The bytes are not checked against the name. Memory is
// used only for bytes that arrive.
func ReadFrame(r io.Reader) (name segno.Hash, data []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return name, nil, err
	}
	copy(name[:], header[:])
	most := uint64(MaxObject)
	if name.IsZero() {
		most = maxProblem
	}
	n := binary.BigEndian.Uint64(header[len(name):])
	if n > most {
		return name, nil, segno.Errorf(segno.KindInvalid, "read objects", name.String(), "larger than %d bytes", most)
	}
	if data, err = readN(r, int(n)); err != nil || !name.IsZero() {
		return name, data, err
	}
	if n == 0 {
		return name, nil, io.EOF
	}
	var p Problem
	if err := json.Unmarshal(data, &p); err != nil {
		return name, nil, segno.NewError(segno.KindInvalid, "read objects", "", err)
	}
	return name, nil, p.Err()
}

// readN reads n bytes. It allocates at most a mebibyte before the bytes arrive.
func readN(r io.Reader, n int) ([]byte, error) {
	const atOnce = 1 << 20
	if n <= atOnce {
		data := make([]byte, n)
		_, err := io.ReadFull(r, data)
		return data, unexpected(err)
	}
	var b bytes.Buffer
	b.Grow(atOnce)
	_, err := io.CopyN(&b, r, int64(n))
	return b.Bytes(), unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendNames appends the names of objects, 32 bytes each.
func AppendNames(b []byte, names []segno.Hash) []byte {
	for _, name := range names {
		b = append(b, name[:]...)
	}
	return b
}

// ParseNames is the inverse of [AppendNames].
func ParseNames(data []byte) ([]segno.Hash, error) {
	const size = len(segno.Hash{})
	if len(data)%size != 0 {
		return nil, segno.Errorf(segno.KindInvalid, "read names", "", "not a list of hashes of %d bytes", size)
	}
	names := make([]segno.Hash, len(data)/size)
	for i := range names {
		copy(names[i][:], data[i*size:])
	}
	return names, nil
}
