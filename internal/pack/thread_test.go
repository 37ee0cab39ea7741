package pack_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// machine is a computer with a store.
type machine struct {
	testing.TB
	dir   string
	store *local.Store
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	m := &machine{TB: t, dir: dir}
	m.reopen()
	t.Cleanup(func() { m.store.Close() })
	return m
}

func (m *machine) place() local.Place {
	return local.Place{Store: filepath.Join(m.dir, "store"), UserHome: m.dir, Homes: local.Homes{"claude": filepath.Join(m.dir, "claude")}, Now: time.Now}
}

// reopen opens the store as another process does.
func (m *machine) reopen() {
	m.Helper()
	if m.store != nil {
		must(m, m.store.Close())
	}
	var err error
	m.store, err = m.place().Open(m.Context())
	must(m, err)
}

func (m *machine) importer() *pack.Importer {
	return &pack.Importer{Store: m.store.Store, Register: m.store.Register, Open: func(rec segno.WorkspaceRecord) (segno.Workspace, error) {
		tl, err := m.store.Timeline(rec, nil)
		if err != nil {
			return nil, err
		}
		return tl.Workspace, nil
	}}
}

func (m *machine) timeline(dir string) *timeline.Timeline {
	m.Helper()
	rec, err := m.store.Find(m.Context(), dir)
	must(m, err)
	tl, err := m.store.Timeline(rec, nil)
	must(m, err)
	return tl
}

// packThread writes an archive of a whole thread.
func packThread(t testing.TB, s segno.Store, thread segno.ThreadID, o pack.Options) (string, *archive.Manifest) {
	t.Helper()
	state, cleanup, err := (&pack.Packer{Store: s, Temp: t.TempDir()}).ThreadState(t.Context(), thread, o)
	must(t, err)
	name := filepath.Join(t.TempDir(), "thread.ckpt")
	m, err := archive.Write(t.Context(), name, state, archive.WriteOptions{})
	must(t, err)
	must(t, cleanup())
	return name, m
}

// longThread returns a thread with three turns, files that no archive may have, and a pin. The third turn was undone
// and made again.
func longThread(t *testing.T) *fixture {
	f := newFixture(t)
	f.write(f.project, "a", "one\n")
	f.write(f.project, "sub/b", "b\n")
	f.write(f.project, ".env", "TOKEN=secret\n")
	f.write(f.project, ".claude/settings.json", "{}")
	must(t, os.Mkdir(filepath.Join(f.project, "empty"), 0o755))
	must(t, os.Symlink("a", filepath.Join(f.project, "link")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(f.project, "outside")))
	must(t, os.Link(filepath.Join(f.project, "a"), filepath.Join(f.project, "hard")))
	must(t, os.Chmod(filepath.Join(f.project, "sub/b"), 0o750))
	f.say("alpha")
	f.sidecars()
	f.checkpoint("t", func(c *segno.Checkpoint) { c.Prompt = "alpha" })
	f.write(f.project, "a", "two\n")
	f.say("beta")
	second := f.checkpoint("t", func(c *segno.Checkpoint) { c.Prompt = "beta"; c.Meta = map[string]string{"k": "v"} })
	f.write(f.project, "a", "three\n")
	f.say("gamma")
	f.checkpoint("t", nil)
	head, err := f.store.Head(t.Context(), "t")
	must(t, err)
	_, err = f.store.Commit(t.Context(), segno.Commit{ID: "move", Thread: "t", Expect: head.Head, Move: &segno.Move{Head: second, Tip: second}})
	must(t, err)
	f.write(f.project, "a", "four\n")
	f.say("delta")
	f.checkpoint("t", nil)
	head, err = f.store.Head(t.Context(), "t")
	must(t, err)
	entries := []segno.Entry{{Kind: segno.EntryNote, Turn: 4, Body: []byte(`{ "not": "compact" }`)}, {Kind: segno.EntryNote, Turn: 4, Body: []byte("\"\xff\"")}, {Kind: segno.EntryMessage, Turn: 4, Body: []byte(`"<b>"`)}}
	_, err = f.store.Commit(t.Context(), segno.Commit{ID: "entries", Thread: "t", Parent: head.Head, Expect: head.Head, Entries: entries,
		Move: &segno.Move{Head: second, Tip: segno.Self}})
	must(t, err)
	_, err = f.store.Commit(t.Context(), segno.Commit{ID: "pin", Thread: "t", Expect: second, Pin: &segno.Pin{Checkpoint: second, Name: "good"}})
	must(t, err)
	return f
}

