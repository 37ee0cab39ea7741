package file

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/internal/threadlog"
	"github.com/google/go-cmp/cmp"
)

// TestALogIsJSONLines reads a log with encoding/json alone.
func TestALogIsJSONLines(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir, "a:b", 2)
	n := 0
	for line := range bytes.Lines(read(t, filepath.Join(dir, "threads", "a%3ab", "log.jsonl"))) {
		var is struct {
			N       int
			Commit  struct{ ID, Thread string }
			Entries []struct {
				Name string
				Body string
			}
		}
		if err := json.Unmarshal(line, &is); err != nil {
			t.Fatal(err)
		}
		if is.N != n || is.Commit.Thread != "a:b" || n > 0 && (is.Entries[0].Body != "hello" || is.Entries[0].Name != "user") {
			t.Fatalf("line %d is %s", n, line)
		}
		n++
	}
	if n != 3 {
		t.Fatalf("it has %d lines", n)
	}
}

// TestACommitCostsTheSame verifies that the four-hundredth commit needs as many operations,
// allocations and bytes as the tenth.
func TestACommitCostsTheSame(t *testing.T) {
	dir := t.TempDir()
	faults := faultfs.FailAt(-1)
	s := open(t, dir, Options{FS: faults.Wrap(noSync{vfs.OS})})
	defer closeStore(t, s)
	head := mustCommit(t, s, baseCommit("thread"))
	entries := messages(1)
	grow := func(to int64) {
		for head.Seq < to {
			head = mustCommit(t, s, stepCommit(head, entries[0]))
		}
	}
	cost := func() (operations int, allocations float64, bytes int64) {
		before, size := len(faults.Trace()), sizeOf(t, dir)
		const runs = 10
		allocations = testing.AllocsPerRun(runs, func() { head = mustCommit(t, s, stepCommit(head, entries[0])) })
		return len(faults.Trace()) - before, allocations, (sizeOf(t, dir) - size) / (runs + 1)
	}
	grow(10)
	operations, allocations, bytes := cost()
	grow(400)
	o, a, b := cost()
	if o != operations || a > 1.2*allocations || b > bytes+16 || b > 2*int64(len(entries[0].Body)) {
		t.Fatalf("%d operations, %.0f allocations and %d bytes at first; %d, %.0f and %d later", operations, allocations, bytes, o, a, b)
	}
}

// FuzzRecord writes arbitrary commits and reads them back.
func FuzzRecord(f *testing.F) {
	f.Add("id", "prompt", `{"a":1}`, int64(0))
	f.Add("\ufdd0", "\xff\ufdd0ff\xfe\ufdd0", ` [ "\u2028<&>" ] `, int64(59))
	f.Add(`,"entries":[`, `"}`, `"\ud800\\\""`, int64(-3600))
	f.Fuzz(func(t *testing.T, id, text, body string, n int64) {
		if !json.Valid([]byte(body)) || segno.CheckID("", id) != nil {
			return
		}
		in := threadlog.Record{N: 1 + n&0xff, Order: n, Head: &threadlog.HeadRecord{Head: segno.Head{Head: segno.CommitID(id), Seq: n}},
			Commit: &threadlog.CommitRecord{Commit: segno.Commit{ID: segno.CommitID(id), Thread: "t"}, Checkpoint: &threadlog.CheckpointRecord{Checkpoint: segno.Checkpoint{Prompt: text, Meta: map[string]string{text: id, id: text}, Session: &segno.Position{Digest: []byte(text)}}}}}
		entries := []segno.Entry{{Name: text, ID: id, Body: json.RawMessage(body)}, {Turn: int(n)}}
		line, err := encode(&in, entries)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 || !json.Valid(line) {
			t.Fatalf("the line is %q", line)
		}
		out, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) == 0 {
			in.Commit.Checkpoint.Session.Digest = nil
		}
		if diff := cmp.Diff(&in, out); diff != "" {
			t.Fatal(diff)
		}
		got, err := decodeEntries(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entries, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzLog appends random bytes to a log. The log must be read as before, or be damaged. Only a torn
// record at its end may be cut off.
func FuzzLog(f *testing.F) {
	f.Add([]byte("{"))
	f.Add([]byte(`{"crc":"00000000","n":1,`))
	f.Add([]byte("\n"))
	f.Add(make([]byte, 10))
	line, err := encode(&threadlog.Record{N: 2, Head: &threadlog.HeadRecord{Head: segno.Head{Head: "x", Tip: "x", Seq: 3}},
		Commit: &threadlog.CommitRecord{Commit: segno.Commit{ID: "x", Thread: "thread", Parent: "base of thread"}, Entries: 1}},
		[]segno.Entry{{Body: []byte(`1`)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(line[:len(line)-1])
	f.Add(append(line[:len(line)-1:len(line)-1], 0))
	f.Add([]byte(resealed(`{"crc":"00000000","n":2,"order":1,"lease":{"thread":"thread","epoch":7}}`)))
	dir := f.TempDir()
	s, err := Open(f.Context(), dir, Options{})
	if err != nil {
		f.Fatal(err)
	}
	head := mustCommit(f, s, baseCommit("thread"))
	mustCommit(f, s, turnCommit(head, 0))
	closeStore(f, s)
	good := read(f, logOf(dir, "thread"))
	f.Fuzz(func(t *testing.T, end []byte) {
		write(t, logOf(dir, "thread"), append(bytes.Clone(good), end...))
		s := open(t, dir, Options{FS: noSync{vfs.OS}})
		defer closeStore(t, s)
		head, err := s.Head(t.Context(), "thread")
		if err != nil {
			if k := segno.KindOf(err); k != segno.KindCorrupt && k != segno.KindNewer {
				t.Fatal(err)
			}
			if got := read(t, logOf(dir, "thread")); !bytes.Equal(got[len(good):], end) {
				t.Fatal("the evidence was changed")
			}
			return
		}
		if !bytes.Contains(end, []byte("\n")) && head.Seq != 2 {
			t.Fatalf("%q was taken for a record", end)
		}
		head = mustCommit(t, s, segno.Commit{ID: "next", Thread: "thread", Expect: head.Head, Epoch: head.Epoch, Parent: head.Head, Checkpoint: &segno.Checkpoint{}})
		again := open(t, dir, Options{FS: noSync{vfs.OS}})
		defer closeStore(t, again)
		if diff := cmp.Diff(head, headOf(t, again, "thread")); diff != "" {
			t.Fatal(diff)
		}
		kept := strings.Join(tornFiles(t, dir, "thread"), "")
		log := read(t, logOf(dir, "thread"))
		if !bytes.HasPrefix(log, good) || kept != "" && !bytes.HasSuffix(end, []byte(kept)) {
			t.Fatalf("of %q are kept %q", end, kept)
		}
		names, err := filepath.Glob(filepath.Join(filepath.Dir(logOf(dir, "thread")), "torn-*"))
		must(t, err)
		for _, name := range names {
			must(t, os.Remove(name))
		}
	})
}
