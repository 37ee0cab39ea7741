package acp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	. "github.com/dalsegno/segno/internal/proxy/acp"
)

// readAll reads all lines. It returns "too long" for a line that exceeds the limit.
func readAll(t *testing.T, in io.Reader) []string {
	t.Helper()
	r := NewReader(in)
	var lines []string
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, ErrTooLong):
			lines = append(lines, "too long")
		case errors.Is(err, io.EOF):
			return lines
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, string(line))
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s + "\r\n\n\r\n  \n" + s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []string
		for line := range bytes.Lines(data) {
			if len(bytes.TrimSpace(line)) > 0 {
				want = append(want, strings.TrimSuffix(string(line), "\n")+"\n")
			}
		}
		whole, bytewise := readAll(t, bytes.NewReader(data)), readAll(t, iotest.OneByteReader(bytes.NewReader(data)))
		if fmt.Sprintf("%q", whole) != fmt.Sprintf("%q", want) || fmt.Sprintf("%q", bytewise) != fmt.Sprintf("%q", want) {
			t.Fatalf("%q is read as %q, and %q by the byte; want %q", data, whole, bytewise, want)
		}
	})
}

// longLine returns a reader of one line of n bytes, followed by end.
func longLine(n int, end string) io.Reader {
	head, tail := `{"id":1,"a":"`, `"}`+end
	return io.MultiReader(strings.NewReader(head), io.LimitReader(endless(strings.Repeat("a", 64<<10)), int64(n-len(head)-len(tail))), strings.NewReader(tail))
}

// endless is a reader that repeats a text without an end.
type endless string

func (a endless) Read(p []byte) (int, error) { return copy(p, a), nil }

func TestTooLongLineIsDiscarded(t *testing.T) {
	if testing.Short() {
		return // it takes a second
	}
	next := `{"id":2}` + "\n"
	for _, c := range []struct {
		size int
		long bool
	}{{MaxMessage, false}, {MaxMessage + 1, true}, {MaxMessage + 64<<10, true}, {100 << 20, true}} {
		lines := readAll(t, io.MultiReader(longLine(c.size, "\n"), strings.NewReader(next)))
		if len(lines) != 2 || lines[1] != next {
			t.Fatalf("%d bytes: %d lines", c.size, len(lines))
		}
		if tooLong := lines[0] == "too long"; tooLong != c.long || !tooLong && len(lines[0]) != c.size {
			t.Errorf("%d bytes: read %d, too long: %v", c.size, len(lines[0]), tooLong)
		}
	}
}

func TestTooLongLineWithoutEnd(t *testing.T) {
	if testing.Short() {
		return // it takes a second
	}
	for _, size := range []int{MaxMessage + 1, 100 << 20} {
		if lines := readAll(t, longLine(size, "")); len(lines) != 1 || lines[0] != "too long" {
			t.Errorf("%d bytes without an end: %d lines", size, len(lines))
		}
	}
}

func TestReaderReturnsTheInputsError(t *testing.T) {
	r := NewReader(io.MultiReader(strings.NewReader("{\"id\":1}\n{\"id\""), iotest.ErrReader(errors.New("gone"))))
	if line, err := r.Next(); string(line) != "{\"id\":1}\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := r.Next(); err == nil || err.Error() != "gone" || line != nil {
		t.Errorf("what broke off is read as %q, %v", line, err)
	}
}

