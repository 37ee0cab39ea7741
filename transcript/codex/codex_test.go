package codex_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/codex"
)

func TestCapture(t *testing.T) {
	e := newEnv(t)
	s := e.session(2)
	first := e.capture(firstID, nil)
	p := first.Position
	if p.Agent != codex.Agent || p.Session != firstID || p.Leaf != "t2" || p.Offset != s.size() || p.SHA256 != segno.HashOf(s.data()) ||
		p.Dir != "/srv/proj" || p.Path != s.path() || p.Version != "0.169.0" {
		t.Errorf("captured %+v", p)
	}
	if first.Prompt != "t2" || first.Key != "t2" || first.Text != "prompt 2" || first.Follows != "t1" || len(first.Earlier) != 1 || first.Origin != nil {
		t.Errorf("captured %+v", first)
	}
	if was := first.Earlier[0]; was.Prompt != "prompt 1" || was.Key != "t1" || was.Position.Leaf != "t1" || was.Position.Offset != s.end("t1") {
		t.Errorf("the turn before is %+v", was)
	}

	s.turn("t3", "prompt 3")
	s.flush()
	size := e.o.size
	got := e.capture(firstID, &p)
	if got.Prompt != "t3" || got.Follows != "t2" || got.Text != "prompt 3" || got.Position.Offset != s.size() || got.Position.SHA256 != segno.HashOf(s.data()) || len(got.Earlier) != 0 {
		t.Errorf("then captured %+v", got)
	}
	if written, grown := e.o.size-size, s.size()-p.Offset; written > grown+300 {
		t.Errorf("%d bytes stored for %d new ones", written, grown)
	}
	again := e.capture(firstID, &got.Position)
	if again.Prompt != "" || again.Position.Leaf != "t3" || again.Position.Log != got.Position.Log {
		t.Errorf("nothing new is %+v", again)
	}
	e.checkStored(got.Position, s.data())
}

// checkStored deletes the agent's files, cuts at p and compares all but the first line.
func (e *env) checkStored(p segno.Position, want []byte) {
	e.t.Helper()
	other := codex.New(filepath.Join(e.t.TempDir(), "elsewhere"), codex.Options{})
	p.Path = ""
	src, err := other.Cut(context.Background(), p, segno.Target{Session: thirdID, Dir: "/srv/other"}, e.o)
	if err != nil {
		e.t.Fatal(err)
	}
	if got := read(e.t, src.Path); !bytes.Equal(body(got), body(want)) {
		e.t.Errorf("the stored session is\n%s\nwant\n%s", got, want)
	}
}

// body is a session without its first line.
func body(data []byte) []byte { return data[bytes.IndexByte(data, '\n')+1:] }

