package file

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// The benchmarks measure ratios to a bare append, which alternates with the commits in the same run,
// because a slow disk slows both.

// message returns an agent's message of two kilobytes.
func message(r *rand.Rand, i int) segno.Entry {
	words := strings.Fields(`the function returns an error when file is missing so we should check path before reading it and
		then wrap context that caller can see which record was damaged test passes now let me look at server handler next change`)
	var text strings.Builder
	for text.Len() < 1950 {
		text.WriteString(words[r.IntN(len(words))])
		text.WriteByte(" \n.,"[min(3, r.IntN(12)/3)])
	}
	body, err := json.Marshal(map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": text.String()}}})
	if err != nil {
		panic(err)
	}
	return segno.Entry{Kind: segno.EntryMessage, Turn: 1 + i/20, Time: time.Unix(1767225600+int64(i), 0).UTC(), Name: "agent", Body: body}
}

func messages(n int) []segno.Entry {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]segno.Entry, n)
	for i := range all {
		all[i] = message(r, i)
	}
	return all
}

func stepCommit(head segno.Head, e segno.Entry) segno.Commit {
	return segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head,
		Entries:    []segno.Entry{e},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: e.Turn, Time: e.Time, Agent: "segno"}}
}

func baseCommit(id string) segno.Commit {
	return segno.Commit{ID: segno.CommitID("base of " + id), Thread: segno.ThreadID(id), Create: &segno.Thread{ID: segno.ThreadID(id)},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}
}

func mustCommit(t testing.TB, s *Store, c segno.Commit) segno.Head {
	t.Helper()
	head, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkPut commits a thread of 1,000 steps with a message of 2 KB each, and compares that with a
// bare append and fsync of the message.
func BenchmarkPut(b *testing.B) {
	const steps = 1000
	entries := messages(steps)
	for range b.N {
		dir := b.TempDir()
		bare, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		s := open(b, filepath.Join(dir, "store"), Options{})
		head := mustCommit(b, s, baseCommit("thread"))
		var bares, puts []time.Duration
		payload := 0
		for _, e := range entries {
			payload += len(e.Body)
			start := time.Now()
			if _, err := bare.Write(e.Body); err != nil {
				b.Fatal(err)
			}
			if err := bare.Sync(); err != nil {
				b.Fatal(err)
			}
			between := time.Now()
			head = mustCommit(b, s, stepCommit(head, e))
			puts = append(puts, time.Since(between))
			bares = append(bares, between.Sub(start))
		}
		b.ReportMetric(float64(median(bares).Microseconds()), "bare-µs")
		b.ReportMetric(float64(median(puts).Microseconds()), "put-µs")
		b.ReportMetric(float64(median(puts))/float64(median(bares)), "put/bare")
		at := func(from int) float64 {
			return float64(median(puts[from:from+100])) / float64(median(bares[from:from+100]))
		}
		b.ReportMetric(at(steps-100)/at(0), "last/first") // of put/bare, in hundreds
		b.ReportMetric(float64(sizeOf(b, s.Path()))/float64(payload), "bytes/payload")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		bare.Close()
	}
}

// BenchmarkRead measures reads of a thread of 1,000 such steps, in a process that has the store
// open, and in one that opens the store, which has 50 other threads.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, Options{})
	defer s.Close()
	var head segno.Head
	for i := range 51 {
		n := 20
		head = mustCommit(b, s, baseCommit(fmt.Sprint("thread ", i)))
		if i == 50 {
			n = 1000
		}
		for _, e := range messages(n) {
			head = mustCommit(b, s, stepCommit(head, e))
		}
	}
	load := func(b *testing.B, s *Store, last int) {
		if line, err := s.Load(b.Context(), head.Head, segno.Window{Last: last, Entries: true}); err != nil || len(line.Commits) < last {
			b.Fatal(line, err)
		}
	}
	list := func(b *testing.B, s *Store, q segno.CheckpointQuery) {
		for _, err := range s.Checkpoints(b.Context(), q) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, read := range map[string]func(b *testing.B, s *Store){
		"line":     func(b *testing.B, s *Store) { load(b, s, 0) },
		"last 20":  func(b *testing.B, s *Store) { load(b, s, 20) },
		"list 100": func(b *testing.B, s *Store) { list(b, s, segno.CheckpointQuery{Thread: head.Thread, Limit: 100}) },
		"list all": func(b *testing.B, s *Store) { list(b, s, segno.CheckpointQuery{Limit: 100}) },
	} {
		b.Run(name+"/warm", func(b *testing.B) {
			for b.Loop() {
				read(b, s)
			}
		})
		b.Run(name+"/cold", func(b *testing.B) {
			for b.Loop() {
				cold := open(b, dir, Options{})
				read(b, cold)
				cold.Close()
			}
		})
	}
}
