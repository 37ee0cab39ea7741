package codex_test

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
	"github.com/dalsegno/segno/transcript/codex"
)

// bigSession writes a rollout of at least size bytes in turns of about 20 KB.
func bigSession(e *env, size int) *session {
	s := newSession(e.t, e.home, firstID, nil)
	text := strings.Repeat("\tif err := run(ctx, \"x\"); err != nil {\n\t\treturn fmt.Errorf(\"run: %w\", err)\n\t}\n", 200)
	for n := 0; n*20_000 < size; n++ {
		s.turn(fmt.Sprintf("t%d", n), text)
	}
	s.flush()
	return s
}

// BenchmarkCut compares a cut of a 50 MB rollout with a copy and fsync of the same file.
func BenchmarkCut(b *testing.B) {
	e := newEnv(b)
	e.c = codex.New(e.home, codex.Options{})
	s := bigSession(e, 50<<20)
	p := e.capture(firstID, nil).Position
	var cut, copied time.Duration
	var peak uint64
	n := 0
	for b.Loop() {
		n++
		start := time.Now()
		copyFile(b, s.path(), filepath.Join(e.home, "copy"))
		copied += time.Since(start)
		os.Remove(filepath.Join(e.home, "copy"))

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start = time.Now()
		src := e.cut(p, segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)))
		cut += time.Since(start)
		runtime.ReadMemStats(&after)
		peak = max(peak, after.TotalAlloc-before.TotalAlloc)
		os.Remove(src.Path)
	}
	b.SetBytes(p.Offset)
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

// BenchmarkCapture captures a 50 MB rollout, first whole and then with one more turn. The home has
// 10,000 sessions of 400 days.
func BenchmarkCapture(b *testing.B) {
	ctx := context.Background()
	e := newEnv(b)
	for n := range 10_000 {
		dir := filepath.Join(e.home, "sessions", "2026", fmt.Sprint(n%400/31), fmt.Sprint(n%400%31))
		write(b, filepath.Join(dir, fmt.Sprintf("rollout-2026-11-22T22-31-03-01a20562-62f8-7731-83e7-%012d.jsonl", 1000+n)), nil)
	}
	s := bigSession(e, 50<<20)
	prev := e.capture(firstID, nil).Position
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := e.c.Capture(ctx, segno.Source{Session: firstID}, nil, discard{e.o}, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(s.size())
	})
	b.Run("turn", func(b *testing.B) {
		s.turn("more", "one more")
		s.flush()
		for b.Loop() {
			if _, err := e.c.Capture(ctx, segno.Source{Session: firstID}, &prev, e.o, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			if _, err := e.c.Find(ctx, firstID); err != nil {
				b.Fatal(err)
			}
		}
	})
}
