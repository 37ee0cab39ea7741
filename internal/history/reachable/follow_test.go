package reachable_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestAMissingLogIsReportedOnce traces a session without its log. A check knows from its own list which objects exist, and returns
// false for the others: the trace then returns no error, because the check has reported the log. A collection gets the error.
func TestAMissingLogIsReportedOnce(t *testing.T) {
	s := memory.New(nil)
	defer s.Close()
	missing := segno.Checkpoint{Session: &segno.Position{Agent: claude.Agent, Session: "s", Leaf: "x", Log: segno.Hash{1}, Sidecars: segno.Hash{2}}}
	for _, exists := range []bool{false, true} {
		var visited []segno.Hash
		err := new(reachable.Tracer).Trace(t.Context(), s.Objects(), missing, func(name segno.Hash) bool {
			visited = append(visited, name)
			return exists
		})
		if (segno.KindOf(err) == segno.KindNotFound) != exists || (err != nil) != exists {
			t.Errorf("visit returns %v: the trace returns %v", exists, err)
		}
		if len(visited) != 2 {
			t.Errorf("the trace visited %v", visited)
		}
	}
}
