package storetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/storetest"
)

// brokenEnv is the fault that a child process of TestBroken tests.
const brokenEnv = "SEGNO_STORETEST_BROKEN"

// brokenSaver is a saver with one fault.
type brokenSaver struct {
	*mapSaver
	fault string
}

func (b brokenSaver) rename(a saver.ThreadKey) saver.ThreadKey {
	switch b.fault {
	case "one name for a/b and a_b":
		a.Thread = strings.ReplaceAll(a.Thread, "/", "_")
	case "namespaces joined with a colon":
		if a.Namespace != "" {
			a = saver.ThreadKey{Thread: a.Thread + ":" + a.Namespace}
		}
	}
	return a
}

func (b brokenSaver) Save(ctx context.Context, s saver.Snapshot) (saver.Snapshot, error) {
	at := s.ThreadKey
	s.ThreadKey = b.rename(at)
	switch b.fault {
	case "the last writer wins":
		if now, err := b.mapSaver.Load(ctx, s.ThreadKey); err == nil {
			s.ID = now.ID
		}
	case "answers count again":
		for _, d := range s.Decisions {
			s.Interrupts = append(s.Interrupts, segno.Interrupt{ID: d.Interrupt, Allowed: []segno.DecisionKind{d.Kind}, ArgsHash: segno.HashOf(nil)})
		}
		s.Decisions = nil
	case "a removed value stays":
		if now, err := b.mapSaver.Load(ctx, s.ThreadKey); err == nil {
			kept := map[string]json.RawMessage{}
			maps.Copy(kept, now.State)
			maps.Copy(kept, s.State)
			s.State = kept
		}
	}
	got, err := b.mapSaver.Save(ctx, s)
	switch b.fault {
	case "references are kept":
		if p := b.records[s.ThreadKey]; err == nil {
			p.Messages, p.State, p.Meta = s.Messages, s.State, s.Meta
		}
	case "created at every save":
		if p := b.records[s.ThreadKey]; err == nil {
			p.Created = p.Updated
		}
	}
	got.ThreadKey = at
	return got, err
}

func (b brokenSaver) Load(ctx context.Context, at saver.ThreadKey) (saver.Snapshot, error) {
	got, err := b.mapSaver.Load(ctx, b.rename(at))
	if b.fault == "a missing thread is empty" && segno.KindOf(err) == segno.KindNotFound {
		return saver.Snapshot{ThreadKey: at}, nil
	}
	got.ThreadKey = at
	return got, err
}

func (b brokenSaver) Exists(ctx context.Context, at saver.ThreadKey) (bool, error) {
	return b.mapSaver.Exists(ctx, b.rename(at))
}

func (b brokenSaver) Delete(ctx context.Context, at saver.ThreadKey) error {
	if _, err := b.Load(ctx, at); b.fault == "deleting nothing is an error" && err != nil {
		return err
	}
	if b.fault == "namespaces outlive their thread" {
		delete(b.records, at)
		return nil
	}
	return b.mapSaver.Delete(ctx, b.rename(at))
}

