package gemini_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/gemini"
)

const (
	// recorded is the session in testdata, which Gemini CLI 0.61.0 wrote and resumed once.
	recorded = "bf8d1258-ea77-418e-b0b3-d86d8cd20fb9"
	// first and second are the ids of its prompts.
	first, second = "137dd6bc-a1be-4154-ae57-3537815c1e31", "a740b14c-61b1-4fd4-8b87-1080911f829d"

	cutID = "11111111-0000-4000-8000-000000000001"
	dir   = "/srv/api"
)

// home is a directory of Gemini CLI and a store.
type home struct {
	testing.TB
	dir   string
	c     *gemini.Transcripts
	store *memory.Store
}

// newHome makes a home with the recorded session and more lines behind it.
func newHome(t testing.TB, more ...string) *home {
	t.Helper()
	h := &home{TB: t, dir: filepath.Join(t.TempDir(), ".gemini"), store: memory.New(nil)}
	t.Cleanup(func() { _ = h.store.Close() })
	h.c = gemini.New(h.dir, gemini.Options{})
	lines, err := os.ReadFile(filepath.Join("testdata", "session.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	h.write("tmp/api/.project_root", dir)
	h.write("tmp/api/chats/session-2026-11-23T01-44-bf8d1258.jsonl", string(lines)+strings.Join(more, ""))
	return h
}

func (h *home) write(name, content string) string {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.Fatal(err)
	}
	return path
}

// capture captures a session and makes its objects durable.
func (h *home) capture(id segno.SessionID, prev *segno.Position) segno.Captured {
	h.Helper()
	ctx := context.Background()
	b := h.store.Objects().Batch()
	defer b.Close()
	got, err := h.c.CaptureTurns(ctx, segno.Source{Session: id}, prev, nil, h.store.Objects(), b, nil)
	if err != nil {
		h.Fatal(err)
	}
	staged, err := b.Stage(ctx)
	if err == nil {
		err = h.store.Objects().Keep(ctx, staged)
	}
	if err != nil {
		h.Fatal(err)
	}
	return got
}

func (h *home) read(path string) []byte {
	h.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		h.Fatal(err)
	}
	return data
}

// TestRecordedSession reads, cuts and restores the recorded session at each turn.
func TestRecordedSession(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	src, err := h.c.Find(ctx, recorded)
	if err != nil || src.Dir != dir {
		t.Fatalf("%+v, %v", src, err)
	}
	var listed []transcript.SessionFile
	for f, err := range h.c.Sessions(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, f)
	}
	if len(listed) != 1 || listed[0].Session != recorded {
		t.Fatalf("listed %+v", listed)
	}
	header, err := h.c.Header(ctx, listed[0], 1<<20)
	if header.End == 0 || header.End > listed[0].Bytes {
		t.Errorf("the conversation ends at %d of %d bytes", header.End, listed[0].Bytes)
	}
	header.End = 0
	if diff := cmp.Diff(transcript.SessionHeader{Dir: dir, Title: "please do it", Turns: 2, FromOthers: true}, header); err != nil || diff != "" {
		t.Errorf("header: %v %s", err, diff)
	}

	got := h.capture(recorded, nil)
	if len(got.Earlier) != 1 || got.Earlier[0].Position.Leaf != first || got.Position.Leaf != second || got.Text != "again please" || got.Follows != first {
		t.Fatalf("captured %+v", got)
	}
	source := h.read(src.Path)
	for i, p := range []segno.Position{got.Earlier[0].Position, got.Position} {
		isEnd, err := h.c.EndsAt(ctx, src, p)
		if err != nil || isEnd != (i == 1) {
			t.Errorf("turn %d ends the session: %t, %v", i+1, isEnd, err)
		}
		id := segno.SessionID(fmt.Sprintf("%08d-0000-4000-8000-000000000001", i+1))
		cut, err := h.c.Cut(ctx, p, segno.Target{Session: id, Dir: "/srv/other"}, h.store.Objects())
		if err != nil {
			t.Fatal(err)
		}
		if owner := h.read(filepath.Join(h.dir, "tmp", "other", ".project_root")); string(owner) != "/srv/other" {
			t.Errorf("the directory belongs to %q", owner)
		}
		lines := h.read(cut.Path)
		if !bytes.Contains(lines, afterFirstLine(source[:p.Offset])) || bytes.Count(lines, []byte(id)) != 2 {
			t.Errorf("turn %d was cut to %s", i+1, lines)
		}
		at := h.capture(id, nil)
		if at.Position.Leaf != p.Leaf || at.Position.Dir != "/srv/other" {
			t.Errorf("the cut ends at %+v", at.Position)
		}
	}
	if !bytes.Equal(source, h.read(src.Path)) {
		t.Error("the source changed")
	}

	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	back, err := h.c.Restore(ctx, got.Position, dir, h.store.Objects())
	if err != nil || !bytes.Equal(source, h.read(back.Path)) || back.Session != recorded {
		t.Errorf("restored %+v, %v", back, err)
	}
	if _, err := h.c.Restore(ctx, got.Position, dir, h.store.Objects()); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("restored over a session: %v", err)
	}
}

