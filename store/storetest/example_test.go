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

// mapSaver is an example of a saver: it keeps the newest checkpoint of each thread in a map.
type mapSaver struct {
	now func() time.Time

	mu      sync.Mutex
	records map[saver.ThreadKey]*record
	saves   int
	deleted map[saver.ThreadKey]bool
}

type record struct {
	saver.Snapshot
	order    int             // its position among all saves
	answered map[string]bool // closed questions
}

func newMapSaver(now func() time.Time) *mapSaver {
	return &mapSaver{now: now, records: map[saver.ThreadKey]*record{}, deleted: map[saver.ThreadKey]bool{}}
}

func newError(op string, a saver.ThreadKey, kind segno.Kind, err error) error {
	return segno.NewError(kind, op, a.Thread, err)
}

// lock begins a call and returns the function that ends it.
func (m *mapSaver) lock(ctx context.Context, op string, a saver.ThreadKey) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, newError(op, a, segno.KindCancelled, err)
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

func (m *mapSaver) Save(ctx context.Context, s saver.Snapshot) (saver.Snapshot, error) {
	for _, id := range []string{s.Thread, cmp.Or(s.Namespace, "none")} {
		if err := segno.CheckID("save", id); err != nil {
			return s, err
		}
	}
	for _, raw := range slices.Concat(s.Messages, slices.Collect(maps.Values(s.State))) {
		if len(raw) > 0 && !json.Valid(raw) {
			return s, newError("save", s.ThreadKey, segno.KindInvalid, errors.New("invalid JSON"))
		}
	}
	end, err := m.lock(ctx, "save", s.ThreadKey)
	if err != nil {
		return s, err
	}
	defer end()
	before := m.records[s.ThreadKey]
	switch {
	case before == nil && s.ID != "":
		return s, newError("save", s.ThreadKey, segno.KindNotFound, nil)
	case before == nil && m.deleted[s.ThreadKey]:
		return s, newError("save", s.ThreadKey, segno.KindRefused, errors.New("the thread was deleted"))
	case before == nil:
		before = &record{Snapshot: saver.Snapshot{Created: m.now()}, answered: map[string]bool{}}
	case before.ID != s.ID:
		actual := segno.Head{Thread: s.ThreadKey.ID(), Head: before.ID}
		return s, newError("save", s.ThreadKey, segno.KindConflict, &segno.ConflictError{Actual: actual})
	}
	next := &record{answered: maps.Clone(before.answered)}
	if s.Interrupts, err = next.waiting(before.Interrupts, s, m.now()); err != nil {
		return s, err
	}
	m.saves++
	s.ID, s.Step, s.Decisions = segno.CommitID(segno.NewID()), max(s.Step, before.Step+1), nil
	s.Created, s.Updated = before.Created, m.now()
	next.Snapshot, next.order = copied(s), m.saves
	m.records[s.ThreadKey] = next
	return copied(s), nil
}

// waiting returns the questions that are open after s.
func (p *record) waiting(open []segno.Interrupt, s saver.Snapshot, now time.Time) ([]segno.Interrupt, error) {
	drop := func(id string) {
		open = slices.DeleteFunc(slices.Clone(open), func(i segno.Interrupt) bool { return i.ID == id })
		p.answered[id] = true
	}
	for _, d := range s.Decisions {
		i := slices.IndexFunc(open, func(i segno.Interrupt) bool { return i.ID == d.Interrupt })
		if i < 0 {
			return nil, newError("decide", s.ThreadKey, segno.KindConflict, errors.New("the question is not open"))
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

func (m *mapSaver) Load(ctx context.Context, at saver.ThreadKey) (saver.Snapshot, error) {
	end, err := m.lock(ctx, "load", at)
	if err != nil {
		return saver.Snapshot{}, err
	}
	defer end()
	if p := m.records[at]; p != nil {
		return copied(p.Snapshot), nil
	}
	return saver.Snapshot{}, newError("load", at, segno.KindNotFound, nil)
}

func (m *mapSaver) List(ctx context.Context, namespace string) iter.Seq2[saver.Info, error] {
	return func(yield func(saver.Info, error) bool) {
		end, err := m.lock(ctx, "list", saver.ThreadKey{Namespace: namespace})
		if err != nil {
			yield(saver.Info{}, err)
			return
		}
		all := slices.SortedFunc(maps.Values(m.records), func(a, b *record) int { return b.order - a.order })
		end()
		for _, p := range all {
			info := saver.Info{ThreadKey: p.ThreadKey, ID: p.ID, Step: p.Step, Created: p.Created, Updated: p.Updated}
			if p.Namespace == namespace && !yield(info, nil) {
				return
			}
		}
	}
}

func (m *mapSaver) Delete(ctx context.Context, at saver.ThreadKey) error {
	end, err := m.lock(ctx, "delete", at)
	if err != nil {
		return err
	}
	defer end()
	for a := range m.records {
		if a == at || at.Namespace == "" && a.Thread == at.Thread {
			m.deleted[a] = true
			delete(m.records, a)
		}
	}
	return nil
}

func (m *mapSaver) Exists(ctx context.Context, at saver.ThreadKey) (bool, error) {
	end, err := m.lock(ctx, "exists", at)
	if err != nil {
		return false, err
	}
	defer end()
	return m.records[at] != nil, nil
}

// copied returns a deep copy of s.
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

// The test of a saver is one call:
//
//	func TestMapSaver(t *testing.T) {
//		clock := storetest.NewClock()
//		open := func(*testing.T) saver.Saver { return newMapSaver(clock.Now) }
//		storetest.TestSaver(t, open, storetest.SaverOptions{Clock: clock})
//	}
//
// With -v it logs the names of the tests that need an interface or an option the saver does not have.
func ExampleTestSaver() {
	ctx := context.Background()
	mine := newMapSaver(time.Now)
	s := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "session-123"}}
	s.Messages = append(s.Messages, json.RawMessage(`{"role":"user","content":"Create a project plan"}`))
	if _, err := mine.Save(ctx, s); err != nil {
		fmt.Println(err)
	}
	_, err := mine.Save(ctx, s) // a second first save
	fmt.Println(segno.KindOf(err))
	s, err = mine.Load(ctx, s.ThreadKey)
	fmt.Println(s.Step, len(s.Messages), err)
	// Output:
	// conflict
	// 1 1 <nil>
}
