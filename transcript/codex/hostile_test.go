package codex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/codex"
	"github.com/klauspost/compress/zstd"
)

// TestDamagedLineage has references to rollouts that do not exist. Each is one error, and nothing is written.
func TestDamagedLineage(t *testing.T) {
	base := func(change func(map[string]any)) func(*session) map[string]any {
		return func(s *session) map[string]any {
			b := s.base()
			change(b)
			return b
		}
	}
	for name, makeBase := range map[string]func(*session) map[string]any{
		"missing rollout":      base(func(b map[string]any) { b["thread_id"] = thirdID }),
		"itself":               base(func(b map[string]any) { b["thread_id"] = secondID }),
		"no id":                base(func(b map[string]any) { b["thread_id"] = "../../../etc/passwd" }),
		"past the end":         base(func(b map[string]any) { b["end_byte_offset"] = b["end_byte_offset"].(int64) + 1 }),
		"inside a line":        base(func(b map[string]any) { b["end_byte_offset"] = b["end_byte_offset"].(int64) - 1 }),
		"inside the meta":      base(func(b map[string]any) { b["end_byte_offset"] = int64(7) }),
		"negative":             base(func(b map[string]any) { b["end_byte_offset"] = int64(-7) }),
		"larger than an int64": base(func(b map[string]any) { b["end_byte_offset"] = 1e300 }),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			s := e.session(1)
			p := e.capture(firstID, nil).Position
			fork := newSession(t, e.home, secondID, makeBase(s))
			fork.turn("f1", "fork")
			fork.flush()
			before := snapshot(t, e.home)
			_, err := e.c.Capture(context.Background(), segno.Source{Session: secondID}, nil, e.o, nil)
			wantKind(t, err, segno.KindCorrupt)
			_, err = e.c.Find(context.Background(), secondID)
			wantKind(t, err, segno.KindCorrupt)
			p.Session, p.Path, p.Log = secondID, fork.path(), segno.Hash{}
			_, err = e.c.Cut(context.Background(), p, segno.Target{Session: thirdID, Dir: "/x"}, e.o)
			wantKind(t, err, segno.KindCorrupt)
			if after := snapshot(t, e.home); len(after) != len(before) {
				t.Errorf("%d files, before %d", len(after), len(before))
			}
		})
	}
}

// Two rollouts that refer to each other.
func TestCircularLineage(t *testing.T) {
	e := newEnv(t)
	write := func(thread, base string) {
		s := newSession(t, e.home, thread, map[string]any{"thread_id": base, "end_ordinal_exclusive": 1, "end_byte_offset": int64(900)})
		for s.size() < 900 {
			s.event("token_count", nil)
		}
		data := s.data()
		data[899] = '\n'
		write(t, s.path(), data)
	}
	write(firstID, secondID)
	write(secondID, firstID)
	_, err := e.c.Capture(context.Background(), segno.Source{Session: firstID}, nil, e.o, nil)
	wantKind(t, err, segno.KindCorrupt)
}

// TestNotAFile has a FIFO, a device, a directory and links in place of a rollout. Nothing
// blocks, and nothing outside the home is read.
func TestNotAFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.jsonl")
	for name, create := range map[string]func(string) error{
		"fifo":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":          func(path string) error { return os.Symlink(secret, path) },
		"dangling link": func(path string) error { return os.Symlink("/nowhere", path) },
		"link to zero":  func(path string) error { return os.Symlink("/dev/zero", path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			s := newSession(t, e.home, firstID, nil)
			write(t, secret, s.data())
			write(t, s.path()+".x", nil)
			if err := create(s.path()); err != nil {
				t.Fatal(err)
			}
			for _, src := range []segno.Source{{Session: firstID}, {Session: firstID, Path: s.path()}} {
				_, err := e.c.Capture(context.Background(), src, nil, e.o, nil)
				if kind := segno.KindOf(err); kind != segno.KindInvalid && kind != segno.KindNotFound {
					t.Errorf("captured: %v", err)
				}
			}
			if len(e.o.data) != 0 {
				t.Error("something was stored")
			}
		})
	}
}

