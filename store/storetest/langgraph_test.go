package storetest

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/store/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLangGraph holds the table of their clauses to be whole: all 89 once, each
// with a clause that runs here, one of ours that exists, or a reason.
func TestLangGraph(t *testing.T) {
	ours := map[string]bool{}
	for _, g := range allGroups() {
		for _, c := range g.clauses {
			ours[g.name+"/"+c.name] = true
		}
	}
	count, seen := map[string]int{}, map[string]bool{}
	for _, row := range langgraph() {
		if seen[row.name] {
			t.Errorf("%s is there twice", row.name)
		}
		seen[row.name] = true
		count[capability(row.name)]++
		none := strings.HasPrefix(row.here, "no meaning: ")
		switch {
		case (row.test != nil) == (none || row.see != ""), none && row.see != "", len(row.here) < 10:
			t.Errorf("%s: it needs one of a test, a clause of ours and a reason", row.name)
		case row.see != "" && !ours[row.see]:
			t.Errorf("%s: there is no clause %s", row.name, row.see)
		case row.test != nil && !ours["langgraph/"+row.name]:
			t.Errorf("%s: its clause is not asked", row.name)
		}
		if row.test != nil {
			t.Run(row.name, func(t *testing.T) {
				clock := NewClock()
				f := onto(t, memory.New(clock.Now), Options{Clock: clock})
				for _, a := range row.wants {
					if !f.abilities()[a] {
						t.Fatalf("the memory store has no %s", a)
					}
				}
				clause{row.name, row.here, row.test}.ask(f)
			})
		}
	}
	want := map[string]int{"put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5, "delete_for_runs": 7, "copy_thread": 8, "prune": 8, "history": 8}
	for name, n := range want {
		if count[name] != n {
			t.Errorf("%s: %d clauses instead of %d", name, count[name], n)
		}
	}
	if len(seen) != 89 {
		t.Errorf("%d clauses instead of 89", len(seen))
	}
}

// capability is what a clause of theirs is about: the longest that begins its name.
func capability(name string) (is string) {
	for _, c := range []string{"put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune", "history"} {
		if strings.HasPrefix(name, "test_"+c+"_") && len(c) > len(is) {
			is = c
		}
	}
	return is
}

// TestNamesAreUnique keeps a clause's path good enough to find it by.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range allGroups() {
		for _, c := range g.clauses {
			path := g.name + "/" + c.name
			if seen[path] || c.rule == "" || c.test == nil {
				t.Errorf("%s: it is there twice, or lacks its rule", path)
			}
			seen[path] = true
		}
	}
}
