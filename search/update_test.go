package search

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// storeRig is a store with an index.
type storeRig struct {
	*testing.T
	store  *memory.Store
	reader Reader
	index  *Index
	heads  map[segno.ThreadID]segno.CommitID
}

func newStoreRig(t *testing.T) *storeRig {
	store := memory.New(nil)
	t.Cleanup(func() { store.Close() })
	none := func(context.Context, segno.Hash, segno.Hash) ([]segno.Change, error) { return nil, nil }
	return &storeRig{T: t, store: store, heads: map[segno.ThreadID]segno.CommitID{},
		reader: Reader{Store: store, Finder: timeline.PathFinder{Store: store, Diff: none}, Content: store.Objects().Get},
		index:  Open(Config{Dir: t.TempDir(), FS: vfs.OS})}
}

// commit adds a checkpoint with an answer to a thread.
func (r *storeRig) commit(thread segno.ThreadID, c segno.Checkpoint, answer string) segno.CommitID {
	r.Helper()
	body, err := json.Marshal(answer)
	if err != nil {
		r.Fatal(err)
	}
	c.Time = time.Now()
	commit := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Parent: r.heads[thread], Expect: r.heads[thread], Checkpoint: &c,
		Entries: []segno.Entry{{Kind: segno.EntryMessage, Name: "agent", Body: body}}}
	if c.Kind == "" {
		commit.Checkpoint = nil
	}
	if r.heads[thread] == "" {
		commit.Create = &segno.Thread{ID: thread}
	}
	if _, err := r.store.Commit(r.Context(), commit); err != nil {
		r.Fatal(err)
	}
	r.heads[thread] = commit.ID
	return commit.ID
}

// finds returns the hits of a search, as "prompt 3" for the prompt of turn 3.
func (r *storeRig) finds(text string) string {
	r.Helper()
	fresh, err := r.index.Update(r.Context(), &r.reader, time.Now().Add(time.Hour), nil)
	if err != nil || !fresh.IsComplete() {
		r.Fatal(fresh, err)
	}
	return r.search(text, false)
}

func (r *storeRig) search(text string, sessions bool) string {
	r.Helper()
	q, err := Parse(text)
	if err != nil {
		r.Fatal(err)
	}
	q.Sessions = sessions
	res, err := r.index.Search(&q, 0, 100, time.Now().Add(time.Hour), nil)
	if err != nil {
		r.Fatal(err)
	}
	var all []string
	for _, h := range res.Hits {
		all = append(all, fmt.Sprint(h.Field, " ", h.Seq))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestUpdateFollowsTheStore checks an index beside a store that changes: turns, a turn that is amended after it was indexed, steps
// of one turn, and a deleted thread.
func TestUpdateFollowsTheStore(t *testing.T) {
	r := newStoreRig(t)
	expect := func(text, want string) {
		t.Helper()
		if got := r.finds(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	expect("limiter", "")
	first := r.commit("a", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Prompt: "the limiter"}, "limiter done")
	expect("limiter", "answer 1, prompt 1")
	r.commit("a", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Prompt: "the limiter", Amends: first}, "limiter done, later")
	expect("limiter", "answer 2, prompt 2")
	for n := range 3 {
		r.commit("b", segno.Checkpoint{Kind: segno.CheckpointStep, Step: n + 1, Turn: 1, Prompt: "fast"}, "")
		r.commit("b", segno.Checkpoint{}, "") // the intent of a call is no checkpoint
		expect("fast", "prompt 1")
	}
	r.commit("b", segno.Checkpoint{Kind: segno.CheckpointTurn, Step: 4, Turn: 1, Prompt: "fast"}, "")
	expect("fast", "prompt 1")
	r.commit("a", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 2, Prompt: "fast"}, "x")
	expect("fast", "prompt 1, prompt 3")
	if err := r.store.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	expect("fast", "prompt 3")
	other := Open(r.index.config)
	if _, err := other.Update(t.Context(), &r.reader, time.Now().Add(time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	r.index = other
	expect("limiter", "answer 2, prompt 2")
}

// TestUpdateEndsAtItsDeadline checks that a search without time tells what it lacks, and that the next one has it.
func TestUpdateEndsAtItsDeadline(t *testing.T) {
	r := newStoreRig(t)
	for n := range 20 {
		r.commit("a", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n + 1, Prompt: "again"}, "")
	}
	fresh, err := r.index.Update(t.Context(), &r.reader, time.Time{}, nil)
	if err != nil || fresh.Pending != 20 || r.search("again", false) != "" {
		t.Errorf("%+v, %v", fresh, err)
	}
	busy := func(context.Context) (func(), error) { return nil, segno.NewError(segno.KindBusy, "lock", "", nil) }
	r.index.config.Lock = busy
	if fresh, err := r.index.Update(t.Context(), &r.reader, time.Now().Add(time.Hour), nil); err != nil || fresh.Pending != 20 {
		t.Errorf("while another process writes: %+v, %v", fresh, err)
	}
	r.index.config.Lock = nil
	if got := r.finds("again"); strings.Count(got, "prompt") != 20 {
		t.Errorf("found %s", got)
	}
}

// TestUpdateReportsDamage checks that a checkpoint that cannot be read is counted, and found once it can be read.
func TestUpdateReportsDamage(t *testing.T) {
	r := newStoreRig(t)
	var bad segno.CommitID
	for n := range 5 {
		if id := r.commit("a", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n + 1, Prompt: "again"}, ""); n == 2 {
			bad = id
		}
	}
	r.reader.Store = damagedStore{r.store, bad}
	for range 2 {
		fresh, err := r.index.Update(t.Context(), &r.reader, time.Now().Add(time.Hour), nil)
		if err != nil || fresh.Damaged != 1 || fresh.Pending != 0 {
			t.Errorf("%+v, %v", fresh, err)
		}
		if got := r.search("again", false); got != "prompt 1, prompt 2, prompt 4, prompt 5" {
			t.Errorf("found %s", got)
		}
	}
	r.reader.Store = r.store
	if got := r.finds("again"); got != "prompt 1, prompt 2, prompt 3, prompt 4, prompt 5" {
		t.Errorf("after the repair: %s", got)
	}
}

// damagedStore cannot load one commit.
type damagedStore struct {
	segno.Store
	bad segno.CommitID
}

func (s damagedStore) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	if at == s.bad {
		return nil, segno.NewError(segno.KindCorrupt, "load", string(at), nil)
	}
	return s.Store.Load(ctx, at, w)
}

