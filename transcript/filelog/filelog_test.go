package filelog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript/filelog"
)

func TestMain(m *testing.M) {
	memdir.Use()
	os.Exit(m.Run())
}

const id = "0c5ab1f2-6a6e-4f0e-9d0a-1b2c3d4e5f60"

// rig is a conversation and a store for its captures.
type rig struct {
	*testing.T
	dir   string
	store *memory.Store
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, dir: filepath.Join(t.TempDir(), "conversation"), store: memory.New(nil)}
	t.Cleanup(func() { r.store.Close() })
	return r
}

// say adds a message of the user and an answer to the conversation in dir.
func (r *rig) say(dir, prompt string) {
	r.Helper()
	s, err := file.Open(r.Context(), dir, file.Options{})
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	head, err := s.Head(r.Context(), id)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		r.Fatal(err)
	}
	text, err := json.Marshal(prompt)
	if err != nil {
		r.Fatal(err)
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: id, Parent: head.Head, Expect: head.Head,
		Entries: []segno.Entry{{Kind: segno.EntryMessage, Name: "user", Turn: 1, Body: text}, {Kind: segno.EntryMessage, Name: "agent", Turn: 1, Body: text}}}
	if head.Head == "" {
		c.Create = &segno.Thread{ID: id}
	}
	if _, err := s.Commit(r.Context(), c); err != nil {
		r.Fatal(err)
	}
}

// capture saves the conversation in the store.
func (r *rig) capture(prev *segno.Position) segno.Captured {
	r.Helper()
	t := filelog.New(r.dir, nil)
	src, err := t.Find(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	batch := r.store.Objects().Batch()
	defer batch.Close()
	got, err := t.Capture(r.Context(), src, prev, batch, nil)
	if err != nil {
		r.Fatal(err)
	}
	staged, err := batch.Stage(r.Context())
	if err == nil {
		err = r.store.Objects().Keep(r.Context(), staged)
	}
	if err != nil {
		r.Fatal(err)
	}
	return got
}

// prompts reads the conversation in dir as its store does.
func (r *rig) prompts(dir string) (all []string) {
	r.Helper()
	s, err := file.Open(r.Context(), dir, file.Options{})
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	head, err := s.Head(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	line, err := s.Load(r.Context(), head.Head, segno.Window{Entries: true})
	if err != nil {
		r.Fatal(err)
	}
	for _, n := range line.Commits {
		for _, e := range n.Entries {
			if e.Name == "user" {
				all = append(all, string(e.Body))
			}
		}
	}
	return all
}

// TestCut cuts a conversation at its first turn into another store, where it continues. The file of the first
// conversation is deleted, so the bytes come from the objects.
func TestCut(t *testing.T) {
	r := newRig(t)
	r.say(r.dir, "one")
	first := r.capture(nil)
	r.say(r.dir, "two")
	second := r.capture(&first.Position)
	if first.Text != "one" || second.Text != "two" || second.Position.Offset <= first.Position.Offset || second.Follows != first.Position.Leaf {
		t.Errorf("the captures are %+v and %+v", first, second)
	}
	here := filelog.New(r.dir, nil)
	src, err := here.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for want, p := range map[bool]segno.Position{false: first.Position, true: second.Position} {
		if is, err := here.EndsAt(t.Context(), src, p); is != want || err != nil {
			t.Errorf("it ends at %d: %v, %v", p.Offset, is, err)
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "cut")
	for range 2 { // repeating the cut changes nothing
		if _, err := filelog.New(to, nil).Cut(t.Context(), first.Position, segno.Target{Session: id, Dir: "/dir"}, r.store.Objects()); err != nil {
			t.Fatal(err)
		}
	}
	r.say(to, "three")
	if got := r.prompts(to); len(got) != 2 || got[0] != `"one"` || got[1] != `"three"` {
		t.Errorf("the conversation has %q", got)
	}
	_, err = filelog.New(to, nil).Cut(t.Context(), second.Position, segno.Target{Session: id, Dir: "/dir"}, r.store.Objects())
	if segno.KindOf(err) != segno.KindConflict {
		t.Errorf("over another conversation: %v", err)
	}
}

// TestRefusedCuts refuses cuts that no runner could continue.
func TestRefusedCuts(t *testing.T) {
	r := newRig(t)
	r.say(r.dir, "one")
	p := r.capture(nil).Position
	to := filelog.New(filepath.Join(t.TempDir(), "cut"), nil)
	const other = "1c5ab1f2-6a6e-4f0e-9d0a-1b2c3d4e5f60"
	if _, err := to.Cut(t.Context(), p, segno.Target{Session: other}, r.store.Objects()); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("with another id: %v", err)
	}
	if _, err := filelog.New("", nil).Cut(t.Context(), p, segno.Target{Session: id}, r.store.Objects()); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := to.Cut(t.Context(), p, segno.Target{Session: "../x"}, r.store.Objects()); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("with an id that is a path: %v", err)
	}
	bad := p
	bad.SHA256 = segno.HashOf([]byte("other"))
	if _, err := to.Cut(t.Context(), bad, segno.Target{Session: id}, r.store.Objects()); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("with other bytes: %v", err)
	}
}