// A directory that is a link is not followed, unless it is the sessions directory itself.
func TestLinkedDirectories(t *testing.T) {
	e := newEnv(t)
	s := e.session(1)
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(filepath.Join(e.home, "sessions"), moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(moved, filepath.Join(e.home, "sessions")); err != nil {
		t.Fatal(err)
	}
	if got := e.capture(firstID, nil); got.Position.Offset != s.size() {
		t.Errorf("captured %+v", got)
	}
	if err := os.Rename(filepath.Join(moved, "2026"), filepath.Join(moved, "../2026")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../2026", filepath.Join(moved, "2026")); err != nil {
		t.Fatal(err)
	}
	_, err := e.c.Find(context.Background(), firstID)
	wantKind(t, err, segno.KindNotFound)
}

// TestNoSession has files that are not sessions.
func TestNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want segno.Kind
	}{
		"empty":        {"", segno.KindNotFound},
		"half a line":  {`{"type":"session_meta"`, segno.KindNotFound},
		"empty line":   {"\n", segno.KindCorrupt},
		"other record": {`{"type":"response_item","payload":{}}` + "\n", segno.KindCorrupt},
		"not JSON":     {"hello\n", segno.KindCorrupt},
		"an array":     {"[]\n", segno.KindCorrupt},
		"NULs":         {"\x00\x00\n", segno.KindCorrupt},
	} {
		e := newEnv(t)
		s := newSession(t, e.home, firstID, nil)
		write(t, s.path(), []byte(c.data))
		_, err := e.c.Capture(context.Background(), segno.Source{Session: firstID}, nil, e.o, nil)
		if segno.KindOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := newEnv(t)
	for _, id := range []segno.SessionID{"", "../x", "-h", "a/b", firstID, "01A20562-62F8-7731-83E7-000000000001"} {
		if _, err := e.c.Find(context.Background(), id); err == nil {
			t.Errorf("found %q", id)
		}
	}
}

func TestInvalidCuts(t *testing.T) {
	e := newEnv(t)
	s := e.session(2)
	p := e.capture(firstID, nil).Position
	e.cut(p, thirdID)
	before := snapshot(t, e.home)
	to := segno.Target{Session: secondID, Dir: "/x"}
	for name, c := range map[string]struct {
		change func(*segno.Position, *segno.Target)
		want   segno.Kind
	}{
		"no conversation":   {func(p *segno.Position, _ *segno.Target) { p.Leaf = "" }, segno.KindInvalid},
		"no bytes":          {func(p *segno.Position, _ *segno.Target) { p.Offset = 0 }, segno.KindInvalid},
		"not a UUID":        {func(_ *segno.Position, to *segno.Target) { to.Session = "x" }, segno.KindInvalid},
		"capitals":          {func(_ *segno.Position, to *segno.Target) { to.Session = "01A20562-62F8-7731-83E7-000000000009" }, segno.KindInvalid},
		"relative":          {func(_ *segno.Position, to *segno.Target) { to.Dir = "x" }, segno.KindInvalid},
		"itself":            {func(_ *segno.Position, to *segno.Target) { to.Session = firstID }, segno.KindConflict},
		"another":           {func(p *segno.Position, to *segno.Target) { to.Session, to.Dir = thirdID, "/y" }, segno.KindConflict},
		"inside a line":     {func(p *segno.Position, _ *segno.Target) { p.Offset--; p.SHA256 = segno.HashOf(s.data()[:p.Offset]) }, segno.KindCorrupt},
		"other bytes":       {func(p *segno.Position, _ *segno.Target) { p.SHA256[0]++ }, segno.KindCorrupt},
		"beyond the end":    {func(p *segno.Position, _ *segno.Target) { p.Offset++; p.Log = segno.Hash{} }, segno.KindCorrupt},
		"missing log":       {func(p *segno.Position, _ *segno.Target) { p.Log[0]++; p.Session, p.Path = secondID, "" }, segno.KindNotFound},
		"nothing anywhere":  {func(p *segno.Position, _ *segno.Target) { p.Log = segno.Hash{}; p.Session, p.Path = secondID, "" }, segno.KindNotFound},
		"the log of others": {func(p *segno.Position, _ *segno.Target) { p.Offset--; p.Session, p.Path = secondID, "" }, segno.KindCorrupt},
	} {
		p, to := p, to
		c.change(&p, &to)
		_, err := e.c.Cut(context.Background(), p, to, e.o)
		if segno.KindOf(err) != c.want || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := snapshot(t, e.home); len(after) != len(before) {
			t.Fatalf("%s: %d files instead of %d", name, len(after), len(before))
		}
	}
	p.Path, p.Log = "", segno.Hash{}
	data := slices.Concat(s.data(), []byte("no JSON\n"))
	write(t, s.path(), data)
	p.SHA256, p.Offset = segno.HashOf(data), int64(len(data))
	_, err := e.c.Cut(context.Background(), p, to, e.o)
	wantKind(t, err, segno.KindCorrupt)
}

