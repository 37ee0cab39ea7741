package claude_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	goleak.VerifyTestMain(m)
}

// fixture is a home with a session of a few turns in it.
type fixture struct {
	*sessionWriter
	home string
	o    *memoryObjects
	c    *claude.Transcripts
}

func newFixture(t testing.TB, turns int) *fixture {
	home := t.TempDir()
	d := &fixture{sessionWriter: newSessionWriter(t, home, first), home: home, o: newMemoryObjects()}
	d.c = claude.New(home, claude.Options{FS: noSync{vfs.OS}, Objects: d.o})
	for n := range turns {
		d.turn(fmt.Sprintf("turn %d", n+1))
	}
	d.flush(t)
	return d
}

func (d *fixture) capture(t testing.TB, prev *segno.Position, known func(string) bool) segno.Captured {
	t.Helper()
	got, err := d.c.Capture(context.Background(), d.source(), prev, d.o, known)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (d *fixture) target() segno.Target { return segno.Target{Session: secondSession, Dir: d.dir} }

func wantKind(t testing.TB, err error, want segno.Kind) {
	t.Helper()
	if err == nil || segno.KindOf(err) != want {
		t.Fatalf("error %v is %v, want %v", err, segno.KindOf(err), want)
	}
}

func TestFind(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 1)
	got, err := d.c.Find(ctx, firstSession)
	if err != nil || got != d.source() {
		t.Fatalf("found %+v, %v; want %+v", got, err, d.source())
	}
	_, err = d.c.Find(ctx, secondSession)
	wantKind(t, err, segno.KindNotFound)
	for _, id := range []segno.SessionID{"", "..", "../x", "a/b", "a\x00b", "a\\b", segno.SessionID(strings.Repeat("x", 200)), "é", "a.b", "*"} {
		_, err := d.c.Find(ctx, id)
		wantKind(t, err, segno.KindInvalid)
	}
}

// A session that was moved is in two places; the one written last counts.
func TestFindTakesTheNewestFile(t *testing.T) {
	d := newFixture(t, 1)
	other := filepath.Join(d.home, "elsewhere")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	moved, err := d.c.Relocate(context.Background(), d.source(), other)
	if err != nil {
		t.Fatal(err)
	}
	for _, newest := range []string{moved.Path, d.path} {
		at := time.Now().Add(time.Hour)
		if newest == d.path {
			at = at.Add(time.Hour)
		}
		if err := os.Chtimes(newest, at, at); err != nil {
			t.Fatal(err)
		}
		if got, err := d.c.Find(context.Background(), firstSession); err != nil || got.Path != newest {
			t.Fatalf("found %s, %v; want %s", got.Path, err, newest)
		}
	}
}

// The agent may have changed its directory. The session's directory is the one whose slug is
// the name of the file's directory.
func TestDirIsWhereTheSessionBelongs(t *testing.T) {
	d := newFixture(t, 1)
	home := d.dir
	d.dir = filepath.Join(home, "sub")
	d.turn("below")
	d.flush(t)
	got, err := d.c.Find(context.Background(), firstSession)
	if err != nil || got.Dir != home {
		t.Fatalf("runs in %q, %v; want %q", got.Dir, err, home)
	}
	p, err := d.c.Capture(context.Background(), segno.Source{Session: firstSession}, nil, d.o, nil)
	if err != nil || p.Position.Dir != home || p.Position.Version != "2.1.197" {
		t.Fatalf("captured %+v, %v", p.Position, err)
	}
}

func TestCaptureStoresOnlyWhatIsNew(t *testing.T) {
	d := newFixture(t, 200)
	p := d.capture(t, nil, nil).Position
	before := d.o.size
	d.turn("one more")
	size := d.flush(t)
	got := d.capture(t, &p, nil)
	if grown, news := d.o.size-before, size-p.Offset; grown > news+300 {
		t.Errorf("%d new bytes took %d", news, grown)
	}
	if len(got.Earlier) != 0 || got.Follows != p.Leaf || got.Prompt == "" {
		t.Errorf("captured %+v", got)
	}
	again := d.capture(t, &got.Position, nil)
	if again.Prompt != "" || again.Follows != "" || again.Position.SHA256 != got.Position.SHA256 || again.Position.Log != got.Position.Log || again.Position.Leaf != got.Position.Leaf {
		t.Errorf("nothing new is captured as %+v", again)
	}
}

