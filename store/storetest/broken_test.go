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

// brokenEnv names the broken kind that a child of TestBroken holds to the clauses.
const brokenEnv = "SEGNO_STORETEST_BROKEN"

// brokenSaver is a saver with one thing wrong.
type brokenSaver struct {
	*notebook
	how string
}

func (b brokenSaver) rename(a saver.ThreadKey) saver.ThreadKey {
	switch b.how {
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
	switch b.how {
	case "the last writer wins":
		if now, err := b.notebook.Load(ctx, s.ThreadKey); err == nil {
			s.ID = now.ID
		}
	case "answers count again":
		for _, d := range s.Decisions {
			s.Interrupts = append(s.Interrupts, segno.Interrupt{ID: d.Interrupt, Allowed: []segno.DecisionKind{d.Kind}, ArgsHash: segno.HashOf(nil)})
		}
		s.Decisions = nil
	case "a removed value stays":
		if now, err := b.notebook.Load(ctx, s.ThreadKey); err == nil {
			kept := map[string]json.RawMessage{}
			maps.Copy(kept, now.State)
			maps.Copy(kept, s.State)
			s.State = kept
		}
	}
	got, err := b.notebook.Save(ctx, s)
	switch b.how {
	case "references are kept":
		if p := b.pages[s.ThreadKey]; err == nil {
			p.Messages, p.State, p.Meta = s.Messages, s.State, s.Meta
		}
	case "created at every save":
		if p := b.pages[s.ThreadKey]; err == nil {
			p.Created = p.Updated
		}
	}
	got.ThreadKey = at
	return got, err
}

func (b brokenSaver) Load(ctx context.Context, at saver.ThreadKey) (saver.Snapshot, error) {
	got, err := b.notebook.Load(ctx, b.rename(at))
	if b.how == "a missing thread is empty" && segno.KindOf(err) == segno.KindNotFound {
		return saver.Snapshot{ThreadKey: at}, nil
	}
	got.ThreadKey = at
	return got, err
}

func (b brokenSaver) Exists(ctx context.Context, at saver.ThreadKey) (bool, error) {
	return b.notebook.Exists(ctx, b.rename(at))
}

func (b brokenSaver) Delete(ctx context.Context, at saver.ThreadKey) error {
	if _, err := b.Load(ctx, at); b.how == "deleting nothing is an error" && err != nil {
		return err
	}
	if b.how == "namespaces outlive their thread" {
		delete(b.pages, at)
		return nil
	}
	return b.notebook.Delete(ctx, b.rename(at))
}

func (b brokenSaver) List(ctx context.Context, namespace string) iter.Seq2[saver.Info, error] {
	return func(yield func(saver.Info, error) bool) {
		for i, err := range b.notebook.List(ctx, namespace) {
			if b.how == "colons are not listed" && strings.Contains(i.Thread, ":") {
				continue
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

// brokenStore is a store with one thing wrong.
type brokenStore struct {
	*memory.Store
	how string
}

func (b brokenStore) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	wide := q
	switch b.how {
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
			fits := err != nil || q.Matches(&c)
			if b.how == "a store: one pair of meta is enough" && err == nil && len(q.Meta) > 1 {
				narrow := q
				for key, value := range q.Meta {
					narrow.Meta = map[string]string{key: value}
					fits = fits || narrow.Matches(&c)
				}
			}
			if !fits || q.Limit > 0 && n == q.Limit {
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
		switch b.how {
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
	if b.how == "a store: entries come back sorted" {
		c.Entries = slices.SortedFunc(slices.Values(c.Entries), func(x, y segno.Entry) int { return strings.Compare(string(x.Body), string(y.Body)) })
	}
	return b.Store.Commit(ctx, c)
}

func (b brokenStore) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	switch b.how {
	case "a store: parts are top level":
		q.TopLevel = false
	case "a store: every part is returned":
		q.ParentThread = ""
	}
	return b.Store.Threads(ctx, q)
}

func (b brokenStore) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	line, err := b.Store.Load(ctx, at, w)
	if b.how == "a store: an answer is lost" && err == nil {
		for i := range line.Commits {
			for k := range line.Commits[i].Entries {
				if e := &line.Commits[i].Entries[k]; e.Kind == segno.EntryDecision {
					e.Kind = segno.EntryNote
				}
			}
		}
	}
	if b.how == "a store: meta is lost" && err == nil {
		for i := range line.Commits {
			if line.Commits[i].Checkpoint != nil {
				line.Commits[i].Checkpoint.Meta = nil
			}
		}
	}
	return line, err
}

// Wait looks before it listens, and what lands between is lost.
func (b brokenStore) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	if b.how != "a store: a wake-up is lost" {
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
	return b.Store.Wait(ctx, thread, head.Seq)
}

// broken maps each fault to the tests that must find it.
func broken() map[string][]string {
	return map[string][]string{
		"one name for a/b and a_b":            {"saver/hostile_addresses"},
		"namespaces joined with a colon":      {"saver/hostile_addresses"},
		"the last writer wins":                {"saver/a_stale_save", "saver/one_of_K_saves", "saver/a_thread_begins_once"},
		"answers count again":                 {"interrupt/single_use"},
		"a removed value stays":               {"saver/state"},
		"references are kept":                 {"saver/a_loaded_value_is_a_copy"},
		"created at every save":               {"saver/created_is_kept"},
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
		"a store: pages overlap":              {"list/pages", "list/any_query_of_checkpoints", "travel/any_journey"},
		"a store: parts are top level":        {"list/any_query_of_threads", "saver/namespaces_are_separate"},
		"a store: every part is returned":     {"list/any_query_of_threads"},
		"a store: a wake-up is lost":          {"watch/no_lost_wake-up"},
		"a store: an answer is lost":          {"interrupt/several_wait_at_once", "state/an_answer_is_recorded"},
		"a store: meta is lost":               {"values/every_field", "saver/meta_is_of_one_checkpoint"},
	}
}

// TestBroken holds what is broken to the clauses, each in a process of its own, and
// wants it to be found.
func TestBroken(t *testing.T) {
	if how := os.Getenv(brokenEnv); how != "" {
		holdBroken(t, how)
		return
	}
	for how, clauses := range broken() {
		t.Run(how, func(t *testing.T) {
			var out bytes.Buffer
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+only(clauses), "-test.timeout=60s", "-rapid.nofailfile", "-rapid.shrinktime=0s", "-rapid.checks=1000")
			child.Env = append(os.Environ(), brokenEnv+"="+how, "SEGNO_SOAK=1") // what is asked by chance is asked whole
			child.Stdout, child.Stderr = &out, &out
			if err := child.Run(); err == nil {
				t.Errorf("nobody found it")
			}
			for _, c := range clauses {
				if !strings.Contains(out.String(), "--- FAIL: TestBroken/"+c+" ") {
					t.Errorf("%s did not find it:\n%s", c, out.String())
				}
			}
		})
	}
}

// only is a pattern for these clauses.
func only(clauses []string) string {
	var patterns []string
	for _, c := range clauses {
		pattern := "^TestBroken$"
		for part := range strings.SplitSeq(c, "/") {
			pattern += "/^" + regexp.QuoteMeta(part) + "$"
		}
		patterns = append(patterns, pattern)
	}
	return strings.Join(patterns, "|")
}

func holdBroken(t *testing.T, how string) {
	clock := storetest.NewClock()
	if strings.HasPrefix(how, "a store: ") {
		storetest.Test(t, func(*testing.T) segno.Store { return brokenStore{memory.New(clock.Now), how} }, storetest.Options{Clock: clock})
		return
	}
	storetest.TestSaver(t, func(*testing.T) saver.Saver { return brokenSaver{newNotebook(time.Now), how} }, storetest.SaverOptions{})
}