// TestCutAtEveryTurn cuts a session at each turn, from the agent's file and from the store.
func TestCutAtEveryTurn(t *testing.T) {
	for _, isOld := range []bool{false, true} {
		e := newEnv(t)
		s := newSession(t, e.home, firstID, nil)
		if isOld {
			s = newOldSession(t, e.home, firstID)
		}
		for n := range 5 {
			s.turn(fmt.Sprintf("t%d", n+1), fmt.Sprintf("prompt %d", n+1))
		}
		s.flush()
		got := e.capture(firstID, nil)
		turns := append(slices.Clone(got.Earlier), segno.TranscriptTurn{Prompt: got.Text, Position: got.Position})
		if len(turns) != 5 {
			t.Fatalf("%d turns", len(turns))
		}
		for n, turn := range turns {
			p := turn.Position
			if want := fmt.Sprintf("prompt %d", n+1); turn.Prompt != want || p.Offset != s.end(fmt.Sprintf("t%d", n+1)) {
				t.Errorf("turn %d is %+v", n+1, turn)
			}
			to := segno.SessionID(fmt.Sprintf("55555555-0000-4000-8000-%012d", n))
			src := e.cut(p, to)
			cut := string(read(t, src.Path))
			head, _, _ := strings.Cut(cut, "\n")
			for _, want := range []string{`"id":"` + string(to) + `"`, `"cwd":"/srv/other"`} {
				if !strings.Contains(head, want) {
					t.Errorf("the first line lacks %s: %s", want, head)
				}
			}
			if strings.Contains(head, firstID) || strings.Contains(head, "/srv/proj") || string(body([]byte(cut))) != string(body(s.data()[:p.Offset])) {
				t.Errorf("turn %d was cut to\n%s", n+1, cut)
			}
			if ok, err := e.c.EndsAt(context.Background(), src, e.captureCut(src, p)); !ok || err != nil {
				t.Errorf("the cut does not end at its position: %v", err)
			}
			if ok, _ := e.c.EndsAt(context.Background(), segno.Source{Session: firstID}, p); ok != (n == 4) {
				t.Errorf("the session ends at turn %d: %t", n+1, ok)
			}
			if found, err := e.c.Find(context.Background(), to); err != nil || found.Path != src.Path {
				t.Errorf("found %+v, %v", found, err)
			}
			e.checkStored(p, s.data()[:p.Offset])
		}
		if !bytes.Equal(read(t, s.path()), s.data()) {
			t.Error("the source changed")
		}
	}
}

// captureCut captures a cut, checks that the capture stores little, and returns the position.
func (e *env) captureCut(src segno.Source, of segno.Position) segno.Position {
	e.t.Helper()
	size := e.o.size
	p, err := e.c.CaptureCut(context.Background(), src, of, e.o, e.o)
	if err != nil {
		e.t.Fatal(err)
	}
	if grown := e.o.size - size; grown > 2000 {
		e.t.Errorf("%d bytes stored for a cut", grown)
	}
	data := read(e.t, src.Path)
	if p.Offset != int64(len(data)) || p.SHA256 != segno.HashOf(data) || p.Leaf != of.Leaf || p.Session != src.Session {
		e.t.Errorf("captured %+v of %d bytes", p, len(data))
	}
	e.checkStored(p, data)
	return p
}

// The log of a cut of a cut of a cut derives as long as that is cheap.
func TestCutsOfCuts(t *testing.T) {
	e := newEnv(t)
	e.session(2)
	p := e.capture(firstID, nil).Position
	for n := range 40 {
		src := e.cut(p, segno.SessionID(fmt.Sprintf("55555555-0000-4000-8000-%012d", n)))
		size := e.o.size
		next, err := e.c.CaptureCut(context.Background(), src, p, e.o, e.o)
		if err != nil {
			t.Fatal(err)
		}
		if n < 10 && e.o.size-size > 2000 {
			t.Errorf("%d bytes stored for cut %d", e.o.size-size, n)
		}
		p = next
	}
	e.checkStored(p, read(t, p.Path))
	visited := map[segno.Hash]bool{}
	if err := e.c.Trace(context.Background(), p, e.o, func(h segno.Hash) bool { visited[h] = true; return true }); err != nil {
		t.Fatal(err)
	}
	kept := newMemoryObjects()
	for h := range visited {
		kept.data[h] = e.o.data[h]
	}
	data := read(t, p.Path)
	e.o = kept
	e.checkStored(p, data)
}

