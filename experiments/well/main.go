// Command well is a world for agents in Go: agents draw water from one well, which rain fills. docs/worlds.md
// explains it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
	"github.com/dalsegno/segno/world/httpworld"
)

const manual = `# Well
- {"do": "draw", "buckets": 2}: draw 1 to 5 buckets from the well
- {"do": "say", "text": "…"}: all agents read it
`

// State is the complete state of the world.
type State struct {
	Water int            `json:"water"` // buckets
	Drawn map[string]int `json:"drawn"` // by agent
}

// Action is an action of an agent.
type Action struct {
	Do      string `json:"do"`
	Buckets int    `json:"buckets,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Observation is what an agent perceives.
type Observation struct {
	Time  segno.SimTime   `json:"time"`
	Water int             `json:"water"`
	Drawn int             `json:"drawn"` // by this agent
	Chat  []world.Message `json:"chat"`
}

type rules struct{}

func (rules) Start(r *rand.Rand) *State {
	return &State{Water: 20 + r.IntN(10), Drawn: map[string]int{}}
}

func (rules) Join(m world.Moment[State], name string) error {
	m.State.Drawn[name] = 0
	return nil
}

func (rules) Act(m world.Moment[State], name string, action json.RawMessage) error {
	a, err := world.DecodeAction[Action](action)
	switch {
	case err != nil:
		return err
	case a.Do == "say":
		return m.Say(name, a.Text)
	case a.Do != "draw" || a.Buckets < 1 || a.Buckets > 5:
		return segno.Errorf(segno.KindInvalid, "act", a.Do, "draw 1 to 5 buckets, or say a text")
	case a.Buckets > m.State.Water:
		return segno.Errorf(segno.KindRefused, "draw", "", "the well has %d buckets", m.State.Water)
	}
	m.State.Water -= a.Buckets
	m.State.Drawn[name] += a.Buckets
	return nil
}

func (rules) Observe(m world.Moment[State], name string) any {
	return Observation{Time: m.Time, Water: m.State.Water, Drawn: m.State.Drawn[name], Chat: m.Chat(10)}
}

func (rules) Tick(m world.Moment[State]) { m.State.Water += m.Rand.IntN(4) } // rain

func (rules) Check(s *State, names []string) error {
	if s.Water < 0 || len(s.Drawn) != len(names) {
		return errors.New("the well or its agents are inconsistent")
	}
	for _, name := range names {
		if drawn, known := s.Drawn[name]; !known || drawn < 0 {
			return fmt.Errorf("agent %q has drawn %d", name, drawn)
		}
	}
	return nil
}

func (rules) Waiting(*State, []string) []string { return nil } // agents act at any time

// Outcomes are columns of generation_chain.csv.
func (rules) Outcomes(s *State, _ []string) world.Outcomes {
	drawn := 0
	for _, n := range s.Drawn {
		drawn += n
	}
	return world.Outcomes{"water": float64(s.Water), "drawn": float64(drawn)}
}

func newWell(seed uint64) segno.World {
	return world.New(world.Config{Name: "well", Format: "well/1", Manual: manual, Tick: time.Minute, Seed: seed}, rules{})
}

func main() {
	if err := httpworld.Serve(context.Background(), newWell(1), os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
