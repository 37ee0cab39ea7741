package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/sqlite/internal/checksumvfs"
)

// The benchmarks measure ratios to the bare work in the same run, as the design states them, because a slow
// disk slows both sides.

// step returns an agent's message of about two kilobytes, as a model writes it.
func step(r *rand.Rand, i int) segno.Entry { return stepOfText(r, i, 1500) }

// stepOfText returns an agent's message with a text of the given size.
func stepOfText(r *rand.Rand, i, size int) segno.Entry {
	words := strings.Fields(`the function returns an error when file is missing so we should check path before reading it and
		then wrap context that caller can see which record was damaged test passes now let me look at server handler next change
		config value default timeout retry budget goroutine channel select mutex index query table commit snapshot restore`)
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(words[r.IntN(len(words))])
		text.WriteByte(" \n.,"[min(3, r.IntN(12)/3)])
	}
	body, err := json.Marshal(map[string]any{
		"role": "assistant", "id": fmt.Sprintf("msg_%016x%08x", r.Uint64(), r.Uint32()), "model": "claude-test-1",
		"stop_reason": "tool_use",
		"usage":       map[string]int{"input_tokens": r.IntN(90000), "output_tokens": r.IntN(900), "cache_read_input_tokens": r.IntN(90000)},
		"content": []any{map[string]any{"type": "text", "text": text.String()},
			map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%016x", r.Uint64()), "name": "Read",
				"input": map[string]any{"file_path": fmt.Sprintf("/home/dev/project/internal/pkg%d/file%d.go", r.IntN(9), r.IntN(99))}}},
	})
	if err != nil {
		panic(err)
	}
	return segno.Entry{Kind: segno.EntryMessage, Turn: 1 + i/20, Time: time.Unix(1767225600+int64(i), 0).UTC(), Name: "agent", Body: body}
}

func steps(n int) []segno.Entry {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]segno.Entry, n)
	for i := range all {
		all[i] = step(r, i)
	}
	return all
}

func benchStore(b *testing.B) *Store {
	s, err := openDir(b.Context(), b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func stepCommit(head segno.Head, e segno.Entry, i int) segno.Commit {
	return segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head,
		Entries:    []segno.Entry{e},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: e.Turn, Time: e.Time, Agent: "segno"}}
}

func mustCommit(b testing.TB, s *Store, c segno.Commit) segno.Head {
	head, err := s.Commit(context.Background(), c)
	if err != nil {
		b.Fatal(err)
	}
	return head
}