// TestHostileLog reads files that an agent may have put in the place of its conversation.
func TestHostileLog(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "torn": `{"commit":{"id":"c"`, "no JSON": "hello\n\x00\n", "no object": "7\n[]\n", "no prompts": `{"commit":{"id":"c"}}` + "\n"} {
		r := newRig(t)
		path := filepath.Join(r.dir, "threads", id, "log.jsonl")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got := r.capture(nil); got.Position.Leaf != "" {
			t.Errorf("%s: the position is %+v", name, got.Position)
		}
	}
	r := newRig(t)
	path := filepath.Join(r.dir, "threads", id, "log.jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink("/dev/zero", path), os.Mkdir(filepath.Join(r.dir, "threads", "x y"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for f, err := range filelog.New(r.dir, nil).Sessions(t.Context()) {
		if err == nil && f.Session != id {
			t.Errorf("%s is a session", f.Session)
		}
	}
	batch := r.store.Objects().Batch()
	defer batch.Close()
	if _, err := filelog.New(r.dir, nil).Capture(t.Context(), segno.Source{Session: id}, nil, batch, nil); err == nil {
		t.Error("a device was read")
	}
}

// TestFailingDisk fails one write of a cut at a time: the file is whole or absent, and the next cut creates it.
func TestFailingDisk(t *testing.T) {
	r := newRig(t)
	r.say(r.dir, "one")
	p := r.capture(nil).Position
	want, err := os.ReadFile(filepath.Join(r.dir, "threads", id, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	cut := func(faults *faultfs.Faults) error {
		dir := filepath.Join(t.TempDir(), "cut")
		_, failed := filelog.New(dir, faults.Wrap(vfs.OS)).Cut(t.Context(), p, segno.Target{Session: id}, r.store.Objects())
		got, err := os.ReadFile(filepath.Join(dir, "threads", id, "log.jsonl"))
		if err == nil && !bytes.Equal(got, want) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after %v: %d bytes, %v", failed, len(got), err)
		}
		if _, err := filelog.New(dir, nil).Cut(t.Context(), p, segno.Target{Session: id}, r.store.Objects()); err != nil {
			t.Errorf("after %v: %v", failed, err)
		}
		return failed
	}
	whole := faultfs.FailAt(-1)
	if err := cut(whole); err != nil {
		t.Fatal(err)
	}
	for _, n := range faultfs.Sample(t, whole.Trace()) {
		if err := cut(faultfs.FailAt(n)); err == nil {
			t.Errorf("operation %d, %s: the cut succeeded", n, whole.Trace()[n])
		}
	}
}