// TestACutNumbersTheLinesOfAnOlderCodex has a session with ordinals that a version without them continued.
func TestACutNumbersTheLinesOfAnOlderCodex(t *testing.T) {
	e := newEnv(t)
	s := newSession(t, e.home, firstID, nil)
	s.turn("a", "alpha")
	numbered := len(s.lines)
	s.isOld = true
	s.turn("b", "beta")
	s.isOld = false
	s.turn("c", "gamma")
	s.isOld = true
	s.turn("d", "delta")
	s.flush()
	cut := e.cut(e.capture(firstID, nil).Position, secondID)
	before := -1
	for n, line := range bytes.Split(bytes.TrimSpace(read(t, cut.Path)), []byte("\n")) {
		var l struct{ Ordinal *int }
		if err := json.Unmarshal(line, &l); err != nil || l.Ordinal == nil || *l.Ordinal <= before && n < numbered {
			t.Fatalf("line %d is %s: %v", n, line, err)
		}
		before = *l.Ordinal
		if n > 0 && n < numbered && !bytes.Equal(line, bytes.TrimSpace(s.lines[n])) {
			t.Errorf("line %d was changed: %s", n, line)
		}
	}
	again, err := e.c.Cut(context.Background(), e.capture(firstID, nil).Position, segno.Target{Session: secondID, Dir: "/srv/other"}, e.o)
	if err != nil || again.Path != cut.Path {
		t.Errorf("a repeated cut: %+v, %v", again, err)
	}
}

// TestDamage has lines that cannot be read. They are stored and cut in spite of that, and are reported.
func TestDamage(t *testing.T) {
	e := newEnv(t)
	s := e.session(1)
	p := e.capture(firstID, nil).Position
	s.lines = append(s.lines, []byte("no JSON\n"), []byte("\n"), []byte(`{"ordinal":99,"x":"`+"\xff"+`"}`+"\n"))
	s.ordinal = 5
	s.event("token_count", nil)
	s.lines = append(s.lines, []byte(`{"type":"event_msg","payload":{"type":7}}`+"\n"))
	s.turn("t2", "prompt 2")
	s.flush()
	got := e.capture(firstID, &p)
	first := bytes.Count(s.data()[:p.Offset], []byte("\n")) + 1
	var all []string
	for _, d := range got.Damage {
		all = append(all, fmt.Sprintf("%d %s", d.Line-first, d.Why))
	}
	want := []string{"0 not JSON", "2 not UTF-8", "3 ordinal 5 follows 10: another process wrote to the session, too", "4 it has no ordinal"}
	if !slices.Equal(all, want) {
		t.Errorf("damage %q, want %q", all, want)
	}
	if got.Prompt != "t2" || got.Follows != "t1" {
		t.Errorf("captured %+v", got)
	}
	lines := bytes.Replace(body(s.data()), []byte(`{"type":"event_msg","payload":{"type":7}}`), []byte(`{"ordinal":100,"type":"event_msg","payload":{"type":7}}`), 1)
	if data := read(t, e.cut(got.Position, secondID).Path); !bytes.Equal(body(data), lines) {
		t.Error("the cut has other lines")
	}
}

