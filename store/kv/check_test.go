package kv_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// problemsOf returns the errors that Check reports.
func problemsOf(t *testing.T, s *kv.Store) (problems []string) {
	t.Helper()
	_, err := s.Check(t.Context(), segno.CheckPolicy{}, func(err error) bool {
		if segno.KindOf(err) != segno.KindCorrupt {
			t.Errorf("%v has kind %s", err, segno.KindOf(err))
		}
		problems = append(problems, err.Error())
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// checkedStore has the threads of steps, a thread that waits for a decision, and a thread whose id is
// too long for a key.
func checkedStore(t *testing.T, in kv.KV, o kv.Options) *kv.Store {
	t.Helper()
	s := mustOpen(t, in, o)
	for _, step := range steps() {
		if err := step(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	question, err := segno.Interrupt{ID: "q", Thread: "asks", Call: "c", Tool: "pay", Args: []byte(`{}`), ArgsHash: segno.HashArgs([]byte(`{}`))}.Entry()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []segno.ThreadID{"asks", segno.ThreadID(strings.Repeat("long/", 100))} {
		name := segno.CommitID("of " + string(id[:4]))
		if _, err := s.Commit(t.Context(), segno.Commit{ID: name, Thread: id, Create: &segno.Thread{ID: id},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}, Entries: []segno.Entry{question}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// deleteKeys deletes the keys with a prefix and returns them.
func deleteKeys(t *testing.T, m *kvtest.Map, prefix string) (keys []string) {
	t.Helper()
	for item, err := range m.List(t.Context(), prefix, "", 0) {
		if err == nil {
			keys = append(keys, item.Key)
			err = m.Delete(t.Context(), item.Key, kv.RevAny)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// TestRebuildIndex removes each group of index entries, and damages each entry. Check must report
// every missing key, and after RebuildIndex all reads must return the same as before.
func TestRebuildIndex(t *testing.T) {
	for name, x := range map[string]struct {
		able func(*kvtest.Map) kv.KV
		key  []byte
	}{"plain": {able: plain}, "batch": {able: able}, "sealed": {able, storetest.SealedKey()}} {
		t.Run(name, func(t *testing.T) {
			o := kv.Options{Key: x.key, Clock: noon}
			m := kvtest.NewMap(noon)
			checkedStore(t, x.able(m), o)
			open := func() *kv.Store { return mustOpen(t, x.able(m), o) }
			inbox := func(s *kv.Store) (found []segno.ThreadID) {
				for th, err := range s.Threads(t.Context(), segno.ThreadQuery{Phase: segno.PhaseWaiting}) {
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, th.ID)
				}
				return found
			}
			before, errs := readEach(t, open())
			waiting := inbox(open())
			if problems := problemsOf(t, open()); len(problems)+len(errs) > 0 || len(waiting) != 2 {
				t.Fatalf("before: %q, %v, waiting %q", problems, errs, waiting)
			}
			if n, err := open().RebuildIndex(t.Context()); n != 0 || err != nil {
				t.Errorf("of an undamaged store %d entries were written, %v", n, err)
			}
			restored := func(what string) {
				t.Helper()
				if n, err := open().RebuildIndex(t.Context()); n == 0 || err != nil {
					t.Errorf("%s: %d entries were written, %v", what, n, err)
				}
				after, errs := readEach(t, open())
				if diff := cmp.Diff(before, after); diff != "" || len(errs) > 0 || !slices.Equal(inbox(open()), waiting) {
					t.Errorf("%s, then rebuilt: errors %v, waiting %q (-before +after):\n%s", what, errs, inbox(open()), diff)
				}
				if problems := problemsOf(t, open()); len(problems) > 0 {
					t.Errorf("%s, then rebuilt: %q", what, problems)
				}
			}
			for _, group := range []string{"threads{}", "open{}", "pins{}", "s{", "c{"} {
				lost := deleteKeys(t, m, group)
				problems := strings.Join(problemsOf(t, open()), "\n")
				for _, key := range lost {
					if !strings.Contains(problems, key) {
						t.Errorf("%s is lost, and Check reports\n%s", key, problems)
					}
				}
				if len(lost) == 0 {
					t.Errorf("the store has no %s", group)
				}
				if group == "open{}" && len(inbox(open())) != 0 {
					t.Error("the loss of open{} is not what its documentation says")
				}
				restored("without " + group)
			}
			for _, item := range itemsOf(t, m) {
				if group, _, _ := strings.Cut(item.Key, "}"); group == "t{" || strings.HasPrefix(group, "t{") || strings.HasPrefix(group, "o{") ||
					group == "seal{" || group == "phases{" {
					continue
				}
				set(t, m, item.Key, flip(item.Val, 1))
				restored("a damaged " + item.Key)
			}
		})
	}
}

// TestCheckReportsDamage damages and removes each record and each object that a checkpoint names.
// Check must report its key and continue.
func TestCheckReportsDamage(t *testing.T) {
	m := kvtest.NewMap(noon)
	s := checkedStore(t, able(m), kv.Options{})
	staged, err := stage(t.Context(), s, "a state")
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.Head(t.Context(), "asks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), segno.Commit{ID: "with a state", Thread: "asks", Parent: head.Head, Expect: head.Head, Staged: staged,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, State: &segno.Document{Type: "test/1", Data: segno.HashOf([]byte("a state"))}}}); err != nil {
		t.Fatal(err)
	}
	trace := func(_ context.Context, _ segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
		if c.State != nil {
			visit(c.State.Data)
		}
		return nil
	}
	check := func() (segno.Checked, string) {
		var problems []string
		done, err := mustOpen(t, able(m), kv.Options{}).Check(t.Context(), segno.CheckPolicy{Trace: trace}, func(err error) bool {
			problems = append(problems, err.Error())
			return true
		})
		if err != nil || done.Damaged != len(problems) {
			t.Fatalf("%+v, %q, %v", done, problems, err)
		}
		return done, strings.Join(problems, "\n")
	}
	whole, problems := check()
	if problems != "" || whole.Threads != 5 || whole.Objects != 1 {
		t.Fatalf("%+v\n%s", whole, problems)
	}
	for _, item := range itemsOf(t, m) {
		isObject := strings.HasPrefix(item.Key, "o{"+segno.HashOf([]byte("a state")).String())
		if !strings.Contains(item.Key, "}log/") && !isObject {
			continue
		}
		set(t, m, item.Key, flip(item.Val, len(item.Val)-1))
		if _, problems := check(); !strings.Contains(problems, item.Key) {
			t.Errorf("%s is damaged, and Check reports\n%s", item.Key, problems)
		}
		if err := m.Delete(t.Context(), item.Key, kv.RevAny); err != nil {
			t.Fatal(err)
		}
		want := item.Key
		if isObject {
			want = segno.HashOf([]byte("a state")).String() + " is missing"
		}
		if done, problems := check(); !strings.Contains(problems, want) || done.Threads != whole.Threads {
			t.Errorf("%s is lost, and Check reports %+v\n%s", item.Key, done, problems)
		}
		set(t, m, item.Key, item.Val)
	}
	if again, problems := check(); problems != "" || again != whole {
		t.Errorf("repaired: %+v, want %+v\n%s", again, whole, problems)
	}
	stopped := 0
	deleteKeys(t, m, "c{")
	if _, err := s.Check(t.Context(), segno.CheckPolicy{}, func(error) bool { stopped++; return false }); err != nil || stopped != 1 {
		t.Errorf("a check that is stopped reports %d problems, %v", stopped, err)
	}
}