func afterFirstLine(lines []byte) []byte {
	_, rest, _ := bytes.Cut(lines, []byte("\n"))
	return rest
}

// TestNewTurnsOnly captures a session that continues, and a session that the user rewound.
func TestNewTurnsOnly(t *testing.T) {
	h := newHome(t)
	before := h.capture(recorded, nil).Position
	user := func(id, text string) string {
		return fmt.Sprintf("{\"id\":%q,\"type\":\"user\",\"content\":[{\"text\":%q}]}\n", id, text)
	}
	const answer = `{"id":"answer","type":"gemini","content":"ok"}` + "\n"
	for name, test := range map[string]struct {
		more, leaf, prompt, follows string
		earlier                     int
	}{
		"nothing":   {"{\"$set\":{\"lastUpdated\":\"x\"}}\n", second, "", "", 0},
		"one turn":  {user("third", "more") + answer, "third", "more", second, 0},
		"two turns": {user("third", "more") + answer + user("fourth", "most") + answer, "fourth", "most", second, 1},
		"rewound":   {fmt.Sprintf("{\"$rewindTo\":%q}\n", second) + user("third", "else") + answer, "third", "else", first, 0},
		"emptied":   {"{\"$rewindTo\":\"unknown\"}\n" + user("third", "new"), "third", "new", "", 0},
		"commands":  {user("third", "/help") + user("fourth", "<hook_context>x"), second, "", "", 0},
		"torn":      {user("third", "more") + strings.TrimSuffix(answer, "\n"), "third", "more", second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, test.more)
			whole := h.capture(recorded, nil)
			_ = h.capture(recorded, &before)
			got := h.capture(recorded, &before)
			if got.Position.Leaf != test.leaf || got.Text != test.prompt || got.Follows != test.follows || len(got.Earlier) != test.earlier {
				t.Errorf("captured %+v", got)
			}
			if got.Position.SHA256 != whole.Position.SHA256 {
				t.Error("an incremental capture and a whole one differ")
			}
		})
	}
}

// TestHostileFiles puts files that are not sessions beside the session. The reader follows none of them and does not
// block.
func TestHostileFiles(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	outside := filepath.Join(t.TempDir(), "outside.jsonl")
	if err := os.WriteFile(outside, []byte("{\"sessionId\":\""+cutID+"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	chats := filepath.Join(h.dir, "tmp", "api", "chats")
	for name, make := range map[string]func(path string) error{
		"session-1-11111111.jsonl": func(p string) error { return os.Symlink(outside, p) },
		"session-2-22222222.jsonl": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"session-3-33333333.jsonl": func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 1<<20)), 0o600) },
		"session-4-44444444.jsonl": func(p string) error { return os.WriteFile(p, []byte("{\"sessionId\":\"../../x\"}\n"), 0o600) },
		"session-5-bf8d1258.jsonl": func(p string) error {
			return os.WriteFile(p, []byte("{\"sessionId\":\""+recorded+"\"}\n"), 0o600)
		},
	} {
		if err := make(filepath.Join(chats, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(h.dir, "tmp", "linked")); err != nil {
		t.Fatal(err)
	}
	found, failed := 0, 0
	for f, err := range h.c.Sessions(ctx) {
		if err != nil {
			failed++
		} else if found++; f.Session != recorded || f.Bytes < 1000 {
			t.Errorf("listed %+v", f)
		}
	}
	if found != 1 || failed != 4 {
		t.Errorf("%d sessions and %d errors", found, failed)
	}
	if got := h.capture(recorded, nil); got.Position.Leaf != second {
		t.Errorf("captured %+v", got.Position)
	}
	if _, err := h.c.Find(ctx, cutID); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("found a session behind a link: %v", err)
	}
	for _, id := range []segno.SessionID{"", "-x", "../x", segno.SessionID(strings.Repeat("a", 500))} {
		if _, err := h.c.Find(ctx, id); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("found %q: %v", id, err)
		}
	}
}

