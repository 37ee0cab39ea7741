package storetest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// notebook is somebody's own saver: the newest page of each thread, in a map.
type notebook struct {
	now func() time.Time

	mu    sync.Mutex
	pages map[saver.ThreadKey]*page
	saves int
	gone  map[saver.ThreadKey]bool
}

type page struct {
	saver.Snapshot
	place    int             // among all saves
	answered map[string]bool // questions that wait no more
}

func newNotebook(now func() time.Time) *notebook {
	return &notebook{now: now, pages: map[saver.ThreadKey]*page{}, gone: map[saver.ThreadKey]bool{}}
}

func failed(op string, a saver.ThreadKey, kind segno.Kind, err error) error {
	return segno.NewError(kind, op, a.Thread, err)
}

// open begins a call; what it returns ends it.
func (n *notebook) open(ctx context.Context, op string, a saver.ThreadKey) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, failed(op, a, segno.KindCancelled, err)
	}
	n.mu.Lock()
	return n.mu.Unlock, nil
}

func (n *notebook) Save(ctx context.Context, s saver.Snapshot) (saver.Snapshot, error) {
	for _, id := range []string{s.Thread, cmp.Or(s.Namespace, "none")} {
		if err := segno.CheckID("save", id); err != nil {
			return s, err
		}
	}
	for _, raw := range slices.Concat(s.Messages, slices.Collect(maps.Values(s.State))) {
		if len(raw) > 0 && !json.Valid(raw) {
			return s, failed("save", s.ThreadKey, segno.KindInvalid, errors.New("a value is no JSON"))
		}
	}
	end, err := n.open(ctx, "save", s.ThreadKey)
	if err != nil {
		return s, err
	}
	defer end()
	before := n.pages[s.ThreadKey]
	switch {
	case before == nil && s.ID != "":
		return s, failed("save", s.ThreadKey, segno.KindNotFound, nil)
	case before == nil && n.gone[s.ThreadKey]:
		return s, failed("save", s.ThreadKey, segno.KindRefused, errors.New("it was deleted"))
	case before == nil:
		before = &page{Snapshot: saver.Snapshot{Created: n.now()}, answered: map[string]bool{}}
	case before.ID != s.ID:
		return s, failed("save", s.ThreadKey, segno.KindConflict, &segno.ConflictError{Actual: segno.Head{Thread: s.ThreadKey.ID(), Head: before.ID}})
	}
	next := &page{answered: maps.Clone(before.answered)}
	if s.Interrupts, err = next.waiting(before.Interrupts, s, n.now()); err != nil {
		return s, err
	}
	n.saves++
	s.ID, s.Step, s.Kept, s.Decisions = segno.CommitID(segno.NewID()), max(s.Step, before.Step+1), len(s.Messages), nil
	s.Created, s.Updated = before.Created, n.now()
	next.Snapshot, next.place = copied(s), n.saves
	n.pages[s.ThreadKey] = next
	return copied(s), nil
}

// waiting is what waits for an answer after s.
func (p *page) waiting(open []segno.Interrupt, s saver.Snapshot, now time.Time) ([]segno.Interrupt, error) {
	drop := func(id string) {
		open = slices.DeleteFunc(slices.Clone(open), func(i segno.Interrupt) bool { return i.ID == id })
		p.answered[id] = true
	}
	for _, d := range s.Decisions {
		i := slices.IndexFunc(open, func(i segno.Interrupt) bool { return i.ID == d.Interrupt })
		if i < 0 {
			return nil, failed("decide", s.ThreadKey, segno.KindConflict, errors.New("it waits for no decision"))
		}
		if err := open[i].Check(d, now); err != nil {
			return nil, err
		}
		drop(d.Interrupt)
	}
	for _, i := range s.Interrupts {
		known := slices.ContainsFunc(open, func(x segno.Interrupt) bool { return x.ID == i.ID })
		if i.Replaces != "" {
			drop(i.Replaces)
		}
		if !known && !p.answered[i.ID] {
			open = append(slices.Clone(open), i)
		}
	}
	return open, nil
}

func (n *notebook) Load(ctx context.Context, at saver.ThreadKey) (saver.Snapshot, error) {
	end, err := n.open(ctx, "load", at)
	if err != nil {
		return saver.Snapshot{}, err
	}
	defer end()
	if p := n.pages[at]; p != nil {
		return copied(p.Snapshot), nil
	}
	return saver.Snapshot{}, failed("load", at, segno.KindNotFound, nil)
}

func (n *notebook) List(ctx context.Context, namespace string) iter.Seq2[saver.Info, error] {
	return func(yield func(saver.Info, error) bool) {
		end, err := n.open(ctx, "list", saver.ThreadKey{Namespace: namespace})
		if err != nil {
			yield(saver.Info{}, err)
			return
		}
		all := slices.SortedFunc(maps.Values(n.pages), func(a, b *page) int { return b.place - a.place })
		end()
		for _, p := range all {
			info := saver.Info{ThreadKey: p.ThreadKey, ID: p.ID, Step: p.Step, Created: p.Created, Updated: p.Updated}
			if p.Namespace == namespace && !yield(info, nil) {
				return
			}
		}
	}
}

func (n *notebook) Delete(ctx context.Context, at saver.ThreadKey) error {
	end, err := n.open(ctx, "delete", at)
	if err != nil {
		return err
	}
	defer end()
	for a := range n.pages {
		if a == at || at.Namespace == "" && a.Thread == at.Thread {
			n.gone[a] = true
			delete(n.pages, a)
		}
	}
	return nil
}

func (n *notebook) Exists(ctx context.Context, at saver.ThreadKey) (bool, error) {
	end, err := n.open(ctx, "look", at)
	if err != nil {
		return false, err
	}
	defer end()
	return n.pages[at] != nil, nil
}

// copied is s, sharing nothing with it.
func copied(s saver.Snapshot) saver.Snapshot {
	s.Messages, s.State, s.Meta, s.Interrupts = slices.Clone(s.Messages), maps.Clone(s.State), maps.Clone(s.Meta), slices.Clone(s.Interrupts)
	for i := range s.Messages {
		s.Messages[i] = slices.Clone(s.Messages[i])
	}
	for key, value := range s.State {
		s.State[key] = slices.Clone(value)
	}
	for i := range s.Interrupts {
		s.Interrupts[i].Args, s.Interrupts[i].Allowed = slices.Clone(s.Interrupts[i].Args), slices.Clone(s.Interrupts[i].Allowed)
	}
	return s
}

// A saver of one's own is held to the rules by one call in its test:
//
//	func TestNotebook(t *testing.T) {
//		clock := storetest.NewClock()
//		open := func(*testing.T) saver.Saver { return newNotebook(clock.Now) }
//		storetest.TestSaver(t, open, storetest.SaverOptions{Clock: clock})
//	}
//
// With -v it says which clauses it did not ask, and for want of what.
func ExampleTestSaver() {
	ctx := context.Background()
	var notes saver.Saver = newNotebook(time.Now)
	s := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "session-123"}}
	s.Messages = append(s.Messages, json.RawMessage(`{"role":"user","content":"Create a project plan"}`))
	if _, err := notes.Save(ctx, s); err != nil {
		fmt.Println(err)
	}
	_, err := notes.Save(ctx, s) // as if nothing had been saved
	fmt.Println(segno.KindOf(err))
	s, err = notes.Load(ctx, s.ThreadKey)
	fmt.Println(s.Step, len(s.Messages), err)
	// Output:
	// conflict
	// 1 1 <nil>
}