func TestConcurrentWritesStayWhole(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	var writers sync.WaitGroup
	const n, each = 8, 200
	for i := range n {
		writers.Go(func() {
			for k := range each {
				write := w.Write
				if k%3 > 0 {
					write = w.WriteLater
				}
				if err := write(Notification("x", Encode([2]int{i, k}))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var next [n]int
	for _, line := range readAll(t, &b) {
		m, err := Parse([]byte(line))
		var at [2]int
		if err != nil || m.Decode(m.Params, &at) != nil || next[at[0]] != at[1] {
			t.Fatalf("out of order or not whole: %q", line)
		}
		next[at[0]]++
	}
	for i := range n {
		if next[i] != each {
			t.Errorf("writer %d: %d lines", i, next[i])
		}
	}
}

// writes is a writer that collects the bytes of each call of Write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestPendingLinesAreOneWrite(t *testing.T) {
	var got writes
	w := NewWriter(&got)
	much := strings.Repeat("a", 64<<10) + "\n"
	for _, err := range []error{w.Flush(), w.WriteLater([]byte("1\n")), w.WriteLater([]byte("2\n")), w.Write([]byte("3\n")), w.Write([]byte("4\n")),
		w.WriteLater([]byte("5\n")), w.Flush(), w.Flush(), w.WriteLater([]byte("6\n")), w.WriteLater([]byte(much)), w.Write([]byte("7\n"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := (writes{"1\n2\n3\n", "4\n", "5\n", "6\n" + much, "7\n"}); !slices.Equal(got, want) {
		t.Errorf("%d writes: %.200q", len(got), got)
	}
}

type broken struct{ after int }

func (b *broken) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errors.New("gone")
	}
	return len(p), nil
}

func TestWriterKeepsItsError(t *testing.T) {
	out := &broken{after: 1}
	w := NewWriter(out)
	if err := w.Write([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteLater([]byte("2\n")); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func([]byte) error{w.Write, w.WriteLater, func([]byte) error { return w.Flush() }} {
		if err := write([]byte("3\n")); err == nil || err.Error() != "gone" {
			t.Errorf("after the end: %v", err)
		}
	}
	if out.after != -1 {
		t.Error("it wrote on after an error")
	}
}

func BenchmarkParse(b *testing.B) {
	update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"0c6313dd-35e2-4133-b633-c81132d67981","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"},"messageId":"msg_fake7_mwow7zds"}}}` + "\n"
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		line := fmt.Appendf(nil, update, strings.Repeat("a", size))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				m, err := Parse(line)
				if err != nil || m.Session.IsZero() {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRelay(b *testing.B) {
	line := Notification("session/update", Encode(map[string]any{"sessionId": "0c6313dd-35e2-4133-b633-c81132d67981", "update": map[string]string{"sessionUpdate": "agent_message_chunk", "text": strings.Repeat("a", 100)}}))
	in, out := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() {
		for range b.N {
			if _, err := out.Write(line); err != nil {
				return
			}
		}
	})
	r, w := NewReader(in), NewWriter(io.Discard)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		next, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		m, err := Parse(next)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Write(m.Splice(Edit{At: m.Session, With: []byte(`"other"`)})); err != nil {
			b.Fatal(err)
		}
	}
	writer.Wait()
}

// TestTryWriteDoesNotBlock tries a pipe without a reader, a long line, pending lines,
// another write in progress, and an output that is not a file.
func TestTryWriteDoesNotBlock(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	w, line, n := NewWriter(out), []byte(strings.Repeat("a", 99)+"\n"), 0
	for ; w.TryWrite(line); n++ {
	}
	if n == 0 {
		t.Fatal("an empty pipe takes no line")
	}
	out.Close()
	if got := readAll(t, in); len(got) != n || got[n-1] != string(line) {
		t.Errorf("%d lines of %d came", len(got), n)
	}

	in, out, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	w = NewWriter(out)
	if w.TryWrite([]byte(strings.Repeat("a", 64<<10) + "\n")) {
		t.Error("a long line was written")
	}
	if err := w.WriteLater(line); err != nil {
		t.Fatal(err)
	}
	if w.TryWrite(line) {
		t.Error("a line overtook the one that was kept")
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if w.TryWrite(line) {
		t.Error("a line was written to a pipe that is closed")
	}
	out.Close()

	if NewWriter(&bytes.Buffer{}).TryWrite(line) {
		t.Error("a line was written to what may wait")
	}
}
