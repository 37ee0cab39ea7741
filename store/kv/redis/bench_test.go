package redis_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	goredis "github.com/redis/go-redis/v9"
)

// step returns an agent's message of about two kilobytes, as a model writes it.
func step(r *rand.Rand, i int) segno.Entry {
	words := strings.Fields(`the function returns an error when file is missing so we should check path before reading it and
		then wrap context that caller can see which record was damaged test passes now let me look at server handler next change
		config value default timeout retry budget goroutine channel select mutex index query table commit snapshot restore`)
	var text strings.Builder
	for text.Len() < 1500 {
		text.WriteString(words[r.IntN(len(words))])
		text.WriteByte(" \n.,"[min(3, r.IntN(12)/3)])
	}
	body, err := json.Marshal(map[string]any{
		"role": "assistant", "id": fmt.Sprintf("msg_%016x%08x", r.Uint64(), r.Uint32()), "model": "claude-test-1", "stop_reason": "tool_use",
		"usage": map[string]int{"input_tokens": r.IntN(90000), "output_tokens": r.IntN(900), "cache_read_input_tokens": r.IntN(90000)},
		"content": []any{map[string]any{"type": "text", "text": text.String()},
			map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%016x", r.Uint64()), "name": "Read",
				"input": map[string]any{"file_path": fmt.Sprintf("/home/dev/project/internal/pkg%d/file%d.go", r.IntN(9), r.IntN(99))}}},
	})
	if err != nil {
		panic(err)
	}
	return segno.Entry{Kind: segno.EntryMessage, Turn: 1 + i/20, Time: time.Unix(1767225600+int64(i), 0).UTC(), Name: "agent", Body: body}
}

func stepCommit(head segno.Head, e segno.Entry) segno.Commit {
	return segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head,
		Entries:    []segno.Entry{e},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: e.Turn, Time: e.Time, Agent: "segno"}}
}

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkPut commits 1,000 steps with a 2 KB message and, between them, appends as many bytes
// with a bare RPUSH. The server has each of them on disk before it answers.
func BenchmarkPut(b *testing.B) {
	const steps = 1000
	for b.Loop() {
		s := open(b, redis.Options{Prefix: newPrefix()})
		c := client(b)
		list := newPrefix() + "list"
		head, err := s.Commit(b.Context(), segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "bench", Create: &segno.Thread{ID: "bench"},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		var puts, pushes []time.Duration
		var payload int
		before := memory(b, c)
		var pushed int64
		for i := range steps {
			e := step(r, i)
			payload += len(e.Body)
			began := time.Now()
			if head, err = s.Commit(b.Context(), stepCommit(head, e)); err != nil {
				b.Fatal(err)
			}
			puts = append(puts, time.Since(began))
			mem := memory(b, c)
			began = time.Now()
			if err := c.RPush(b.Context(), list, []byte(e.Body)).Err(); err != nil {
				b.Fatal(err)
			}
			pushes = append(pushes, time.Since(began))
			pushed += memory(b, c) - mem
		}
		used := memory(b, c) - before - pushed
		const window = steps / 5
		first, last := median(puts[:window]), median(puts[steps-window:])
		pushedFirst, pushedLast := median(pushes[:window]), median(pushes[steps-window:])
		b.ReportMetric(float64(median(puts).Microseconds()), "put-µs")
		b.ReportMetric(float64(median(pushes).Microseconds()), "rpush-µs")
		b.ReportMetric(float64(median(puts))/float64(median(pushes)), "put/rpush")
		b.ReportMetric(float64(last)/float64(first), "last/first")
		b.ReportMetric(float64(last)/float64(first)*float64(pushedFirst)/float64(pushedLast), "last/first-less-rpush")
		b.ReportMetric(float64(used)/float64(payload), "memory/payload")
		b.ReportMetric(reads(b, s, head), "head-ms")
		s.Close()
	}
}

// memory returns how many bytes of data a server reports.
func memory(b *testing.B, c *goredis.Client) int64 {
	b.Helper()
	info := c.Info(b.Context(), "memory").Val()
	_, text, ok := strings.Cut(info, "used_memory:")
	text, _, _ = strings.Cut(text, "\r")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		b.Fatalf("the server says %q", info)
	}
	return n
}

// reads returns the time that Head and Load of the whole line take, in milliseconds.
func reads(b *testing.B, s *redis.Store, head segno.Head) float64 {
	b.Helper()
	var all []time.Duration
	for range 9 {
		began := time.Now()
		h, err := s.Head(b.Context(), head.Thread)
		if err != nil {
			b.Fatal(err)
		}
		line, err := s.Load(b.Context(), h.Head, segno.Window{Entries: true})
		if err != nil || len(line.Commits) != 1001 {
			b.Fatal(len(line.Commits), err)
		}
		all = append(all, time.Since(began))
	}
	return float64(median(all).Microseconds()) / 1000
}