// history describes a thread: every line with its files, entries and positions.
func history(t testing.TB, s segno.Store, thread segno.ThreadID) []string {
	t.Helper()
	var out []string
	names := map[segno.CommitID]string{"": "-"}
	head, err := s.Head(t.Context(), thread)
	must(t, err)
	ends := []segno.CommitID{head.Tip, head.Head}
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: thread}) {
		must(t, err)
		ends = append(ends, c.ID)
	}
	slices.Reverse(ends)
	for _, end := range ends {
		line, err := s.Load(t.Context(), end, segno.Window{Entries: true})
		must(t, err)
		for _, n := range line.Commits {
			if names[n.ID] != "" {
				continue
			}
			names[n.ID] = fmt.Sprint(len(names))
			text := names[n.ID] + " after " + names[n.Parent]
			if cp := n.Checkpoint; cp != nil {
				text += fmt.Sprintf(" %s t%d %q %v", cp.Kind, cp.Turn, cp.Prompt, cp.Meta)
				must(t, workspace.List(t.Context(), s.Objects(), *cp.Workspace, func(path string, e segno.Entity, _ time.Time) error {
					if !strings.HasPrefix(path, ".") && path != "outside" {
						text += fmt.Sprintf(" %s=%s,%o,%s,%s", path, e.Type, e.Mode, e.Hash, e.Target)
					}
					return nil
				}))
				text += fmt.Sprintf(" %s@%d %s", cp.Session.Leaf, cp.Session.Offset, cp.Session.SHA256)
			}
			for _, e := range n.Entries {
				text += fmt.Sprintf(" %s:%q", e.Kind, e.Body)
			}
			out = append(out, text)
		}
	}
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: thread, Pinned: true}) {
		must(t, err)
		out = append(out, "pin "+names[c.ID]+" "+c.Label)
	}
	return append(out, "head "+names[head.Head]+" tip "+names[head.Tip])
}