// The lines of a lineage are one session: a fork of a fork, whose parents may continue.
func TestLineage(t *testing.T) {
	e := newEnv(t)
	s := e.session(2)
	fork := newSession(t, e.home, secondID, s.base())
	fork.turn("f1", "fork 1")
	fork.flush()
	base := fork.base()
	s.turn("t3", "prompt 3")
	s.flush()
	last := newSession(t, e.home, thirdID, base)
	last.turn("g1", "fork of the fork")
	last.flush()
	fork.turn("f2", "fork 2")
	fork.flush()

	got := e.capture(thirdID, nil, "t2")
	if got.Origin == nil || got.Origin.Leaf != "t2" || len(got.Earlier) != 1 || got.Earlier[0].Key != "f1" || got.Prompt != "g1" || got.Follows != "f1" {
		t.Errorf("captured %+v", got)
	}
	src := e.cut(got.Position, "55555555-0000-4000-8000-000000000001")
	head, rest, _ := strings.Cut(string(read(t, src.Path)), "\n")
	if strings.Contains(head, "history_base") || strings.Contains(head, "forked_from") {
		t.Errorf("the cut refers to another session: %s", head)
	}
	want := string(body(s.data()[:s.end("t2")])) + string(body(fork.data()[:fork.end("f1")])) + string(body(last.data()))
	if rest != want {
		t.Errorf("cut to\n%s\nwant\n%s", rest, want)
	}
	e.captureCut(src, got.Position)
	e.checkStored(got.Earlier[0].Position, slices.Concat(s.data()[:s.end("t2")], body(fork.data()[:fork.end("f1")])))

	last.turn("g2", "more")
	last.flush()
	size := e.o.size
	next := e.capture(thirdID, &got.Position)
	if next.Prompt != "g2" || next.Follows != "g1" || e.o.size-size > 3000 {
		t.Errorf("then captured %+v with %d bytes", next, e.o.size-size)
	}
}

// A revert continues the thread in another file. The later turns of the old file no longer belong to it.
func TestRevert(t *testing.T) {
	e := newEnv(t)
	s := e.session(1)
	base := s.base()
	s.turn("t2", "prompt 2")
	s.flush()
	before := e.capture(firstID, nil).Position
	segment := func(id string, base map[string]any, key string) *session {
		r := newSession(t, e.home, firstID, base)
		r.id = id
		r.turn(key, "prompt "+key)
		r.flush()
		return r
	}
	r := segment("01a20562-62f8-7731-83e7-0000000000b1", base, "t2b")
	got := e.capture(firstID, &before, "t1", "t2")
	if got.Prompt != "t2b" || got.Follows != "t1" || got.Position.Path != r.path() {
		t.Errorf("captured %+v", got)
	}
	if ok, err := e.c.EndsAt(context.Background(), segno.Source{Session: firstID, Path: s.path()}, before); ok || err != nil {
		t.Errorf("the reverted session ends at its old end: %v", err)
	}
	e.checkStored(before, s.data())
	r2 := segment("01a20562-62f8-7731-83e7-0000000000b2", r.base(), "t3c")
	got = e.capture(firstID, &got.Position)
	if got.Prompt != "t3c" || got.Follows != "t2b" || got.Position.Path != r2.path() {
		t.Errorf("captured %+v", got)
	}
}

func TestCompaction(t *testing.T) {
	e := newEnv(t)
	s := newSession(t, e.home, firstID, nil)
	s.turn("t1", "one")
	s.event("task_started", map[string]any{"turn_id": "c1"})
	s.add("compacted", map[string]any{"message": "", "replacement_history": []any{}})
	s.event("task_complete", map[string]any{"turn_id": "c1"})
	s.turn("t2", "two")
	s.flush()
	got := e.capture(firstID, nil)
	if got.Prompt != "t2" || got.Follows != "t1" || len(got.Earlier) != 1 || got.Earlier[0].Position.Offset != s.end("t1") {
		t.Errorf("captured %+v", got)
	}
}

// A position is at the end of a whole line, whatever follows that line.
func TestTornTail(t *testing.T) {
	for _, tail := range []string{`{"timestamp":"2026`, "{\"a\":\"\xe6\x97", "\xff"} {
		e := newEnv(t)
		s := e.session(2)
		write(t, s.path(), append(s.data(), tail...))
		got := e.capture(firstID, nil)
		if got.Position.Offset != s.size() || len(got.Damage) != 0 {
			t.Errorf("captured %+v", got)
		}
		if ok, _ := e.c.EndsAt(context.Background(), segno.Source{Session: firstID}, got.Position); ok {
			t.Error("Codex is to continue a torn file")
		}
		if data := read(t, e.cut(got.Position, secondID).Path); !bytes.Equal(body(data), body(s.data())) {
			t.Errorf("cut to %q", data)
		}
	}
}

