package fleet

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/programrig"
)

// TestExampleSurvivesKills kills the worker of the example program in the middle of a turn of three tools, twice. Other workers continue
// the turn, and the tools that ended do not run again.
func TestExampleSurvivesKills(t *testing.T) {
	p := programrig.Build(t)
	lease, order := "-lease=3s", segno.NewID()
	p.MustFail("", []string{lease, "-crash", "pay"}, server.URL, order)
	p.WantEffects("reserve")
	p.MustFail("", []string{lease, "-crash", "ship"}, server.URL, order)
	p.WantEffects("reserve pay")
	p.MustRun("shipped", []string{lease}, server.URL, order)
	p.MustRun("shipped", []string{lease}, server.URL, order) // it is complete
	p.WantEffects("reserve pay ship")
}