func (b brokenSaver) List(ctx context.Context, namespace string) iter.Seq2[saver.Info, error] {
	return func(yield func(saver.Info, error) bool) {
		for i, err := range b.mapSaver.List(ctx, namespace) {
			if b.fault == "colons are not listed" && strings.Contains(i.Thread, ":") {
				continue
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

// brokenStore is a store with one fault.
type brokenStore struct {
	*memory.Store
	fault string
}

func (b brokenStore) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	wide := q
	switch b.fault {
	case "a store: the limit comes first":
		wide.Meta, wide.Step = nil, 0
	case "a store: one pair of meta is enough":
		wide.Meta, wide.Limit = nil, 0
	case "a store: pages overlap":
		if q.Before > 0 {
			q.Before++
		}
		wide = q
	case "a store: steps are ignored":
		wide.Step, q.Step = 0, 0
	}
	return func(yield func(segno.Checkpoint, error) bool) {
		n := 0
		for c, err := range b.Store.Checkpoints(ctx, wide) {
			matches := err != nil || q.Matches(&c)
			if b.fault == "a store: one pair of meta is enough" && err == nil && len(q.Meta) > 1 {
				single := q
				for key, value := range q.Meta {
					single.Meta = map[string]string{key: value}
					matches = matches || single.Matches(&c)
				}
			}
			if !matches || q.Limit > 0 && n == q.Limit {
				continue
			}
			n++
			if !yield(c, err) {
				return
			}
		}
	}
}

func (b brokenStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	head, err := b.Store.Head(ctx, c.Thread)
	if err == nil {
		switch b.fault {
		case "a store: no comparison":
			c.Expect = head.Head
		case "a store: no fence":
			c.Epoch = head.Epoch
		case "a store: undo forgets the tip":
			if c.Move != nil {
				c.Move = &segno.Move{Head: c.Move.Head, Tip: c.Move.Head}
			}
		}
	}
	if b.fault == "a store: entries come back sorted" {
		c.Entries = slices.SortedFunc(slices.Values(c.Entries), func(x, y segno.Entry) int {
			return strings.Compare(string(x.Body), string(y.Body))
		})
	}
	return b.Store.Commit(ctx, c)
}

func (b brokenStore) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	switch b.fault {
	case "a store: parts are top level":
		q.TopLevel = false
	case "a store: every part is returned":
		q.ParentThread = ""
	}
	return b.Store.Threads(ctx, q)
}

func (b brokenStore) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	line, err := b.Store.Load(ctx, at, w)
	if b.fault == "a store: an answer is lost" && err == nil {
		for i := range line.Commits {
			for k := range line.Commits[i].Entries {
				if e := &line.Commits[i].Entries[k]; e.Kind == segno.EntryDecision {
					e.Kind = segno.EntryNote
				}
			}
		}
	}
	if b.fault == "a store: meta is lost" && err == nil {
		for i := range line.Commits {
			if line.Commits[i].Checkpoint != nil {
				line.Commits[i].Checkpoint.Meta = nil
			}
		}
	}
	return line, err
}

// Wait reads the head before it waits, so that it can miss a commit made in between. It then gives up soon, which saves time.
func (b brokenStore) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	if b.fault != "a store: a wake-up is lost" {
		return b.Store.Wait(ctx, thread, after)
	}
	head, err := b.Store.Head(ctx, thread)
	if err != nil || head.Seq > after {
		return head, err
	}
	runtime.Gosched()
	if head, err = b.Store.Head(ctx, thread); err != nil {
		return head, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return b.Store.Wait(ctx, thread, head.Seq)
}

// broken maps each fault to the tests that must find it.
func broken() map[string][]string {
	return map[string][]string{
		"one name for a/b and a_b":            {"saver/hostile_addresses"},
		"namespaces joined with a colon":      {"saver/hostile_addresses"},
		"the last writer wins":                {"saver/a_stale_save", "saver/one_of_K_saves"},
		"answers count again":                 {"interrupt/single_use"},
		"a removed value stays":               {"saver/state_and_meta"},
		"references are kept":                 {"saver/a_loaded_value_is_a_copy"},
		"created at every save":               {"saver/times"},
		"a missing thread is empty":           {"saver/nothing_there"},
		"deleting nothing is an error":        {"saver/delete_missing_is_fine"},
		"namespaces outlive their thread":     {"saver/namespaces_are_separate", "saver/delete"},
		"colons are not listed":               {"saver/hostile_addresses"},
		"a store: the limit comes first":      {"list/any_query_of_checkpoints", "travel/any_journey"},
		"a store: one pair of meta is enough": {"list/any_query_of_checkpoints"},
		"a store: steps are ignored":          {"list/any_query_of_checkpoints", "travel/any_journey"},
		"a store: no comparison":              {"ownership/a_late_writer_learns_the_head", "saver/a_stale_save", "interrupt/first_wins"},
		"a store: no fence":                   {"lease/fencing", "state/a_saver_beside_a_lease"},
		"a store: undo forgets the tip":       {"commit/moves", "travel/any_journey"},
		"a store: entries come back sorted":   {"saver/messages", "values/bodies"},
		"a store: pages overlap":              {"list/any_query_of_checkpoints", "travel/any_journey"},
		"a store: parts are top level":        {"list/any_query_of_threads", "saver/namespaces_are_separate"},
		"a store: every part is returned":     {"list/any_query_of_threads"},
		"a store: a wake-up is lost":          {"watch/no_lost_wake-up"},
		"a store: an answer is lost":          {"interrupt/several_wait_at_once", "state/an_answer_is_recorded"},
		"a store: meta is lost":               {"values/every_field", "saver/state_and_meta"},
	}
}

// TestBroken runs the tests on savers and stores that have one fault each, and requires that the tests
// find the fault. Each runs in a separate process, because its tests must fail.
func TestBroken(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	if fault := os.Getenv(brokenEnv); fault != "" {
		testFault(t, fault)
		return
	}
	for fault, tests := range broken() {
		t.Run(fault, func(t *testing.T) {
			var out bytes.Buffer
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+runPattern(tests), "-test.timeout=60s",
				"-rapid.nofailfile", "-rapid.shrinktime=0s", "-rapid.checks=1000")
			child.Env = append(os.Environ(), brokenEnv+"="+fault, "SEGNO_SOAK=1") // every combination of a random test
			child.Stdout, child.Stderr = &out, &out
			if err := child.Run(); err == nil {
				t.Errorf("no test found the fault")
			}
			for _, x := range tests {
				if !strings.Contains(out.String(), "--- FAIL: TestBroken/"+x+" ") {
					t.Errorf("%s did not find the fault:\n%s", x, out.String())
				}
			}
		})
	}
}

// runPattern returns a pattern for -test.run that selects these tests.
func runPattern(tests []string) string {
	var patterns []string
	for _, x := range tests {
		pattern := "^TestBroken$"
		for part := range strings.SplitSeq(x, "/") {
			pattern += "/^" + regexp.QuoteMeta(part) + "$"
		}
		patterns = append(patterns, pattern)
	}
	return strings.Join(patterns, "|")
}

func testFault(t *testing.T, fault string) {
	clock := storetest.NewClock()
	if strings.HasPrefix(fault, "a store: ") {
		storetest.Test(t, func(*testing.T) segno.Store { return brokenStore{memory.New(clock.Now), fault} }, storetest.Options{Clock: clock})
		return
	}
	storetest.TestSaver(t, func(*testing.T) saver.Saver { return brokenSaver{newMapSaver(time.Now), fault} }, storetest.SaverOptions{})
}
