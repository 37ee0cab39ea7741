package world_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// counter contains the rules of a world that counts the ticks. It measures them if it has a name.
type counter struct{ name string }

type count struct {
	Ticks int `json:"ticks"`
}

func (counter) Start(*rand.Rand) *count                { return &count{} }
func (counter) Join(world.Moment[count], string) error { return nil }
func (counter) Act(world.Moment[count], string, json.RawMessage) error {
	return errors.New("nothing to do")
}
func (counter) Observe(m world.Moment[count], _ string) any    { return m.State }
func (counter) Tick(m world.Moment[count])                     { m.State.Ticks++ }
func (counter) Check(*count, []string) error                   { return nil }
func (counter) Waiting(*count, []string) []string              { return nil }
func (c counter) Outcomes(s *count, _ []string) world.Outcomes { return c.measure(s) }
func newCounter(name string) *world.Simulation[count] {
	return world.New(world.Config{Name: "counter", Format: "counter/1", Tick: time.Second}, counter{name})
}

func (c counter) measure(s *count) world.Outcomes {
	switch c.name {
	case "":
		return nil
	case "infinite":
		return world.Outcomes{c.name: math.Inf(1)}
	}
	return world.Outcomes{c.name: float64(s.Ticks)}
}

func snapshot(t *testing.T, w segno.World) []byte {
	t.Helper()
	s, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Document
}

// TestOutcomesOfASimulation checks that the outcomes are those of the state, in each document and after a restore.
func TestOutcomesOfASimulation(t *testing.T) {
	w := newCounter("passed")
	for i := range 3 {
		got, err := world.ReadOutcomes(snapshot(t, w))
		if diff := cmp.Diff(world.Outcomes{"passed": float64(i)}, got); diff != "" || err != nil {
			t.Errorf("after %d ticks: %s, %v", i, diff, err)
		}
		if err := w.Advance(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	document := snapshot(t, w)
	again := newCounter("passed")
	if err := again.Load(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(document), string(snapshot(t, again))); diff != "" {
		t.Error(diff)
	}
	other := newCounter("others")
	if err := other.Load(t.Context(), document); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("outcomes of another state: %v", err)
	}
}

// TestDocumentsWithoutOutcomes loads documents of an earlier version of the rules. A document stays the same if it is
// saved again without a change. After the next change, it has outcomes.
func TestDocumentsWithoutOutcomes(t *testing.T) {
	old := newCounter("")
	if err := old.Advance(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	document := snapshot(t, old)
	w := newCounter("passed")
	if err := w.Load(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(document), string(snapshot(t, w))); diff != "" {
		t.Error(diff)
	}
	if err := w.Advance(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if got, err := world.ReadOutcomes(snapshot(t, w)); err != nil || got["passed"] != 2 {
		t.Errorf("the outcomes are %v, %v", got, err)
	}
}

// TestUnusableOutcomes checks that each snapshot with unusable outcomes returns an error.
func TestUnusableOutcomes(t *testing.T) {
	for _, name := range []string{"Ticks", "ticks", "infinite", "a-b", "1st", strings.Repeat("x", 41)} {
		w := newCounter(name)
		for range 2 {
			if _, err := w.Snapshot(context.Background()); segno.KindOf(err) != segno.KindInvalid || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