// TestSessionsOfAgents reads recorded sessions, one of them with a compaction, adds them to the index, and adds one again that has
// changed.
func TestSessionsOfAgents(t *testing.T) {
	r := newStoreRig(t)
	home := t.TempDir()
	copyFile := func(from, to string) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	compacted := filepath.Join(home, "projects", "p", "11111111-0000-4000-8000-000000000001.jsonl")
	copyFile("../transcript/claude/testdata/compact-first-2.1.330.jsonl", compacted)
	rollout := filepath.Join(home, "sessions", "2026", "01", "01", "rollout-2026-01-01T00-00-00-11111111-0000-4000-8000-000000000002.jsonl")
	copyFile("../transcript/codex/testdata/facts-0.169.0.jsonl", rollout)
	agents := map[string]segno.Transcript{claude.Agent: claude.New(home, claude.Options{}), codex.Agent: codex.New(home, codex.Options{})}
	all := []Session{
		{Agent: claude.Agent, Source: segno.Source{Session: "11111111-0000-4000-8000-000000000001", Path: compacted}, Stamp: "1"},
		{Agent: codex.Agent, Source: segno.Source{Session: "11111111-0000-4000-8000-000000000002", Path: rollout}, Stamp: "1"},
	}
	read := 0
	update := func() {
		t.Helper()
		fresh, err := r.index.UpdateSessions(t.Context(), all, func(ctx context.Context, s *Session) ([]SessionTurn, error) {
			read++
			return ReadSession(ctx, agents[s.Agent], s)
		}, time.Now().Add(time.Hour), nil)
		if err != nil || !fresh.IsComplete() {
			t.Fatal(fresh, err)
		}
	}
	expect := func(text, want string) {
		t.Helper()
		if got := r.search(text, true); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	update()
	update()
	expect("alpha", "prompt 1") // before the compaction
	expect("gamma", "prompt 3")
	expect(`"fact p4"`, "prompt 4")
	expect(`"echo 3"`, "prompt 3, tool 3")
	if got := r.search("alpha", false); got != "" {
		t.Errorf("without sessions: %s", got)
	}
	if read != 2 {
		t.Errorf("%d sessions were read, want 2", read)
	}
	all[0].Stamp = "2"
	update()
	if read != 3 {
		t.Errorf("%d sessions were read, want 3", read)
	}
	for n := range 2 * mergeCount { // until segments are merged, with documents of threads that are deleted
		thread := segno.ThreadID(fmt.Sprint("gone ", n))
		r.commit(thread, segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Prompt: "alpha"}, "")
		r.finds("alpha")
		if err := r.store.Delete(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
		r.finds("alpha")
		all[0].Stamp = fmt.Sprint("state ", n)
		update()
		expect("alpha", "prompt 1")
	}
}

// TestErasedTextIsNotWrittenAgain erases a thread while an update of the sessions waits for the lock of the index. The erasure
// removes the index, so no file may have a word of the thread afterwards.
func TestErasedTextIsNotWrittenAgain(t *testing.T) {
	r := newStoreRig(t)
	for i := range mergeCount - 1 {
		r.commit("erased", segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: i + 1}, "zyxwvut")
		r.finds("zyxwvut")
	}
	dir := r.index.config.Dir
	files := func() []os.DirEntry {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if len(files()) != mergeCount-1 {
		t.Fatalf("the index has %d files", len(files()))
	}
	r.index.config.Lock = func(context.Context) (func(), error) { // the erasure had it until now
		for _, f := range files() {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				t.Error(err)
			}
		}
		return func() {}, nil
	}
	all := []Session{{Agent: "claude", Source: segno.Source{Session: "s", Path: "p"}, Stamp: "1"}}
	_, err := r.index.UpdateSessions(t.Context(), all, func(context.Context, *Session) ([]SessionTurn, error) {
		return []SessionTurn{{Text: Text{Prompt: {"of a session"}}}}, nil
	}, time.Now().Add(time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files() {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "yxwvut") {
			t.Errorf("%s has the word of the erased thread", f.Name())
		}
	}
	if got := r.search("session", true); got == "" {
		t.Error("the session is not found")
	}
}