// TestProjects cuts into directories whose project names are already in use.
func TestProjects(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	p := h.capture(recorded, nil).Position
	h.write("projects.json", `{"projects":{"/known/api":"known","/stolen":"api","/x/taken":"taken"}}`)
	for i, test := range []struct{ dir, project string }{
		{dir, "api"}, {"/else/api", "api-1"}, {"/known/api", "known"}, {"/stolen", "stolen"}, {"/y/taken", "taken-1"}, {"/", "project"}, {"/srv/My Projekt (2)", "my-projekt-2"},
	} {
		src, err := h.c.Cut(ctx, p, segno.Target{Session: segno.SessionID(fmt.Sprintf("%08d-0000-4000-8000-000000000001", i)), Dir: test.dir}, h.store.Objects())
		if err != nil || filepath.Base(filepath.Dir(filepath.Dir(src.Path))) != test.project {
			t.Errorf("%s: %s, %v", test.dir, src.Path, err)
		}
	}
}

// TestRetention reads the age at which Gemini CLI deletes a session.
func TestRetention(t *testing.T) {
	for settings, want := range map[string]string{
		"":  "720h0m0s",
		"{": "720h0m0s",
		`{"general":{"sessionRetention":{"maxAge":"2w"}}}`:      "336h0m0s",
		`{"general":{"sessionRetention":{"maxAge":"-3d"}}}`:     "720h0m0s",
		`{"general":{"sessionRetention":{"enabled":false}}}`:    "none",
		`{"general":{"sessionRetention":{"maxAge":"forever"}}}`: "720h0m0s",
	} {
		h := newHome(t)
		h.write("settings.json", settings)
		age, ok := h.c.Retention()
		if got := age.String(); ok && got != want || !ok && want != "none" {
			t.Errorf("%s: %s, %t", settings, got, ok)
		}
	}
}

// TestCutFaults fails each write of a cut. A session appears whole or not at all.
func TestCutFaults(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	p := h.capture(recorded, nil).Earlier[0].Position
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		to := filepath.Join(t.TempDir(), ".gemini")
		_, err := gemini.New(to, gemini.Options{FS: faults.Wrap(vfs.OS)}).Cut(ctx, p, segno.Target{Session: cutID, Dir: dir}, h.store.Objects())
		if !faults.Fired() {
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			return
		}
		if err == nil {
			t.Errorf("the failure of operation %d (%s) was not reported", n, faults.Trace()[n])
		}
		whole := gemini.New(to, gemini.Options{})
		src, err := whole.Find(ctx, cutID)
		if segno.KindOf(err) == segno.KindNotFound {
			if src, err = whole.Cut(ctx, p, segno.Target{Session: cutID, Dir: dir}, h.store.Objects()); err != nil {
				t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
				continue
			}
		}
		for line := range bytes.Lines(h.read(src.Path)) {
			if !json.Valid(line) {
				t.Errorf("after operation %d the session has the line %q", n, line)
			}
		}
	}
}

// FuzzCapture captures any file in two steps and cuts it. No byte behind the first line is lost or
// changed.
func FuzzCapture(f *testing.F) {
	lines, err := os.ReadFile(filepath.Join("testdata", "session.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(lines, 4000)
	f.Add([]byte("{\"sessionId\":\""+recorded+"\"}\n{\"id\":\"a\",\"type\":\"user\",\"content\":\"x\"}\n{\"$rewindTo\":\"a\"}\n\xff\n{"), 60)
	f.Add([]byte("{\"sessionId\":\""+recorded+"\"}\n{\"id\":\"a\",\"type\":\"user\",\"content\":{\"text\":\"x\"}}\n{\"$set\":{\"messages\":[]}}\n{\"id\":\"b\",\"type\":\"gemini\"}\n"), 0)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		h, ctx := newHome(t), context.Background()
		name := "tmp/api/chats/session-2026-11-23T01-44-bf8d1258.jsonl"
		h.write(name, string(data[:max(0, min(at, len(data)))]))
		src := segno.Source{Session: recorded}
		if _, err := h.c.Find(ctx, recorded); err != nil {
			return
		}
		prev := h.capture(recorded, nil).Position
		h.write(name, string(data))
		got, err := h.c.Capture(ctx, src, &prev, h.store.Objects().Batch(), nil)
		if err != nil {
			t.Fatal(err)
		}
		whole := h.capture(recorded, nil)
		if whole.Position.SHA256 != got.Position.SHA256 || whole.Position.Leaf != got.Position.Leaf || int(whole.Position.Offset) != bytes.LastIndexByte(data, '\n')+1 {
			t.Fatalf("%+v, whole %+v", got.Position, whole.Position)
		}
		if whole.Position.Leaf == "" {
			return
		}
		cut, err := h.c.Cut(ctx, whole.Position, segno.Target{Session: cutID, Dir: dir}, h.store.Objects())
		if err != nil {
			t.Fatal(err)
		}
		if have := h.read(cut.Path); !bytes.Contains(have, afterFirstLine(data[:whole.Position.Offset])) {
			t.Fatalf("%q was cut to %q", data, have)
		}
		if again := h.capture(cutID, nil); again.Position.Leaf != whole.Position.Leaf {
			t.Fatalf("the cut ends at %+v, not at %+v", again.Position, whole.Position)
		}
	})
}

