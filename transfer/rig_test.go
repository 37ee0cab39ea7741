package transfer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	m.Run()
}

// completeStore is a store with the abilities that a copy uses.
type completeStore interface {
	segno.Store
	segno.Chains
	segno.Leaser
}

// side is a store with functions that a program would call.
type side struct {
	completeStore
	t    *testing.T
	name string
	rand *rand.Rand
}

func newMemory(t *testing.T, name string) *side {
	s := &side{memory.New(nil), t, name, rand.New(rand.NewPCG(1, 2))}
	t.Cleanup(func() { s.Close() })
	return s
}

func newSQLite(t *testing.T, name string, o sqlite.Options) *side {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "segno.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{db, t, name, rand.New(rand.NewPCG(1, 2))}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *side) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) head(thread segno.ThreadID) segno.Head {
	s.t.Helper()
	h, err := s.Head(s.t.Context(), thread)
	s.ok(err)
	return h
}

// commit commits at the head of a thread, with a new object as the state of the checkpoint.
func (s *side) commit(c segno.Commit, content string) segno.Head {
	s.t.Helper()
	ctx := s.t.Context()
	if c.Create == nil {
		h := s.head(c.Thread)
		c.Expect, c.Epoch = h.Head, h.Epoch
	}
	if c.ID == "" {
		c.ID = segno.CommitID(segno.NewID())
	}
	if c.Checkpoint != nil && content != "" {
		batch := s.Objects().Batch()
		defer batch.Close()
		name, err := batch.Put(ctx, []byte(content))
		s.ok(err)
		c.Checkpoint.State = &segno.Document{Type: "test/1", Data: name}
		c.Staged, err = batch.Stage(ctx)
		s.ok(err)
	}
	h, err := s.Commit(ctx, c)
	s.ok(err)
	return h
}

var began = time.Date(2026, 4, 5, 6, 7, 8, 9, time.UTC)

// begin makes a thread.
func (s *side) begin(thread segno.ThreadID) segno.Head {
	s.t.Helper()
	return s.commit(segno.Commit{Thread: thread, Create: &segno.Thread{ID: thread, Created: began, Title: "title of " + string(thread), Agent: "claude"},
		Link:       &segno.Link{Agent: "claude", Session: segno.SessionID("session of " + thread), Start: began, Reason: "start"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: began}}, "base of "+string(thread))
}

// turn adds a turn at the head: a commit with an intent, and one with the checkpoint.
func (s *side) turn(thread segno.ThreadID, prompt string) segno.Head {
	s.t.Helper()
	h := s.head(thread)
	n := h.Turn + 1
	h = s.commit(segno.Commit{Thread: thread, Parent: h.Head,
		Entries: []segno.Entry{{Kind: segno.EntryIntent, Turn: n, Time: began, ID: "call", Name: "write\xff", Body: json.RawMessage(`{"a":  1}`)}}}, "")
	return s.commit(segno.Commit{Thread: thread, Parent: h.Head, Entries: []segno.Entry{{Kind: segno.EntryMessage, Turn: n, Time: began, Body: json.RawMessage(`"x"`)}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n, Time: began.Add(time.Duration(n) * time.Second), Prompt: prompt, Key: segno.TurnKey(prompt)}}, "state of "+prompt)
}

// undo moves the head to the parent checkpoint.
func (s *side) undo(thread segno.ThreadID) segno.Head {
	s.t.Helper()
	h := s.head(thread)
	for n, err := range segno.Ancestors(s.t.Context(), s, h.Head, segno.Window{}) {
		s.ok(err)
		if n.ID != h.Head && n.Checkpoint != nil && n.Thread == thread {
			return s.commit(segno.Commit{Thread: thread, Move: &segno.Move{Head: n.ID, Tip: h.Tip}}, "")
		}
	}
	return h
}

func (s *side) fork(thread segno.ThreadID, at segno.CommitID) segno.Head {
	s.t.Helper()
	return s.commit(segno.Commit{Thread: thread, Parent: at, Create: &segno.Thread{ID: thread, Created: began, Title: "a fork", Parent: at},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: began}}, "fork "+string(thread))
}

func (s *side) pin(thread segno.ThreadID, at segno.CommitID, name string) {
	s.t.Helper()
	s.commit(segno.Commit{Thread: thread, Pin: &segno.Pin{Checkpoint: at, Name: name}}, "")
}

// describe returns all of a thread that a copy must keep, one line each, in an order that does not depend on the store.
func describe(t *testing.T, s segno.Store, thread segno.ThreadID) (all []string) {
	t.Helper()
	ctx := t.Context()
	line := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	record, ok, err := segno.FindThread(ctx, s, thread)
	if err != nil || !ok {
		t.Fatalf("thread %s: %v, %v", thread, ok, err)
	}
	line(record)
	tree, err := reachable.Commits(ctx, s, thread)
	if err != nil {
		t.Fatal(err)
	}
	for id := range tree.Nodes {
		loaded, err := s.Load(ctx, id, segno.Window{Last: 1, Entries: true})
		if err != nil {
			t.Fatal(err)
		}
		n := loaded.Commits[0]
		if n.Seq = 0; n.Checkpoint != nil {
			n.Checkpoint.Seq = 0
			if d := n.Checkpoint.State; d != nil {
				data, err := s.Objects().Get(ctx, d.Data)
				if err != nil {
					t.Fatal(err)
				}
				line(map[string]string{"object of " + string(id): string(data)})
			}
		}
		line(n)
		line(fmt.Sprintf("%x", n.Entries))
	}
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread, Pinned: true}) {
		if err != nil {
			t.Fatal(err)
		}
		names := segno.PinNames(c.Label)
		sort.Strings(names)
		line(map[string]any{"pin of " + string(c.ID): names})
	}
	for l, err := range s.(segno.Chains).Chain(ctx, thread) {
		if err != nil {
			t.Fatal(err)
		}
		line(l)
	}
	slices.Sort(all)
	return all
}

// pointers returns the head and the tip of a thread.
func pointers(t *testing.T, s segno.Store, thread segno.ThreadID) [2]segno.CommitID {
	t.Helper()
	h, err := s.Head(context.WithoutCancel(t.Context()), thread)
	if err != nil {
		t.Fatal(err)
	}
	return [2]segno.CommitID{h.Head, h.Tip}
}