func TestAThreadMovesWithAllItsLines(t *testing.T) {
	f := longThread(t)
	name, manifest := packThread(t, f.store, "t", pack.Options{})
	again, _ := packThread(t, f.store, "t", pack.Options{})
	one, _ := os.ReadFile(name)
	if two, _ := os.ReadFile(again); string(one) != string(two) {
		t.Error("two archives of one thread differ")
	}
	for _, e := range manifest.Entries {
		if strings.HasSuffix(e.Path, segno.HashOf([]byte("TOKEN=secret\n")).String()) || strings.HasSuffix(e.Path, segno.HashOf([]byte("export TOKEN=1\n")).String()) {
			t.Errorf("the archive has a credential: %s", e.Path)
		}
	}
	r := f.open(name)
	m := newMachine(t)
	to := filepath.Join(m.dir, "elsewhere")
	if _, err := m.importer().Thread(t.Context(), r, pack.Into{Dir: to}); !errors.Is(err, segno.KindRefused) {
		t.Errorf("a foreign thread: %v", err)
	}
	into := pack.Into{Dir: to, TrustSession: true}
	got, err := m.importer().Thread(t.Context(), r, into)
	must(t, err)
	if got.Thread != "t" || got.Dir != to || got.Commits != 5 || got.WasComplete {
		t.Errorf("result %+v", got)
	}
	if diff := cmp.Diff(history(t, f.store, "t"), history(t, m.store, "t")); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
	want := map[string]string{"a": "two\n", "hard": "two\n", "sub/b": "b\n"}
	if diff := cmp.Diff(want, contents(t, to)); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	tl := m.timeline(to)
	now, err := tl.Snapshot(t.Context())
	must(t, err)
	line, err := m.store.Load(t.Context(), got.Head, segno.Window{Last: 1})
	must(t, err)
	if c := line.Commits[0].Checkpoint; c.Workspace.Tree != now.Tree || c.Workspace.Workspace != now.Workspace || c.Workspace.Files != now.Files || c.Workspace.Bytes != now.Bytes {
		t.Errorf("the directory is not the head's: %+v, %+v", c.Workspace, now)
	}

	// undo, redo, restore and fork work on the new machine, and the conversation continues.
	move := func(verb segno.Verb, ask timeline.MoveRequest, want string) *timeline.MoveResult {
		t.Helper()
		ask.Verb, ask.Thread = verb, "t"
		res, err := tl.Move(t.Context(), ask, nil)
		must(t, err)
		if data, _ := os.ReadFile(filepath.Join(to, "a")); string(data) != want {
			t.Errorf("after %s: %q", verb, data)
		}
		return res
	}
	res := move(segno.VerbUndo, timeline.MoveRequest{Turns: 1}, "one\n")
	if res.Link == nil || len(res.Run) == 0 {
		t.Errorf("no session continues after the undo: %+v, %s", res.Link, res.Chat)
	} else if data, _ := os.ReadFile(res.Link.Path); !strings.Contains(string(data), "alpha") || strings.Contains(string(data), "beta") {
		t.Errorf("the session: %s", data)
	}
	move(segno.VerbRedo, timeline.MoveRequest{Turns: 1}, "two\n")
	for c, err := range m.store.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: "t"}) {
		must(t, err)
		if c.Turn == 3 {
			move(segno.VerbRestore, timeline.MoveRequest{To: c.ID}, "three\n")
		}
	}
	fork, err := tl.Fork(t.Context(), timeline.MoveRequest{Verb: segno.VerbFork, To: got.Head, Dir: filepath.Join(m.dir, "fork")})
	must(t, err)
	if data, _ := os.ReadFile(filepath.Join(m.dir, "fork", "a")); string(data) != "two\n" || fork.Link == nil {
		t.Errorf("fork: %q, %+v", data, fork)
	}
	must(t, check(t, m))

	// Importing the same archive again changes nothing, and another directory gets no second copy.
	before := history(t, m.store, "t")
	got, err = m.importer().Thread(t.Context(), r, into)
	must(t, err)
	if !got.WasComplete || got.Thread != "t" {
		t.Errorf("the second time: %+v", got)
	}
	if diff := cmp.Diff(before, history(t, m.store, "t")); diff != "" {
		t.Errorf("the second time (-want +got):\n%s", diff)
	}
	other := filepath.Join(m.dir, "other")
	if _, err := m.importer().Thread(t.Context(), r, pack.Into{Dir: other, TrustSession: true}); !errors.Is(err, segno.KindConflict) {
		t.Errorf("in another directory: %v", err)
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("the refusal left a directory")
	}
}

func check(t testing.TB, m *machine) error {
	var found []error
	_, err := m.store.Check(t.Context(), segno.CheckPolicy{Trace: m.store.NewTrace()}, func(err error) bool {
		found = append(found, err)
		return true
	})
	return errors.Join(append(found, err)...)
}

// TestAThreadIdThatIsTaken imports a thread into the store that already has it. The import gets
// another id.
func TestAThreadIdThatIsTaken(t *testing.T) {
	f := longThread(t)
	name, _ := packThread(t, f.store, "t", pack.Options{})
	m := newMachine(t)
	_, err := m.store.Commit(t.Context(), segno.Commit{ID: "x", Thread: "t", Create: &segno.Thread{ID: "t"}, Entries: []segno.Entry{{Kind: segno.EntryNote}}})
	must(t, err)
	got, err := m.importer().Thread(t.Context(), f.open(name), pack.Into{Dir: filepath.Join(m.dir, "elsewhere"), TrustSession: true})
	must(t, err)
	if got.Thread == "t" || !strings.HasPrefix(string(got.Thread), "t-") {
		t.Errorf("thread %s", got.Thread)
	}
	if diff := cmp.Diff(history(t, f.store, "t"), history(t, m.store, got.Thread)); diff != "" {
		t.Errorf("the thread (-want +got):\n%s", diff)
	}
	// Deleted threads keep their ids.
	must(t, m.store.Delete(t.Context(), got.Thread))
	dir := filepath.Join(m.dir, "third")
	if _, err := m.importer().Thread(t.Context(), f.open(name), pack.Into{Dir: dir, TrustSession: true}); !errors.Is(err, segno.KindConflict) {
		t.Errorf("after it was deleted: %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the refusal left a directory")
	}
}