// TestEndsAtSeesWhatTheModelSees changes the conversation behind a turn without a new prompt. A session that Gemini CLI only resumed
// still ends at the turn.
func TestEndsAtSeesWhatTheModelSees(t *testing.T) {
	ctx := context.Background()
	lines := bytes.SplitAfter(newHome(t).read(filepath.Join("testdata", "session.jsonl")), []byte("\n"))
	resumed := string(bytes.Join(lines[11:15], nil))
	for _, c := range []struct {
		what, more string
		ends       bool
	}{
		{"nothing", "", true},
		{"resumed", resumed, true},
		{"went back into the answer", `{"$rewindTo":"1b9f8818-6a57-4bea-8880-03fab8bc435e"}` + "\n", false},
		{"messages replaced", `{"$set":{"messages":[{"id":"a740b14c-61b1-4fd4-8b87-1080911f829d"}]}}` + "\n", false},
	} {
		h := newHome(t)
		src, err := h.c.Find(ctx, recorded)
		if err != nil {
			t.Fatal(err)
		}
		p := h.capture(recorded, nil).Position
		if c.what == "resumed" { // as it was after the first turn
			p = h.capture(recorded, nil).Earlier[0].Position
			h.write("tmp/api/chats/session-2026-11-23T01-44-bf8d1258.jsonl", string(bytes.Join(lines[:11], nil))+c.more)
		} else {
			h.write("tmp/api/chats/session-2026-11-23T01-44-bf8d1258.jsonl", string(bytes.Join(lines, nil))+c.more)
		}
		if ends, err := h.c.EndsAt(ctx, src, p); err != nil || ends != c.ends {
			t.Errorf("%s: the session ends at the turn: %t, %v", c.what, ends, err)
		}
	}
}

// TestEndsAtOtherBytes replaces a word of the conversation by another one of the same length. Gemini CLI would continue
// another conversation than that of the position.
func TestEndsAtOtherBytes(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	p := h.capture(recorded, nil).Position
	before := h.read(p.Path)
	after := bytes.Replace(before, []byte("please do it"), []byte("please do IT"), 1)
	if bytes.Equal(before, after) {
		t.Fatal("the prompt is not in the file")
	}
	for _, test := range []struct {
		content []byte
		want    bool
	}{{before, true}, {after, false}} {
		if err := os.WriteFile(p.Path, test.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := h.c.EndsAt(ctx, segno.Source{Session: recorded, Path: p.Path}, p); err != nil || got != test.want {
			t.Errorf("ends at the position: %t, %v; want %t", got, err, test.want)
		}
	}
}

// TestManyMessages reads a session with so many messages that the test would take very long with a slow algorithm.
func TestManyMessages(t *testing.T) {
	const messages = 400_000
	var more strings.Builder
	for n := range messages {
		fmt.Fprintf(&more, `{"id":"message-%d","type":"gemini"}`+"\n", n)
	}
	fmt.Fprintf(&more, `{"$rewindTo":"message-%d"}`+"\n", messages-2)
	more.WriteString(`{"id":"again","type":"user","content":"again"}` + "\n")
	h := newHome(t, more.String())
	path := filepath.Join(h.dir, "tmp/api/chats/session-2026-11-23T01-44-bf8d1258.jsonl")
	header, err := h.c.Header(t.Context(), transcript.SessionFile{Session: recorded, Path: path}, 1<<30)
	if err != nil || header.Turns != 3 {
		t.Errorf("%+v, %v", header, err)
	}
}
