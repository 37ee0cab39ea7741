package sessionfile

import (
	"bufio"
	"bytes"
	"testing"
	"testing/iotest"
)

const fuzzSession = "22222222-0000-4000-8000-000000000002"

// FuzzLines checks that lines partition the input, also if they are longer than the buffer.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 1)
	f.Add([]byte("\n\n"), 3)
	f.Add([]byte("0123456789abcdef\n0123456789abcdef0123456789abcdef\nx\n0123456789abcdef0123"), 0)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		l := &LineReader{max: MaxLine, in: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(data)), 16+piece&7), Offset: 100}
		var got []byte
		n := 0
		for at := range l.All() {
			if n++; at.Number != n || at.Offset != int64(100+len(got)) || bytes.IndexByte(at.Bytes, '\n') != len(at.Bytes)-1 {
				t.Fatalf("line %d at %d is %q", at.Number, at.Offset, at.Bytes)
			}
			got = append(got, at.Bytes...)
		}
		torn, err := l.End()
		if err != nil || torn != len(data)-len(got) || !bytes.HasPrefix(data, got) || bytes.IndexByte(data[len(got):], '\n') >= 0 {
			t.Fatalf("%q of %q, %d torn, %v", got, data, torn, err)
		}
	})
}

// FuzzLog checks that only canonical bytes are a log.
func FuzzLog(f *testing.F) {
	n := Log{Size: 5, Chunks: []Chunk{{[32]byte{1}, 5}}}
	f.Add(n.Encode())
	n = Log{Prev: [32]byte{2}, Size: 7, Chunks: n.Chunks}
	f.Add(n.Encode())
	n = Log{Prev: [32]byte{2}, Session: fuzzSession, Size: 7, Chunks: n.Chunks}
	f.Add(n.Encode())
	n = Log{Prev: [32]byte{2}, Session: fuzzSession, Keep: []LineRange{{1, 1}, {3, 9}}, Size: 7}
	f.Add(n.Encode())
	n.Keep[1].From = 2
	f.Add(n.Encode())
	n = Log{Prev: [32]byte{2}, Head: Chunk{[32]byte{3}, 4}, Skip: 2, Size: 9, Chunks: n.Chunks}
	f.Add(n.Encode())
	f.Add([]byte("segno-log 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := decodeLog(data)
		if err != nil {
			return
		}
		if !bytes.Equal(n.Encode(), data) {
			t.Fatalf("%q is not what %+v encodes to", data, n)
		}
		if n.own() > n.Size || n.own() <= 0 && n.Session == "" && n.Head.Size == 0 || n.Keep != nil && n.Session == "" {
			t.Fatalf("%+v cannot be", n)
		}
	})
}