func TestPartsOfAThreadCanBeLeftOut(t *testing.T) {
	f := longThread(t)
	for _, o := range []pack.Options{{OmitSession: true}, {WorkspaceOnly: true}} {
		name, manifest := packThread(t, f.store, "t", o)
		r := f.open(name)
		var all strings.Builder
		for _, e := range manifest.Entries {
			must(t, r.ReadFile(e.Path, &all))
		}
		for _, word := range []string{sessionID, "delta", "compact"} {
			if strings.Contains(all.String(), word) {
				t.Errorf("%+v: the archive has %q", o, word)
			}
		}
		if strings.Contains(all.String(), f.project) && o.WorkspaceOnly || strings.Contains(all.String(), "beta") != !o.WorkspaceOnly {
			t.Errorf("%+v: prompts or paths", o)
		}
		m := newMachine(t)
		dir := filepath.Join(m.dir, "elsewhere")
		got, err := m.importer().Thread(t.Context(), r, pack.Into{Dir: dir, TrustSession: true})
		must(t, err)
		if got.Commits != 4 {
			t.Errorf("result %+v", got)
		}
		tl := m.timeline(dir)
		_, err = tl.Move(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Thread: "t", Turns: 1}, nil)
		must(t, err)
		if data, _ := os.ReadFile(filepath.Join(dir, "a")); string(data) != "one\n" {
			t.Errorf("after undo: %q", data)
		}
	}
}

// TestASecretAcrossTwoObjects has a secret that begins in one stored object of the transcript and
// ends in the next.
func TestASecretAcrossTwoObjects(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "a", "a")
	secret := "ghp_" + strings.Repeat("a1B2c3D4e5F6", 3)
	f.say(strings.Repeat("x ", 1<<20))
	data, err := os.ReadFile(f.transcript())
	must(t, err)
	const border = 1 << 20
	copy(data[border-20:], " "+secret+" ")
	must(t, os.WriteFile(f.transcript(), data, 0o600))
	f.checkpoint("t", nil)
	state, cleanup, err := (&pack.Packer{Store: f.store, Temp: t.TempDir()}).ThreadState(t.Context(), "t", pack.Options{})
	must(t, err)
	defer func() { must(t, cleanup()) }()
	name := filepath.Join(t.TempDir(), "thread.ckpt")
	_, err = archive.Write(t.Context(), name, state, archive.WriteOptions{})
	var found *archive.CheckpointSecretError
	if !errors.As(err, &found) {
		t.Fatalf("error %v", err)
	}
	state.Agents[0].Scanned = nil
	if _, err = archive.Write(t.Context(), name, state, archive.WriteOptions{}); err != nil {
		t.Errorf("the objects alone: %v", err)
	}
}

// TestASecretAcrossObjectsOfTwoFiles has two files with the same beginning. Only the second
// continues with the rest of a secret.
func TestASecretAcrossObjectsOfTwoFiles(t *testing.T) {
	f := newFixture(t)
	f.say("alpha")
	const border = 1 << 20
	beginning := strings.Repeat("out\n", border/4)[:border-21] + " ghp_a1B2c3D4e5F6a1B2"
	for name, rest := range map[string]string{"x": "!\n", "y": "c3D4e5F6a1B2c3D4e5F6\n"} {
		f.write(filepath.Dir(f.transcript()), sessionID+"/tool-results/"+name+".txt", beginning+rest)
	}
	f.checkpoint("t", nil)
	state, cleanup, err := (&pack.Packer{Store: f.store, Temp: t.TempDir()}).ThreadState(t.Context(), "t", pack.Options{})
	must(t, err)
	defer func() { must(t, cleanup()) }()
	_, err = archive.Write(t.Context(), filepath.Join(t.TempDir(), "thread.ckpt"), state, archive.WriteOptions{})
	if !errors.As(err, new(*archive.CheckpointSecretError)) {
		t.Errorf("error %v", err)
	}
}
