package sessionfile

import (
	"bytes"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const fuzzSession = "22222222-0000-4000-8000-000000000002"

// FuzzLines checks that lines partition the input, also if they are longer than the buffer, and that a line that is too long
// is not taken for a whole one.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 1)
	f.Add([]byte("\n\n"), 3)
	f.Add([]byte("0123456789abcdef\n0123456789abcdef0123456789abcdef\nx\n0123456789abcdef0123"), 0)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		in := func() *buffered {
			return &buffered{in: iotest.HalfReader(bytes.NewReader(data)), buf: make([]byte, 16+piece&7)}
		}
		l := &LineReader{max: MaxLine, in: in(), Offset: 100, HasSum: true}
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
		if want := crc32.Checksum(got, Castagnoli()); l.Sum != want {
			t.Fatalf("the checksum of the lines of %q is %x, not %x", data, l.Sum, want)
		}
		checkLongLines(t, &LineReader{max: 20, in: in()}, got)
	})
}

// checkLongLines compares the lines of a reader with those of want. A line that fits into a block is returned whole, also if
// it is longer than l.max.
func checkLongLines(t *testing.T, l *LineReader, want []byte) {
	t.Helper()
	for line := range bytes.Lines(want) {
		at := l.Offset
		got, ok := l.Next()
		switch {
		case !ok || got.Offset != at || l.Offset != at+int64(len(line)):
			t.Fatalf("line %q: %v, from %d to %d instead of %d", line, ok, got.Offset, l.Offset, at)
		case got.IsWhole() != bytes.Equal(got.Bytes, line):
			t.Fatalf("line %q is read as %q", line, got.Bytes)
		case !got.IsWhole() && len(line) <= l.max:
			t.Fatalf("line %q is not whole", line)
		}
	}
	if got, ok := l.Next(); ok {
		t.Fatalf("another line: %q", got.Bytes)
	}
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

// TestARecordOnSeveralLinesBehindATornLine finds a record that is split over lines directly behind a line that a crash tore.
func TestARecordOnSeveralLinesBehindATornLine(t *testing.T) {
	for _, torn := range []string{`{"a":"begin`, `{"a":1,`} {
		m := &Mend{IsRecord: func([]byte) bool { return true }}
		var got []string
		text := torn + "\n{\"b\":\n2}\n{\"c\":3}\n"
		err := m.Pieces(t.Context(), strings.NewReader(text), func(p Piece) error {
			got = append(got, strings.ReplaceAll(string(p.Bytes), "\n", " "))
			return nil
		})
		if want := []string{`{"b": 2}`, `{"c":3}`}; err != nil || !slices.Equal(got, want) {
			t.Errorf("behind %s: %q, %v; want %q", torn, got, err, want)
		}
	}
}