func TestCaptureLeavesATornTail(t *testing.T) {
	d := newFixture(t, 2)
	whole := d.capture(t, nil, nil).Position
	f, err := os.OpenFile(d.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, piece := range []string{`{"type":"mode",`, `"mode":"normal"}`, "\n"} {
		if _, err := f.WriteString(piece); err != nil {
			t.Fatal(err)
		}
		got := d.capture(t, &whole, nil)
		if piece != "\n" && (got.Position.Offset != whole.Offset || len(got.Damage) > 0) {
			t.Errorf("captured %+v of a torn line", got)
		}
		if piece == "\n" && got.Position.Offset == whole.Offset {
			t.Error("the whole line was left")
		}
		if ok, err := d.c.EndsAt(context.Background(), d.source(), whole); err != nil || ok != (piece == "\n") {
			t.Errorf("after %q EndsAt: %v, %v", piece, ok, err)
		}
	}
}

// The agent sometimes removes records by cutting them out of its file.
func TestCaptureOfARewrittenFileIsWhole(t *testing.T) {
	d := newFixture(t, 3)
	p := d.capture(t, nil, nil).Position
	data := d.bytes(t)
	cut := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	if err := os.WriteFile(d.path, data[:cut], 0o600); err != nil {
		t.Fatal(err)
	}
	got := d.capture(t, &p, func(leaf string) bool { return leaf == p.Leaf })
	if got.Position.Offset != int64(cut) || got.Position.SHA256 != segno.HashOf(data[:cut]) || got.Earlier != nil {
		t.Fatalf("captured %+v", got)
	}
	src, err := d.c.Cut(context.Background(), got.Position, d.target(), d.o)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(src.Path)
	if want := bytes.ReplaceAll(data[:cut], []byte(`"sessionId":"`+firstSession), []byte(`"sessionId":"`+secondSession)); err != nil || len(after) != len(want) {
		t.Fatalf("cut %d bytes, %v; want %d", len(after), err, len(want))
	}
}

func TestDamageIsReportedWithItsPlace(t *testing.T) {
	d := newFixture(t, 1)
	p := d.capture(t, nil, nil).Position
	lines := d.count
	d.turn("two")
	at := p.Offset
	for _, l := range d.lines {
		at += int64(len(l))
	}
	d.addLine(`{"type":"user",`)
	d.addLine("")
	for range 20 {
		d.addLine("no JSON")
	}
	d.flush(t)
	got := d.capture(t, &p, nil)
	bad := lines + 4 + 1
	if tools := d.count - lines - 22; tools != 3 {
		bad = lines + tools + 1
	}
	if len(got.Damage) != 10 || got.Damage[0].Line != bad || got.Damage[0].Offset != at || got.Damage[0].Why == "" || got.Damage[1].Line != bad+2 {
		t.Errorf("damage %+v, want the first in line %d at %d", got.Damage, bad, at)
	}
	whole := d.capture(t, nil, nil)
	if !slices.Equal(whole.Damage, got.Damage) {
		t.Errorf("read whole, damage is %+v", whole.Damage)
	}
	if _, err := d.c.Cut(context.Background(), got.Position, d.target(), d.o); err != nil {
		t.Errorf("damage beside the conversation stops a cut: %v", err)
	}
}

// If a record of the line cannot be read, the agent silently loses all records before it.
// A cut reports that as an error.
func TestCutRefusesABrokenLine(t *testing.T) {
	d := newFixture(t, 3)
	lines := bytes.SplitAfter(d.bytes(t), []byte("\n"))
	for n := 1; n < len(lines)-2; n++ {
		broken := slices.Clone(lines)
		broken[n] = append(bytes.Clone(lines[n][:len(lines[n])/2]), '\n')
		if err := os.WriteFile(d.path, bytes.Join(broken, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		p := d.capture(t, nil, nil).Position
		_, err := d.c.Cut(context.Background(), p, d.target(), d.o)
		if linked := bytes.Contains(bytes.Join(lines[n+1:], nil), []byte(`{"parentUuid":"`+uuidOf(lines[n])+`"`)); !linked {
			continue
		}
		wantKind(t, err, segno.KindCorrupt)
		if !strings.Contains(err.Error(), fmt.Sprintf("line %d ", n+1)) {
			t.Errorf("the error for line %d is %v", n+1, err)
		}
	}
}

func uuidOf(line []byte) string {
	_, after, _ := bytes.Cut(line, []byte(`"uuid":"`))
	id, _, _ := bytes.Cut(after, []byte(`"`))
	return string(id)
}

func TestCutRefuses(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	for name, c := range map[string]struct {
		change func(p *segno.Position, to *segno.Target)
		want   segno.Kind
	}{
		"no conversation":  {func(p *segno.Position, _ *segno.Target) { p.Leaf = "" }, segno.KindInvalid},
		"no bytes":         {func(p *segno.Position, _ *segno.Target) { p.Offset = 0 }, segno.KindInvalid},
		"no UUID":          {func(_ *segno.Position, to *segno.Target) { to.Session = "s2" }, segno.KindInvalid},
		"a path":           {func(_ *segno.Position, to *segno.Target) { to.Session = "../../etc/passwd" }, segno.KindInvalid},
		"a hostile source": {func(p *segno.Position, _ *segno.Target) { p.Session = "../x" }, segno.KindInvalid},
		"relative":         {func(_ *segno.Position, to *segno.Target) { to.Dir = "x" }, segno.KindInvalid},
		"its own id":       {func(_ *segno.Position, to *segno.Target) { to.Session = firstSession }, segno.KindConflict},
		"own id elsewhere": {func(_ *segno.Position, to *segno.Target) { to.Session, to.Dir = firstSession, d.home }, segno.KindConflict},
		"unknown leaf":     {func(p *segno.Position, _ *segno.Target) { p.Leaf = "nobody" }, segno.KindCorrupt},
		"other bytes":      {func(p *segno.Position, _ *segno.Target) { p.SHA256[0]++ }, segno.KindCorrupt},
		"inside a line":    {func(p *segno.Position, _ *segno.Target) { p.Offset--; p.SHA256 = segno.HashOf(d.bytes(t)[:p.Offset]) }, segno.KindCorrupt},
		"a log of less":    {func(p *segno.Position, _ *segno.Target) { p.Path = ""; p.Session = secondSession; p.Offset++ }, segno.KindCorrupt},
		"bytes nowhere":    {func(p *segno.Position, _ *segno.Target) { p.Path, p.Session, p.Log = "", secondSession, segno.Hash{} }, segno.KindNotFound},
		"a log that is not": {func(p *segno.Position, _ *segno.Target) {
			p.Path, p.Session, p.Log = "", secondSession, segno.HashOf(nil)
		}, segno.KindNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			before := snapshot(t, d.home)
			p, to := p, segno.Target{Session: "33333333-0000-4000-8000-000000000003", Dir: d.dir}
			c.change(&p, &to)
			_, err := d.c.Cut(ctx, p, to, d.o)
			wantKind(t, err, c.want)
			if after := snapshot(t, d.home); len(after) != len(before) {
				t.Errorf("%d files became %d", len(before), len(after))
			}
		})
	}
}

// A path from an archive may name anything. A pipe must not block the process.
func TestPathsThatAreNoFiles(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	pipe := filepath.Join(d.home, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Path = pipe
	if _, err := d.c.Cut(ctx, p, d.target(), d.o); err != nil {
		t.Error(err)
	}
	_, err := d.c.Capture(ctx, segno.Source{Session: firstSession, Path: pipe}, nil, d.o, nil)
	wantKind(t, err, segno.KindNotFound)
}

func TestCutTwiceIsOneCut(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	one, err := d.c.Cut(ctx, p, d.target(), d.o)
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, d.home)
	if two, err := d.c.Cut(ctx, p, d.target(), d.o); err != nil || two != one {
		t.Fatalf("again: %+v, %v", two, err)
	}
	if after := snapshot(t, d.home); len(after) != len(before) || after[one.Path] != before[one.Path] {
		t.Error("the second cut changed something")
	}
	f, err := os.OpenFile(one.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, `{"type":"mode"}`)
	_, err = d.c.Cut(ctx, p, d.target(), d.o)
	wantKind(t, err, segno.KindConflict)
}

func TestCutSplicesTopLevelIdsOnly(t *testing.T) {
	d := newFixture(t, 0)
	d.prompt("x")
	d.addLine(`{"type":"a","sessionId":"%s","forkedFrom":{"sessionId":"%s"},"text":"\"sessionId\":\"%s\""}`, d.session, d.session, d.session)
	d.addLine(`{ "sessionId" : "older" , "list":[{"sessionId":"%s"}],"type":"b"}`, d.session)
	d.addLine(`{"type":"c","sessionId":7}`)
	d.addLine(`broken "sessionId":"%s"`, d.session)
	d.answer("y")
	d.flush(t)
	src, err := d.c.Cut(context.Background(), d.capture(t, nil, nil).Position, d.target(), d.o)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(src.Path)
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Split(data, []byte("\n"))
	for i, want := range []string{
		`{"type":"a","sessionId":"` + secondSession + `","forkedFrom":{"sessionId":"` + firstSession + `"},"text":"\"sessionId\":\"` + firstSession + `\""}`,
		`{ "sessionId" : "` + secondSession + `" , "list":[{"sessionId":"` + firstSession + `"}],"type":"b"}`,
		`{"type":"c","sessionId":7}`,
		`broken "sessionId":"` + firstSession + `"`,
	} {
		if string(got[i+1]) != want {
			t.Errorf("line %d is\n%s\nwant\n%s", i+2, got[i+1], want)
		}
	}
}

func TestCutTimesAndModes(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(d.path, old, old); err != nil {
		t.Fatal(err)
	}
	p := d.capture(t, nil, nil).Position
	other := filepath.Join(d.home, "other")
	for i, c := range []struct {
		to     segno.Target
		behind bool
	}{
		{segno.Target{Dir: d.dir, Yield: true}, true},
		{segno.Target{Dir: d.dir}, false},
		{segno.Target{Dir: other, Yield: true}, false},
	} {
		c.to.Session = segno.SessionID(fmt.Sprintf("44444444-0000-4000-8000-%012d", i))
		src, err := d.c.Cut(ctx, p, c.to, d.o)
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(src.Path)
		if err != nil || fi.Mode() != 0o600 {
			t.Fatalf("mode %v, %v", fi.Mode(), err)
		}
		if want := old.Add(-time.Second); c.behind && !fi.ModTime().Equal(want) || !c.behind && fi.ModTime().Before(old.Add(time.Minute)) {
			t.Errorf("cut %d is of %v, the source of %v", i, fi.ModTime(), old)
		}
		if dir, err := os.Stat(filepath.Dir(src.Path)); err != nil || dir.Mode().Perm() != 0o700 {
			t.Errorf("directory mode %v, %v", dir.Mode(), err)
		}
	}
}

// TestCutOfAVeryLongLine cuts a session with a line of 12 MB in a turn.
func TestCutOfAVeryLongLine(t *testing.T) {
	d := newFixture(t, 1)
	d.prompt(strings.Repeat("a long line ", 1<<20) + "\" é \n")
	d.answer("read")
	d.turn("after")
	d.flush(t)
	got := d.capture(t, nil, nil)
	if err := os.Remove(d.path); err != nil {
		t.Fatal(err)
	}
	src, err := d.c.Cut(context.Background(), got.Position, d.target(), d.o)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(src.Path); err != nil || fi.Size() != got.Position.Offset {
		t.Fatalf("%v, %v", fi, err)
	}
}

// TestManyCaptures reads a log of many small captures back.
func TestManyCaptures(t *testing.T) {
	d := newFixture(t, 1)
	p := d.capture(t, nil, nil).Position
	for n := range 1000 {
		d.addLine(`{"type":"mode","mode":"%d","sessionId":"%s"}`, n, d.session)
		d.flush(t)
		p = d.capture(t, &p, nil).Position
	}
	want := d.bytes(t)
	if err := os.Remove(d.path); err != nil {
		t.Fatal(err)
	}
	src, err := d.c.Cut(context.Background(), p, d.target(), d.o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(src.Path); err != nil || len(got) != len(want) {
		t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}

// TestTraceNamesEverything cuts with only the objects that Trace named.
func TestTraceNamesEverything(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	d.sidecar(t, "tasks", "1.json", "one")
	d.sidecar(t, "session", "tool-results/long.txt", strings.Repeat("long ", 1<<19))
	p := d.capture(t, nil, nil).Position
	d.turn("three")
	d.flush(t)
	p = d.capture(t, &p, nil).Position
	kept := newMemoryObjects()
	err := d.c.Trace(ctx, p, d.o, func(h segno.Hash) bool {
		data, err := d.o.Get(ctx, h)
		if err != nil {
			t.Fatal(err)
		}
		kept.data[h] = data
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(d.home, "new")
	c := claude.New(home, claude.Options{})
	p.Path = ""
	src, err := c.Cut(ctx, p, d.target(), kept)
	if err != nil {
		t.Fatal(err)
	}
	long, err := os.ReadFile(filepath.Join(filepath.Dir(src.Path), secondSession, "tool-results/long.txt"))
	if err != nil || len(long) != 5<<19 {
		t.Fatalf("%d bytes of the sidecar, %v", len(long), err)
	}
	seen := 0
	err = d.c.Trace(ctx, p, d.o, func(segno.Hash) bool { seen++; return false })
	if err != nil || seen != 2 {
		t.Errorf("a trace of what is known looked at %d objects, %v", seen, err)
	}
}

func TestStoredBytesThatAreDamaged(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	p.Path, d.path = "", d.path+".gone"
	if err := os.Rename(strings.TrimSuffix(d.path, ".gone"), d.path); err != nil {
		t.Fatal(err)
	}
	d.o.corrupt(p.Log, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	_, err := d.c.Cut(ctx, p, d.target(), d.o)
	wantKind(t, err, segno.KindCorrupt)
}
