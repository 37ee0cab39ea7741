package chat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/memdir"
)

func TestMain(m *testing.M) {
	memdir.Use()
	goleak.VerifyTestMain(m)
}

// desk is a store on disk, with directories.
type desk struct {
	*testing.T
	store *local.Store
	home  string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	home := t.TempDir()
	place, err := local.FindPlace(func(name string) string { return map[string]string{"HOME": home}[name] }, filepath.Join(home, "store"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &desk{t, store, home}
}

// open opens a session in a directory.
func (d *desk) open(dir, session string) (*chat.Chat, error) {
	d.Helper()
	dir = filepath.Join(d.home, dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		d.Fatal(err)
	}
	rec, err := d.store.Register(d.Context(), dir)
	if err != nil {
		d.Fatal(err)
	}
	site, err := d.store.Timeline(rec, nil)
	if err != nil {
		d.Fatal(err)
	}
	c, err := chat.Open(d.Context(), chat.Config{Model: offline.New(), Store: d.store, Timeline: site, Dir: dir, Session: session, Actor: "ann"})
	if err == nil {
		d.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (d *desk) chat(dir, session string) *chat.Chat {
	d.Helper()
	c, err := d.open(dir, session)
	if err != nil {
		d.Fatal(err)
	}
	return c
}

// say makes a turn and returns the answer.
func (d *desk) say(c *chat.Chat, prompt string) (answer string) {
	d.Helper()
	for e, err := range c.Stream(d.Context(), agent.Input{Prompt: prompt}) {
		if err != nil {
			d.Fatalf("%q: %v", prompt, err)
		}
		if e.Kind == agent.EventDone {
			answer = e.Text
		}
	}
	return answer
}

// do runs a command and returns its reply.
func (d *desk) do(c *chat.Chat, line string) string {
	d.Helper()
	r, err := c.Command(d.Context(), line)
	if err != nil {
		d.Fatalf("%s: %v", line, err)
	}
	return r.Text
}

func (d *desk) refused(err error, kind segno.Kind, text string) {
	d.Helper()
	if segno.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		d.Errorf("the error is %v, want %v with %q", err, kind, text)
	}
}

func (d *desk) file(c *chat.Chat, name, want string) {
	d.Helper()
	got, err := os.ReadFile(filepath.Join(c.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		d.Fatal(err)
	}
	if string(got) != want {
		d.Errorf("%s has %q, want %q", name, got, want)
	}
}

func TestClearKeepsOnlyFiles(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	d.say(c, "write a.txt: one\nremember x is 1\ntodo tidy up")
	d.say(c, "run echo never")
	d.do(c, "/session clear")
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Messages != 0 || s.Todos != 0 || len(s.Interrupts) != 0 || s.Phase == agent.PhaseBrokenOff {
		t.Errorf("after clear it stands at %+v", s)
	}
	d.file(c, "a.txt", "one")
	if got := d.say(c, "recall x"); got != "I do not know x." {
		t.Errorf("it says %q", got)
	}
	d.say(c, "write a.txt: two")
	d.do(c, "/undo")
	d.file(c, "a.txt", "one")
	d.do(c, "/undo 2")
	d.file(c, "a.txt", "one")
	if s, err = c.Status(t.Context()); err != nil || s.Todos != 1 || len(s.Interrupts) != 1 {
		t.Errorf("clear undone, it stands at %+v, %v", s, err)
	}
	d.do(c, "/undo")
	if got := d.say(c, "recall x"); got != "x is 1" {
		t.Errorf("it says %q", got)
	}
}

func TestUndoAndRedoMoveTheFiles(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	d.say(c, "write a.txt: one")
	d.say(c, "write a.txt: two")
	d.do(c, "/session save two")
	d.say(c, "write a.txt: three\nwrite b.txt: new")
	d.do(c, "/undo 2")
	d.file(c, "a.txt", "one")
	d.file(c, "b.txt", "")
	d.do(c, "/redo")
	d.file(c, "a.txt", "two")
	d.do(c, "/redo")
	d.file(c, "b.txt", "new")
	d.do(c, "/session load two")
	d.file(c, "a.txt", "two")
	_, err := c.Command(t.Context(), "/undo 9")
	d.refused(err, segno.KindNotFound, "undo")
}

func TestSessionsKeepApart(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "a/b")
	d.say(c, "remember x is 1")
	names := []string{"a/b", "a_b", "a:b", "日本", "中国", "a=b", " a b", "..", "a/b/"}
	for _, name := range names[1:] {
		c := d.chat("p", name)
		if got := d.say(c, "recall x"); got != "I do not know x." {
			t.Errorf("%q knows %q of a/b", name, got)
		}
	}
	all, err := c.Sessions(t.Context())
	if err != nil || len(all) != len(names) {
		t.Errorf("there are %d sessions of %d, %v: %+v", len(all), len(names), err, all)
	}
	for _, s := range all {
		if s.Updated.IsZero() || s.Step == 0 || s.Title == "" {
			t.Errorf("the list tells too little: %+v", s)
		}
	}
	_, err = d.open("q", "a/b")
	d.refused(err, segno.KindRefused, "the session belongs to "+filepath.Join(d.home, "p"))
	if _, err = d.open("p", ""); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a session without a name: %v", err)
	}
	if _, err := d.store.Commit(t.Context(), segno.Commit{ID: "c1", Thread: "theirs", Create: &segno.Thread{ID: "theirs", Agent: "claude"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}); err != nil {
		t.Fatal(err)
	}
	_, err = d.open("p", "theirs")
	d.refused(err, segno.KindRefused, "the name belongs to a thread of claude")
}

func TestSavedNamesAndForks(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	if _, err := c.Command(t.Context(), "/fork"); err == nil {
		t.Error("a session that is not there was forked")
	}
	d.say(c, "remember x is 1")
	d.do(c, "/session save good")
	d.say(c, "remember x is 2")
	_, err := c.Command(t.Context(), "/session save good")
	d.refused(err, segno.KindConflict, "another checkpoint of the thread has this name")
	d.do(c, "/fork")
	if c.Session != "s-2" {
		t.Errorf("the fork is called %q", c.Session)
	}
	d.say(c, "remember x is 3")
	_, err = d.open("q", "s-2")
	d.refused(err, segno.KindRefused, "the session belongs to")
	_, err = c.Command(t.Context(), "/fork s")
	d.refused(err, segno.KindConflict, "a session with this name exists already")
	_, err = c.Command(t.Context(), "/session new s")
	d.refused(err, segno.KindConflict, "a session with this name exists already")
	d.do(c, "/session load good") // loads the other session
	if got := d.say(c, "recall x"); c.Session != "s" || got != "x is 1" {
		t.Errorf("%s says %q", c.Session, got)
	}
	d.do(c, "/session load s-2")
	if got := d.say(c, "recall x"); got != "x is 3" {
		t.Errorf("the fork says %q", got)
	}
}

// TestTwoProcessesOnOneSession starts a run while another one is in the middle of a step of
// the same session. The new run gets an error, and nothing is lost.
func TestTwoProcessesOnOneSession(t *testing.T) {
	d := newDesk(t)
	one, two := d.chat("p", "s"), d.chat("p", "s")
	d.say(one, "remember x is 1")
	for e, err := range one.Stream(t.Context(), agent.Input{Prompt: "write a.txt: one"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != "step-start" {
			continue
		}
		for _, err := range two.Stream(t.Context(), agent.Input{Prompt: "write a.txt: two"}) {
			if err != nil {
				d.refused(err, segno.KindConflict, "another process is running this session")
			}
		}
		if s, err := two.Status(t.Context()); err != nil || s.Phase != agent.PhaseRunning || s.Phase == agent.PhaseBrokenOff {
			t.Errorf("under a run it stands at %+v, %v", s, err)
		}
		_, err = two.Command(t.Context(), "/session clear")
		d.refused(err, segno.KindConflict, "another process is running this session")
		if _, err = two.Command(t.Context(), "/undo"); err == nil {
			t.Error("a session was moved under a run")
		}
	}
	d.file(one, "a.txt", "one")
	if got := d.say(two, "count"); got != "7 messages" {
		t.Errorf("it says %q", got)
	}
}

// TestNamesOfCheckpoints moves to checkpoints by each form of a name.
func TestNamesOfCheckpoints(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	for _, text := range []string{"one", "two", "three"} {
		d.say(c, "write a.txt: "+text)
	}
	for _, x := range []struct{ name, want string }{{"t1", "one"}, {"latest", "three"}, {"@-", "two"}, {"@-", "one"}, {"t3", "three"}, {"@--", "one"}, {"@", "one"}, {"t2", "two"}} {
		d.do(c, "/restore "+x.name)
		if got, err := os.ReadFile(filepath.Join(c.Dir, "a.txt")); err != nil || string(got) != x.want {
			t.Errorf("/restore %s: a.txt has %q, %v, want %q", x.name, got, err, x.want)
		}
	}
	d.say(c, "write a.txt: other") // t4, on a line beside t3
	d.do(c, "/restore t3")
	d.file(c, "a.txt", "three")
	for _, name := range []string{"t9", "@-----------", "t0x", "@x"} {
		_, err := c.Command(t.Context(), "/restore "+name)
		d.refused(err, segno.KindNotFound, name)
	}
	d.do(c, "/restore latest-")
	d.file(c, "a.txt", "two")
	d.do(c, "/restore t0")
	d.file(c, "a.txt", "")
	d.do(c, "/restore t2")
	d.do(c, "/fork")
	d.do(c, "/restore t1") // of the session that was forked
	d.file(c, "a.txt", "one")
}

// TestMoveListsUnchangedFiles undoes a turn that wrote files that are not saved.
func TestMoveListsUnchangedFiles(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	d.say(c, "say begin")
	d.say(c, "write a.txt: one")
	huge := filepath.Join(c.Dir, "huge.bin")
	if err := os.WriteFile(huge, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 65<<20); err != nil {
		t.Fatal(err)
	}
	d.say(c, "write b.txt: two")
	if said := d.do(c, "/restore t1"); !strings.Contains(said, "\n  = huge.bin  protected: ") {
		t.Errorf("it says %q", said)
	}
	d.file(c, "a.txt", "")
}

// TestFilesOfASession counts the files that the session's line has written, including those
// from before a fork.
func TestFilesOfASession(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	d.say(c, "write a.txt: one")
	d.say(c, "write b.txt: two")
	if said := d.do(c, "/fork idea"); !strings.Contains(said, "2 files") {
		t.Errorf("it says %q", said)
	}
	d.do(c, "/undo")
	if s, err := c.Status(t.Context()); err != nil || s.Files != 1 {
		t.Errorf("after undo it has %d files, %v", s.Files, err)
	}
}

// TestADirectoryThatIsReplaced checks that the chat does not work in a replaced directory.
func TestADirectoryThatIsReplaced(t *testing.T) {
	d := newDesk(t)
	c := d.chat("p", "s")
	d.say(c, "write a.txt: one")
	if err := os.Rename(c.Dir, c.Dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	for _, stands := range []string{"gone", "replaced"} {
		if stands == "replaced" {
			if err := os.Mkdir(c.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range c.Stream(t.Context(), agent.Input{Prompt: "write b.txt: two"}) {
			d.refused(err, segno.KindRefused, "moved or replaced")
		}
		_, err := c.Command(t.Context(), "/undo")
		d.refused(err, segno.KindRefused, "moved or replaced")
	}
	if left, err := os.ReadDir(c.Dir + "-moved"); err != nil || len(left) != 1 {
		t.Errorf("the old directory has %v, %v", left, err)
	}
}