func TestEndsAt(t *testing.T) {
	e := newEnv(t)
	s := e.session(2)
	p := e.capture(firstID, nil).Position
	for name, c := range map[string]struct {
		change func()
		want   bool
	}{
		"as it is":   {func() {}, true},
		"a note":     {func() { s.event("token_count", nil) }, true},
		"settings":   {func() { s.event("thread_settings_applied", nil) }, true},
		"its end":    {func() { s.event("task_complete", map[string]any{"turn_id": p.Leaf}) }, true},
		"other end":  {func() { s.event("task_complete", map[string]any{"turn_id": "x"}) }, false},
		"a message":  {func() { s.message("user", "x") }, false},
		"compaction": {func() { s.add("compacted", map[string]any{}) }, false},
		"a turn":     {func() { s.event("task_started", map[string]any{"turn_id": "x"}) }, false},
		"unknown":    {func() { s.add("from the future", map[string]any{}) }, false},
		"damage":     {func() { s.lines = append(s.lines, []byte("{\n")) }, false},
		"shorter":    {func() { s.lines = s.lines[:len(s.lines)-1] }, false},
		"other":      {func() { s.lines[3] = bytes.Replace(s.lines[3], []byte("e"), []byte("x"), 1) }, false},
	} {
		lines := slices.Clone(s.lines)
		c.change()
		s.flush()
		s.lines = lines
		if ok, err := e.c.EndsAt(context.Background(), segno.Source{Session: firstID}, p); ok != c.want || err != nil {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
	s.flush()
	archived := filepath.Join(e.home, "archived_sessions", filepath.Base(s.path()))
	write(t, archived, nil)
	if err := os.Rename(s.path(), archived); err != nil {
		t.Fatal(err)
	}
	if ok, err := e.c.EndsAt(context.Background(), segno.Source{Session: firstID, Path: s.path()}, p); ok || err != nil {
		t.Errorf("Codex is to continue an archived session: %v", err)
	}
	if got := e.capture(firstID, &p); got.Position.Path != archived || got.Prompt != "" {
		t.Errorf("captured %+v", got)
	}
	e.cut(p, secondID)
}

// TestBeginsWith compares a session with a position after changes that may lose turns.
func TestBeginsWith(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, path string, data []byte)
		want   bool
	}{
		"unchanged": {func(*testing.T, string, []byte) {}, true},
		"longer":    {func(t *testing.T, path string, data []byte) { write(t, path, append(data, "{}\n"...)) }, true},
		"shorter":   {func(t *testing.T, path string, data []byte) { write(t, path, data[:len(data)-1]) }, false},
		"empty":     {func(t *testing.T, path string, _ []byte) { write(t, path, nil) }, false},
		"changed": {func(t *testing.T, path string, data []byte) {
			write(t, path, bytes.ReplaceAll(data, []byte("prompt 2"), []byte("prompt 9")))
		}, false},
		"deleted": {func(t *testing.T, path string, _ []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, false},
		"archived": {func(t *testing.T, path string, data []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			home := path[:strings.Index(path, "/sessions/")]
			write(t, filepath.Join(home, "archived_sessions", filepath.Base(path)), data)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			s := e.session(2)
			p := e.capture(firstID, nil).Position
			tc.change(t, s.path(), s.data())
			if ok, err := e.c.BeginsWith(context.Background(), segno.Source{Session: firstID}, p); ok != tc.want || err != nil {
				t.Errorf("it begins with the position: %v, %v", ok, err)
			}
			p.Digest = nil
			if ok, err := e.c.BeginsWith(context.Background(), segno.Source{Session: firstID}, p); !ok || err != nil {
				t.Errorf("without a digest: %v, %v", ok, err)
			}
		})
	}
}
