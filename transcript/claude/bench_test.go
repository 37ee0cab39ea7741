package claude_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
)

// bigSession writes a transcript of at least size bytes in turns of about 20 KB. They contain
// prose, code with many escapes, and tool output that is in the file twice.
func bigSession(t testing.TB, home string, size int) *sessionWriter {
	t.Helper()
	n := 0
	s := newSessionWriter(t, home, func(m int) int { n++; return n % m })
	code := strings.Repeat("\tif err := run(ctx, \"x\"); err != nil {\n\t\treturn fmt.Errorf(\"run: %w\", err)\n\t}\n", 40)
	for written := 0; written < size; {
		s.prompt(strings.Repeat("please make it so, and mind the details. ", 20))
		message := "msg-" + s.uuid()
		at := s.block(message, fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"Write","input":{"content":%s}}`, s.ids, quote(code)), "tool_use")
		s.result(at, fmt.Sprintf("t%d", s.ids), code)
		s.answer(strings.Repeat("All of it is done now, as you asked. ", 80))
		for _, l := range s.lines {
			written += len(l)
		}
		s.flush(t)
	}
	return s
}

// BenchmarkCut compares a cut of a 50 MB transcript under a new id with a copy
// and fsync of the same file.
func BenchmarkCut(b *testing.B) {
	home := b.TempDir()
	s := bigSession(b, home, 50<<20)
	o := newMemoryObjects()
	c := claude.New(home, claude.Options{})
	got, err := c.Capture(context.Background(), s.source(), nil, o, nil)
	if err != nil {
		b.Fatal(err)
	}
	var cut, copied time.Duration
	n := 0
	var peak uint64
	for b.Loop() {
		n++
		start := time.Now()
		copyFile(b, s.path, filepath.Join(home, "copy"))
		copied += time.Since(start)
		os.Remove(filepath.Join(home, "copy"))

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start = time.Now()
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)), Dir: s.dir}
		src, err := c.Cut(context.Background(), got.Position, to, o)
		if err != nil {
			b.Fatal(err)
		}
		cut += time.Since(start)
		runtime.ReadMemStats(&after)
		peak = max(peak, after.TotalAlloc-before.TotalAlloc)
		os.Remove(src.Path)
	}
	b.SetBytes(got.Position.Offset)
	b.ReportMetric(cut.Seconds()*1000/float64(n), "cut-ms")
	b.ReportMetric(copied.Seconds()*1000/float64(n), "copy-ms")
	b.ReportMetric(cut.Seconds()/copied.Seconds(), "ratio")
	b.ReportMetric(float64(peak)/(1<<20), "alloc-MiB")
}

func copyFile(b *testing.B, from, to string) {
	in, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		b.Fatal(err)
	}
	if err := out.Sync(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCaptureCut compares, in memory, the capture of a cut of a 50 MB transcript with
// a capture that derives from nothing. It reads both back.
func BenchmarkCaptureCut(b *testing.B) {
	ctx := context.Background()
	home := b.TempDir()
	s := bigSession(b, home, 50<<20)
	o := newMemoryObjects()
	c := claude.New(home, claude.Options{})
	got, err := c.Capture(ctx, s.source(), nil, o, nil)
	if err != nil {
		b.Fatal(err)
	}
	src, err := c.Cut(ctx, got.Position, segno.Target{Session: secondSession, Dir: s.dir}, o)
	if err != nil {
		b.Fatal(err)
	}
	before := o.size
	p, err := c.CaptureCut(ctx, src, got.Position, o, o)
	if err != nil {
		b.Fatal(err)
	}
	stored := float64(o.size - before)
	b.Run("derive", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.CaptureCut(ctx, src, got.Position, o, o); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(stored, "stored-B")
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Capture(ctx, src, nil, newMemoryObjects(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, at := range map[string]segno.Position{"read-derived": p, "read-whole": got.Position} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				at.Path = ""
				home := b.TempDir()
				c := claude.New(home, claude.Options{FS: noSync{vfs.OS}})
				if _, err := c.Cut(ctx, at, segno.Target{Session: "99999999-0000-4000-8000-000000000009", Dir: home}, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
