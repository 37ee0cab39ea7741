package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// In a grid, actions take effect immediately, so the order of turns within a tick decides which agent gets a coin. If
// the order is fixed, every run with reproducible agents must leave the same worlds and files. Unless SEGNO_SOAK is set,
// there are two runs.
func TestFixedOrderIsReproducible(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes seconds
	}
	t.Parallel()
	text := strings.NewReplacer(`"company"`, `"grid"`, "seed = 7", "seed = 3\norder = \"fixed\"").Replace(villageTOML)
	var first map[string]string
	for i := range soak.Count(t, 2, 5) {
		x := newExperiment(t, text, "0.1")
		x.mustRun()
		if first == nil {
			first = x.outcome()
		} else if diff := cmp.Diff(first, x.outcome()); diff != "" {
			t.Fatalf("run %d differs from the first:\n%s", i+1, diff)
		}
	}
	x := newExperiment(t, strings.Replace(text, `"fixed"`, `"backwards"`, 1), "0")
	if out, err := x.run(); err == nil || !strings.Contains(out, `order is "backwards", not together or fixed`) {
		t.Errorf("an unknown order: %v\n%s", err, out)
	}
}