func begin(b *testing.B, s *Store) segno.Head {
	return mustCommit(b, s, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: time.Unix(1767225600, 0)}})
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// TestAStepIsSmall verifies that steps of any size, with all tables and indexes, occupy little more than their
// compressed messages. The sizes vary around each mean, as those of an agent do: rows that just fit on a page
// occupy up to a tenth more than slightly shorter or longer rows, so one exact size would measure the page size.
func TestAStepIsSmall(t *testing.T) {
	const n = 500
	for _, size := range []int{1500, 2500, 3500, 5000} {
		s := openIn(t, t.TempDir(), Options{})
		head := seed(t, s.dir)
		r, payload := rand.New(rand.NewPCG(1, 2)), 0
		for i := range n {
			e := stepOfText(r, i, size-200+i%9*50)
			payload += len(e.Body)
			var err error
			if head, err = s.Commit(t.Context(), stepCommit(head, e, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		took := float64(sizeOf(t, s.dir)) / float64(payload)
		t.Logf("steps of %d bytes take %.2f of them", payload/n, took)
		if took > 0.7 {
			t.Errorf("steps of %d bytes take %.2f of them", payload/n, took)
		}
	}
}

// TestAStepChangesFewPages counts the pages that the commit of a step writes to the log, by table and index. Each page
// is a frame of the log, which the commit syncs.
func TestAStepChangesFewPages(t *testing.T) {
	const n = 100 // SQLite does not write the log back before it has 1,000 frames
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	head := mustCommit(t, s, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	before := len(framesOf(t, s.Path()+"-wal"))
	for i := range n {
		head = mustCommit(t, s, stepCommit(head, step(r, i), i))
	}
	frames := framesOf(t, s.Path()+"-wal")[before:]
	trees := treesOf(t, s.Path())
	counts := map[string]int{}
	for _, page := range frames {
		counts[trees[page]]++
	}
	for _, tree := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-28s %.2f pages a commit", tree, float64(counts[tree])/n)
	}
	if perCommit := float64(len(frames)) / n; perCommit > 8.5 {
		t.Errorf("a commit writes %.2f pages", perCommit)
	} else {
		t.Logf("%-28s %.2f", "all", perCommit)
	}
}

// framesOf returns the number of the page of each frame in a log that was not reset.
func framesOf(t *testing.T, name string) (pages []int) {
	t.Helper()
	const header, frameHeader = 32, 24
	for data := readFile(t, name)[header:]; len(data) >= frameHeader+pageSize; data = data[frameHeader+pageSize:] {
		pages = append(pages, int(binary.BigEndian.Uint32(data)))
	}
	return pages
}

// treesOf returns the table or index of each page of a database, with the kind of the page.
func treesOf(t *testing.T, file string) map[int]string {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?vfs="+checksumvfs.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT pageno, name, pagetype FROM dbstat")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	trees := map[int]string{1: "the header and the schema"}
	for rows.Next() {
		var page int
		var name, kind string
		if err := rows.Scan(&page, &name, &kind); err != nil {
			t.Fatal(err)
		}
		if page != 1 {
			trees[page] = name + ", " + kind
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return trees
}

// BenchmarkCommitStep commits 1,000 steps of 2 KB, and compares each with a bare append and fsync of the same
// bytes.
func BenchmarkCommitStep(b *testing.B) {
	const n = 1000
	all := steps(n)
	var payload int
	for _, e := range all {
		payload += len(e.Body)
	}
	for b.Loop() {
		s := benchStore(b)
		head := begin(b, s)
		bare, err := os.OpenFile(filepath.Join(b.TempDir(), "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		var ours, theirs []time.Duration
		for i, e := range all {
			t := time.Now()
			if _, err := bare.Write(e.Body); err != nil {
				b.Fatal(err)
			}
			if err := bare.Sync(); err != nil {
				b.Fatal(err)
			}
			theirs = append(theirs, time.Since(t))
			c := stepCommit(head, e, i)
			t = time.Now()
			head = mustCommit(b, s, c)
			ours = append(ours, time.Since(t))
		}
		bare.Close()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		var sumOurs, sumTheirs time.Duration
		for i := range ours {
			sumOurs, sumTheirs = sumOurs+ours[i], sumTheirs+theirs[i]
		}
		b.ReportMetric(float64(median(ours))/float64(median(theirs)), "×append(median)")
		b.ReportMetric(float64(sumOurs)/float64(sumTheirs), "×append(mean)")
		b.ReportMetric(float64(median(ours[n-100:]))/float64(median(ours[:100])), "×last/first")
		b.ReportMetric(float64(sizeOf(b, s.dir))/float64(payload), "×payload")
		b.ReportMetric(float64(median(ours).Microseconds()), "µs/commit")
	}
}

// BenchmarkLoadHead loads a thread of 1,000 steps with its entries.
func BenchmarkLoadHead(b *testing.B) {
	s := benchStore(b)
	head := begin(b, s)
	for i, e := range steps(1000) {
		head = mustCommit(b, s, stepCommit(head, e, i))
	}
	for b.Loop() {
		line, err := s.Load(b.Context(), head.Head, segno.Window{Entries: true})
		if err != nil || len(line.Commits) != 1001 {
			b.Fatal(len(line.Commits), err)
		}
	}
}

// turn returns a checkpoint with all tiers, as the recorder creates it.
func turn(i int) *segno.Checkpoint {
	h := func(s string) segno.Hash { return segno.HashOf(fmt.Append(nil, s, i)) }
	return &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: i, Time: time.Unix(1767225600+int64(i), 0), Agent: "claude",
		Prompt: "please look at the failing test in the parser and make it pass without touching the lexer",
		Key:    segno.TurnKey(fmt.Sprintf("%08x-7b1d-4c3e-9f00-a1b2c3d4e5f6", i)),
		Files:  segno.Counts{Added: 1, Modified: 3}, Shell: 2,
		Session: &segno.Position{Agent: "claude", Session: "5d41402a-bc4b-4a76-b971-9d911017c592", Dir: "/home/dev/project",
			Path: "/home/dev/.claude/projects/-home-dev-project/5d41402a-bc4b-4a76-b971-9d911017c592.jsonl",
			Leaf: fmt.Sprintf("%08x-1111-4222-8333-444455556666", i), Offset: int64(i) * 51234,
			SHA256: h("sha"), Digest: make([]byte, 108), Version: "2.0.1"},
		Workspace: &segno.Snapshot{Workspace: "abcdefghijklmnopqrstuvwxyz", Root: "/home/dev/project", Files: 1500, Bytes: 27 << 20,
			Git: &segno.Git{Head: "0123456789abcdef0123456789abcdef01234567", Branch: "main"}}}
}

// BenchmarkList100 lists the 100 newest of 1,000 turns.
func BenchmarkList100(b *testing.B) {
	s := benchStore(b)
	head := begin(b, s)
	for i := range 1000 {
		head = mustCommit(b, s, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head,
			Expect: head.Head, Checkpoint: turn(i)})
	}
	for b.Loop() {
		n := 0
		for _, err := range s.Checkpoints(b.Context(), segno.CheckpointQuery{Thread: "thread", Limit: 100}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100 {
			b.Fatal(n)
		}
	}
}

// BenchmarkOpen opens a store, reads a head, commits a turn and closes the store, as a hook does.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := openDir(b.Context(), dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	begin(b, s)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	var open, all time.Duration
	n := 0
	for b.Loop() {
		n++
		t := time.Now()
		s, err := openDir(b.Context(), dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		open += time.Since(t)
		head, err := s.Head(b.Context(), "thread")
		if err != nil {
			b.Fatal(err)
		}
		mustCommit(b, s, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head,
			Checkpoint: turn(n)})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		all += time.Since(t)
	}
	b.ReportMetric(float64(open.Microseconds())/float64(n), "µs/open")
	b.ReportMetric(float64(all.Microseconds())/float64(n), "µs/all")
}

// BenchmarkFirstSnapshot puts the Go tree, 15,000 files, into a new store from two goroutines and commits it.
// It compares that with reading and hashing the same files.
func BenchmarkFirstSnapshot(b *testing.B) {
	tree := goTree(b)
	tree.walk(b, func([]byte) {})
	var ratios []float64
	for b.Loop() {
		cpu := cpuTime(b)
		bare, size := tree.walk(b, func(p []byte) { segno.HashOf(p) })
		bareCPU := cpuTime(b) - cpu
		s := benchStore(b)
		head := begin(b, s)
		batch := s.Objects().Batch()
		cpu = cpuTime(b)
		t := time.Now()
		put, _ := tree.walk(b, func(p []byte) {
			if _, err := batch.Put(context.Background(), p); err != nil {
				b.Error(err)
			}
		})
		staged, err := batch.Stage(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		stage := time.Since(t)
		mustCommit(b, s, segno.Commit{ID: "snapshot", Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged,
			Checkpoint: turn(1)})
		all := time.Since(t)
		b.ReportMetric(float64(cpuTime(b)-cpu)/float64(bareCPU), "×cpu")
		ratios = append(ratios, float64(all)/float64(bare))
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "×read+sha256")
		b.ReportMetric(float64(bare.Milliseconds()), "ms-bare")
		b.ReportMetric(float64(put.Milliseconds()), "ms-put")
		b.ReportMetric(float64((stage - put).Milliseconds()), "ms-stage")
		b.ReportMetric(float64((all - stage).Milliseconds()), "ms-commit")
		b.ReportMetric(float64(sizeOf(b, s.dir))/float64(size), "×bytes")
		if err := errors.Join(s.Close(), os.RemoveAll(s.dir)); err != nil { // otherwise every round uses new page cache
			b.Fatal(err)
		}
	}
}

// fileTree lists the paths of the files of a tree.
type fileTree []string

func goTree(b *testing.B) (tree fileTree) {
	err := filepath.WalkDir(runtime.GOROOT(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			tree = append(tree, path)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return tree
}

// walk reads every file, two at a time, and passes each to f. It returns the time and the number of bytes.
func (tree fileTree) walk(b *testing.B, f func([]byte)) (time.Duration, int64) {
	var next, bytes atomic.Int64
	var group sync.WaitGroup
	t := time.Now()
	for range 2 {
		group.Go(func() {
			buf := make([]byte, 0, 1<<20)
			for i := next.Add(1) - 1; i < int64(len(tree)); i = next.Add(1) - 1 {
				buf = readInto(b, buf[:0], tree[i])
				bytes.Add(int64(len(buf)))
				f(buf)
			}
		})
	}
	group.Wait()
	return time.Since(t), bytes.Load()
}

// cpuTime returns the CPU time of the process, which does not depend on the load of the machine.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func readInto(b *testing.B, buf []byte, path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	buf = slices.Grow(buf, int(fi.Size()))[:fi.Size()]
	if _, err := f.ReadAt(buf, 0); err != nil && fi.Size() > 0 {
		b.Fatal(err)
	}
	return buf
}