// TestLongLines has lines of 10 MB, and one that is too long to be read.
func TestLongLines(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	e := newEnv(t)
	s := e.session(1)
	s.message("user", strings.Repeat("long é ", 10<<20/8))
	s.turn("t2", strings.Repeat("long ", 10<<20/5))
	s.flush()
	got := e.capture(firstID, nil)
	if len(got.Text) < 10<<20 || len(got.Damage) != 0 {
		t.Errorf("a prompt of %d bytes, damage %v", len(got.Text), got.Damage)
	}
	if data := read(t, e.cut(got.Position, secondID).Path); !bytes.Equal(body(data), body(s.data())) {
		t.Error("the cut has other lines")
	}
	f, err := os.OpenFile(s.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(s.size() + 150<<20); err != nil { // NULs, which the disk does not store
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	next := e.capture(firstID, &got.Position)
	if next.Position.Offset != s.size()+150<<20+1 || len(next.Damage) != 1 || next.Damage[0].Why != "longer than 128 MiB" {
		t.Errorf("damage %v at %d", next.Damage, next.Position.Offset)
	}
	_, err = e.c.Cut(context.Background(), next.Position, segno.Target{Session: thirdID, Dir: "/x"}, e.o)
	wantKind(t, err, segno.KindInvalid)
}

// A long rollout is streamed.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	e := newEnv(t)
	s := e.session(1)
	line := []byte(`{"ordinal":100,"type":"event_msg","payload":{"type":"token_count","x":"` + strings.Repeat("x", 1<<20) + "\"}}\n")
	f, err := os.OpenFile(s.path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 100 {
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := e.c.Capture(context.Background(), segno.Source{Session: firstID}, nil, discard{e.o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Position.Log = segno.Hash{}
	e.cut(got.Position, secondID)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 30<<20 {
		t.Errorf("%d MiB were allocated for a session of 100 MiB", used>>20)
	}
}

// discard is a batch that drops its objects.
type discard struct{ segno.Batch }

func (discard) Put(_ context.Context, data []byte) (segno.Hash, error) {
	return segno.HashOf(data), nil
}

// TestCompressed reads a rollout that Codex compressed, and still reads it after Codex has
// decompressed it again.
func TestCompressed(t *testing.T) {
	e := newEnv(t)
	s := e.session(3)
	p := e.capture(firstID, nil).Earlier[0].Position
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.path()+".zst", z.EncodeAll(s.data(), nil))
	if err := os.Remove(s.path()); err != nil {
		t.Fatal(err)
	}
	got := e.capture(firstID, &p)
	if got.Position.Offset != s.size() || got.Position.SHA256 != segno.HashOf(s.data()) || got.Prompt != "t3" || got.Follows != "t1" {
		t.Errorf("captured %+v", got)
	}
	got.Position.Log = segno.Hash{}
	if data := read(t, e.cut(got.Position, secondID).Path); !bytes.Equal(body(data), body(s.data())) {
		t.Error("the cut has other lines")
	}
	fork := newSession(t, e.home, thirdID, s.base())
	fork.turn("f1", "fork")
	fork.flush()
	if got := e.capture(thirdID, nil); len(got.Earlier) != 3 || got.Prompt != "f1" {
		t.Errorf("captured %+v", got)
	}
	compressed := read(t, s.path()+".zst")
	for _, bad := range [][]byte{compressed[:len(compressed)/2], {}, []byte("no zstd")} {
		write(t, s.path()+".zst", bad)
		_, err := e.c.Capture(context.Background(), segno.Source{Session: firstID}, nil, e.o, nil)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("captured: %v", err)
		}
	}
	s.turn("t4", "prompt 4")
	s.flush()
	if got := e.capture(firstID, &p); got.Prompt != "t4" {
		t.Errorf("captured %+v", got)
	}
}

// TestFailsWhole fails every operation of a cut and of a relocation, once and permanently. The
// new session is complete or absent, the source is unchanged, and a second attempt succeeds.
func TestFailsWhole(t *testing.T) {
	e := newEnv(t)
	s := e.session(3)
	p := e.capture(firstID, nil).Earlier[1].Position
	other := filepath.Join(t.TempDir(), ".codex")
	ctx := context.Background()
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			home := filepath.Join(other, fmt.Sprint(n, forever))
			failing, whole := codex.New(home, codex.Options{FS: faults.Wrap(noSync{vfs.OS})}), codex.New(home, codex.Options{FS: noSync{vfs.OS}})
			to := segno.Target{Session: secondID, Dir: "/x", Yield: true}
			_, cutErr := failing.Cut(ctx, p, to, e.o)
			_, moveErr := failing.Relocate(ctx, segno.Source{Session: firstID, Path: s.path()}, "/x")
			if !faults.Fired() {
				if cutErr != nil || moveErr != nil {
					t.Fatal(cutErr, moveErr)
				}
				break
			}
			if cutErr == nil && moveErr == nil {
				t.Errorf("the failure of operation %d (%s) was not told", n, faults.Trace()[n])
			}
			check := func(session segno.SessionID, want []byte) {
				t.Helper()
				src, err := whole.Find(ctx, session)
				if segno.KindOf(err) == segno.KindNotFound {
					return
				}
				if err != nil || !bytes.Equal(body(read(t, src.Path)), body(want)) {
					t.Errorf("after operation %d the session is not whole: %v", n, err)
				}
			}
			check(secondID, s.data()[:p.Offset])
			check(firstID, s.data())
			if _, err := whole.Cut(ctx, p, to, e.o); err != nil {
				t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
			}
			if _, err := whole.Relocate(ctx, segno.Source{Session: firstID, Path: s.path()}, "/x"); err != nil {
				t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
			}
			check(secondID, s.data()[:p.Offset])
		}
	}
	if !bytes.Equal(read(t, s.path()), s.data()) {
		t.Error("the source changed")
	}
}

// TestRelocate copies a session from another home.
func TestRelocate(t *testing.T) {
	ctx := context.Background()
	e := newEnv(t)
	s := e.session(2)
	src := segno.Source{Session: firstID, Path: s.path(), Dir: "/srv/proj"}
	if same, err := e.c.Relocate(ctx, src, "/elsewhere"); err != nil || same.Path != s.path() || same.Dir != "/elsewhere" {
		t.Errorf("%+v, %v", same, err)
	}
	write(t, s.path(), append(s.data(), `{"torn`...))
	other := codex.New(filepath.Join(t.TempDir(), ".codex"), codex.Options{})
	moved, err := other.Relocate(ctx, src, "/elsewhere")
	if err != nil || moved.Session != firstID {
		t.Fatal(moved, err)
	}
	head, rest, _ := strings.Cut(string(read(t, moved.Path)), "\n")
	if !strings.Contains(head, `"cwd":"/elsewhere"`) || !strings.Contains(head, `"runtime_workspace_roots":["/elsewhere","/other"]`) || rest != string(body(s.data())) {
		t.Errorf("moved to %s\n%s", head, rest)
	}
	if again, err := other.Relocate(ctx, src, "/elsewhere"); err != nil || again != moved {
		t.Errorf("again: %+v, %v", again, err)
	}
	_, err = other.Relocate(ctx, src, "/a third place")
	wantKind(t, err, segno.KindConflict)
	if command := other.Resume(moved); !slices.Equal(command, []string{"codex", "resume", firstID, "-C", "/elsewhere"}) {
		t.Errorf("resumed with %q", command)
	}
}

// FuzzCapture captures and cuts arbitrary files. No bytes after the first line are ever lost or
// changed, and an incremental capture gives the same result as a whole one.
func FuzzCapture(f *testing.F) {
	home := filepath.Join(f.TempDir(), ".codex")
	for _, s := range []*session{newSession(f, home, firstID, nil), newOldSession(f, home, firstID)} {
		s.turn("t1", "one")
		s.event("turn_aborted", map[string]any{"turn_id": "t1"})
		s.add("compacted", nil)
		s.turn("t2", "two")
		f.Add(bytes.Replace(s.data(), []byte(`"ordinal":8`), []byte(`"other":8`), 1), 0)
		s.lines = append(s.lines, []byte("{\n\n"), []byte("\xff\n{"))
		f.Add(s.data(), len(s.data())/2)
	}
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		e := &env{t, filepath.Join(t.TempDir(), ".codex"), nil, newMemoryObjects()}
		e.c = codex.New(e.home, codex.Options{FS: noSync{vfs.OS}})
		s := &session{home: e.home, thread: firstID, id: firstID}
		at = max(0, min(at, len(data)))
		src := segno.Source{Session: firstID}
		write(t, s.path(), data[:at])
		before, err := e.c.Capture(context.Background(), src, nil, e.o, nil)
		var prev *segno.Position
		if err == nil {
			prev = &before.Position
		}
		write(t, s.path(), data)
		got, err := e.c.Capture(context.Background(), src, prev, e.o, nil)
		if err != nil {
			return
		}
		whole, err := e.c.Capture(context.Background(), src, nil, e.o, nil)
		if err != nil || whole.Position.SHA256 != got.Position.SHA256 || whole.Position.Leaf != got.Position.Leaf || int(whole.Position.Offset) != bytes.LastIndexByte(data, '\n')+1 {
			t.Fatalf("%+v, whole %+v, %v", got.Position, whole.Position, err)
		}
		for _, p := range append([]segno.TranscriptTurn{{Position: got.Position}}, whole.Earlier...) {
			to := segno.Target{Session: segno.SessionID(fmt.Sprintf("55555555-0000-4000-8000-%012d", p.Position.Offset)), Dir: "/x"}
			cut, err := e.c.Cut(context.Background(), p.Position, to, e.o)
			if err != nil {
				continue
			}
			if have := read(t, cut.Path); !bytes.Equal(withoutOrdinals(body(have)), withoutOrdinals(body(data[:p.Position.Offset]))) {
				t.Fatalf("%q was cut to %q", data[:p.Position.Offset], have)
			}
			if _, err := e.c.CaptureCut(context.Background(), cut, p.Position, e.o, e.o); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// withoutOrdinals returns lines without the ordinals at their beginnings, because a cut numbers lines that lack one.
func withoutOrdinals(lines []byte) []byte {
	return regexp.MustCompile(`(?m)^([ \t]*\{)"ordinal":\d+,`).ReplaceAll(lines, []byte("$1"))
}

// TestOrderOfOperations pins the order of writes: content is synced before it gets its name.
func TestOrderOfOperations(t *testing.T) {
	e := newEnv(t)
	e.session(1)
	p := e.capture(firstID, nil).Position
	faults := faultfs.FailAt(-1)
	c := codex.New(filepath.Join(t.TempDir(), ".codex"), codex.Options{FS: faults.Wrap(vfs.OS)})
	src, err := c.Cut(context.Background(), p, segno.Target{Session: secondID, Dir: "/x", Yield: true}, e.o)
	if err != nil {
		t.Fatal(err)
	}
	temp := regexp.MustCompile(`\.segno-[A-Z0-9]+`)
	var got []string
	for _, op := range faults.Trace() {
		if got = append(got, temp.ReplaceAllString(op, "TEMP")); strings.HasPrefix(op, "create") {
			got = got[len(got)-1:] // after the directories
		}
	}
	want := []string{"create: TEMP", "write: TEMP", "chtimes: TEMP", "sync: TEMP", "link: " + filepath.Base(src.Path), "remove: TEMP", "syncdir: 22"}
	if !slices.Equal(got, want) {
		t.Errorf("operations %q, want %q", got, want)
	}
}

// TestConcurrentCuts writes one session from several goroutines. All succeed, and one file
// appears.
func TestConcurrentCuts(t *testing.T) {
	e := newEnv(t)
	s := e.session(3)
	p := e.capture(firstID, nil).Position
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := e.c.Cut(context.Background(), p, segno.Target{Session: secondID, Dir: "/x"}, e.o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if files := snapshot(t, e.home); len(files) != 2 || files[s.path()] != string(s.data()) {
		t.Errorf("%d files", len(files))
	}
}
