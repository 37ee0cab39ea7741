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
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
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

func (b brokenSaver) rename(a segno.Address) segno.Address {
	switch b.how {
	case "one name for a/b and a_b":
		a.Thread = strings.ReplaceAll(a.Thread, "/", "_")
	case "namespaces joined with a colon":
		if a.Namespace != "" {
			a = segno.Address{Thread: a.Thread + ":" + a.Namespace}
		}
	}
	return a
}

func (b brokenSaver) Save(ctx context.Context, s segno.Saved) (segno.Saved, error) {
	at := s.Address
	s.Address = b.rename(at)
	switch b.how {
	case "the last writer wins":
		if now, err := b.notebook.Load(ctx, s.Address); err == nil {
			s.ID = now.ID
		}
	case "answers count again":
		for _, d := range s.Decisions {
			s.Interrupts = append(s.Interrupts, segno.Interrupt{ID: d.Interrupt, Allowed: []segno.DecisionKind{d.Kind}, ArgsHash: segno.HashOf(nil)})
		}
		s.Decisions = nil
	case "a value that is no more stays":
		if now, err := b.notebook.Load(ctx, s.Address); err == nil {
			kept := map[string]json.RawMessage{}
			maps.Copy(kept, now.State)
			maps.Copy(kept, s.State)
			s.State = kept
		}
	}
	got, err := b.notebook.Save(ctx, s)
	switch b.how {
	case "references are kept":
		if p := b.pages[s.Address]; err == nil {
			p.Messages, p.State, p.Meta = s.Messages, s.State, s.Meta
		}
	case "created at every save":
		if p := b.pages[s.Address]; err == nil {
			p.Created = p.Updated
		}
	}
	got.Address = at
	return got, err
}

func (b brokenSaver) Load(ctx context.Context, at segno.Address) (segno.Saved, error) {
	got, err := b.notebook.Load(ctx, b.rename(at))
	if b.how == "nothing is no error" && segno.KindOf(err) == segno.KindNotFound {
		return segno.Saved{Address: at}, nil
	}
	got.Address = at
	return got, err
}

func (b brokenSaver) Exists(ctx context.Context, at segno.Address) (bool, error) {
	return b.notebook.Exists(ctx, b.rename(at))
}

func (b brokenSaver) Delete(ctx context.Context, at segno.Address) error {
	if _, err := b.Load(ctx, at); b.how == "deleting nothing is an error" && err != nil {
		return err
	}
	if b.how == "namespaces outlive their thread" {
		delete(b.pages, at)
		return nil
	}
	return b.notebook.Delete(ctx, b.rename(at))
}

func (b brokenSaver) List(ctx context.Context, namespace string) iter.Seq2[segno.SavedInfo, error] {
	return func(yield func(segno.SavedInfo, error) bool) {
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
	case "a store: steps are not looked at":
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

func (b brokenStore) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	switch b.how {
	case "a store: parts are whole":
		q.Whole = false
	case "a store: parts are everybody's":
		q.Of = ""
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

// broken is each kind that is broken, and the clauses that must say so.
func broken() map[string][]string {
	return map[string][]string{
		"one name for a/b and a_b":            {"saver/a/b_and_a_b"},
		"namespaces joined with a colon":      {"saver/hostile_addresses"},
		"the last writer wins":                {"saver/a_stale_save", "saver/one_of_K_saves", "saver/a_thread_begins_once"},
		"answers count again":                 {"interrupt/single_use"},
		"a value that is no more stays":       {"saver/state", "langgraph/test_put_channel_removed"},
		"references are kept":                 {"saver/a_loaded_value_is_a_copy"},
		"created at every save":               {"saver/created_is_kept"},
		"nothing is no error":                 {"saver/nothing_there", "langgraph/test_get_tuple_nonexistent_returns_none"},
		"deleting nothing is an error":        {"saver/delete_missing_is_fine", "langgraph/test_delete_thread_nonexistent_noop"},
		"namespaces outlive their thread":     {"saver/a_thread_goes_with_its_namespaces", "langgraph/test_delete_thread_removes_all_namespaces"},
		"colons are not listed":               {"saver/ids_with_a_colon_are_listed"},
		"a store: the limit comes first":      {"list/limits_come_last"},
		"a store: one pair of meta is enough": {"list/meta", "list/any_query_of_checkpoints", "langgraph/test_list_metadata_filter_multiple_keys"},
		"a store: steps are not looked at":    {"list/steps", "langgraph/test_list_metadata_filter_step"},
		"a store: parts are whole":            {"list/parts", "list/any_query_of_threads", "saver/namespaces_are_apart"},
		"a store: parts are everybody's":      {"list/parts"},
		"a store: an answer is lost":          {"interrupt/several_wait_at_once", "state/an_answer_is_recorded"},
		"a store: meta is lost":               {"list/meta", "saver/meta_is_of_one_checkpoint", "langgraph/test_put_preserves_metadata"},
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
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+only(clauses), "-test.timeout=60s", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			child.Env = append(os.Environ(), brokenEnv+"="+how)
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
	storetest.TestSaver(t, func(*testing.T) segno.Saver { return brokenSaver{newNotebook(time.Now), how} }, storetest.SaverOptions{})
}
