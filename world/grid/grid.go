// Package grid is the smallest world: agents walk on a grid, take coins and talk. Each action takes
// effect immediately. It is the example for the rules of a new world.
package grid

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

const (
	format = "grid/1"
	tick   = time.Second
	side   = 8 // cells
	sight  = 2 // cells in each direction
)

// manual tells agents how to act.
const manual = `# Grid

You are on a grid of 8 by 8 cells. x grows to the east and y to the south. You see 2 cells far.
Coins appear over time.

Actions:

- {"do": "move", "direction": "north"}, or east, south, west: walk one cell
- {"do": "take"}: take the coin in your cell
- {"do": "say", "text": "…"}: all agents read it, at most 500 bytes
`

// State is the state of a grid.
type State struct {
	Agents map[string]*Walker `json:"agents"`
	Coins  []Point            `json:"coins"` // in order; a cell has at most one
}

// Walker is one agent.
type Walker struct {
	At    Point `json:"at"`
	Coins int   `json:"coins"`
}

// Point is a cell.
type Point struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// Action is an action of an agent.
type Action struct {
	Do        string `json:"do"`
	Direction string `json:"direction,omitempty"`
	Text      string `json:"text,omitempty"`
}

// Observation is what an agent perceives.
type Observation struct {
	Time  segno.SimTime   `json:"time"`
	You   Walker          `json:"you"`
	Near  []Neighbor      `json:"near"`
	Coins []Point         `json:"coins"`
	Chat  []world.Message `json:"chat"` // the newest 10
}

// Neighbor is another agent in sight.
type Neighbor struct {
	Name string `json:"name"`
	At   Point  `json:"at"`
}

// New returns a grid whose coins depend on seed.
func New(seed uint64) *world.Simulation[State] {
	return world.New(world.Config{Name: "grid", Format: format, Manual: manual, Tick: tick, Seed: seed}, rules{})
}

type rules struct{}

func (rules) Start(r *rand.Rand) *State {
	s := &State{Agents: map[string]*Walker{}, Coins: []Point{}}
	for range side {
		s.grow(r)
	}
	return s
}

func (rules) Join(m world.Moment[State], name string) error {
	m.State.Agents[name] = &Walker{At: randomPoint(m.Rand)}
	return nil
}

func (rules) Act(m world.Moment[State], name string, action json.RawMessage) error {
	a, err := world.DecodeAction[Action](action)
	if err != nil {
		return err
	}
	you := m.State.Agents[name]
	switch a.Do {
	case "move":
		return you.move(a.Direction)
	case "take":
		i, found := slices.BinarySearchFunc(m.State.Coins, you.At, comparePoints)
		if !found {
			return segno.Errorf(segno.KindRefused, "take", "", "there is no coin here")
		}
		m.State.Coins = slices.Delete(m.State.Coins, i, i+1)
		you.Coins++
		return nil
	case "say":
		return m.Say(name, a.Text)
	}
	return segno.Errorf(segno.KindInvalid, "act", a.Do, "unknown action").WithHint("move, take or say")
}

// move walks one cell.
func (w *Walker) move(direction string) error {
	steps := map[string]Point{"north": {0, -1}, "east": {1, 0}, "south": {0, 1}, "west": {-1, 0}}
	step, known := steps[direction]
	if !known {
		return segno.Errorf(segno.KindInvalid, "move", direction, "unknown direction").WithHint("north, east, south or west")
	}
	to := Point{w.At.X + step.X, w.At.Y + step.Y}
	if !to.isValid() {
		return segno.Errorf(segno.KindRefused, "move", direction, "the grid ends here")
	}
	w.At = to
	return nil
}

func (rules) Observe(m world.Moment[State], name string) any {
	you := m.State.Agents[name]
	o := Observation{Time: m.Time, You: *you, Near: []Neighbor{}, Coins: []Point{}, Chat: m.Chat(10)}
	for _, other := range m.Names {
		if at := m.State.Agents[other].At; other != name && you.At.sees(at) {
			o.Near = append(o.Near, Neighbor{Name: other, At: at})
		}
	}
	for _, c := range m.State.Coins {
		if you.At.sees(c) {
			o.Coins = append(o.Coins, c)
		}
	}
	return o
}

func (rules) Tick(m world.Moment[State]) {
	if m.Rand.IntN(3) == 0 {
		m.State.grow(m.Rand)
	}
}

func (rules) Check(s *State, names []string) error {
	if len(s.Agents) != len(names) || !slices.IsSortedFunc(s.Coins, comparePoints) {
		return errors.New("the agents or the coins are inconsistent")
	}
	for _, name := range names {
		if w := s.Agents[name]; w == nil || !w.At.isValid() || w.Coins < 0 {
			return fmt.Errorf("agent %q is nowhere", name)
		}
	}
	for i, c := range s.Coins {
		if !c.isValid() || i > 0 && c == s.Coins[i-1] {
			return fmt.Errorf("a coin cannot be at %v", c)
		}
	}
	return nil
}

func (rules) Waiting(*State, []string) []string { return nil }

// Outcomes implements [world.Measurer].
func (rules) Outcomes(s *State, _ []string) world.Outcomes {
	taken, most := 0, 0
	for _, w := range s.Agents {
		taken += w.Coins
		most = max(most, w.Coins)
	}
	return world.Outcomes{"coins_taken": float64(taken), "coins_left": float64(len(s.Coins)), "most_coins": float64(most)}
}

// grow adds a coin, unless the random cell has one.
func (s *State) grow(r *rand.Rand) {
	at := randomPoint(r)
	if i, found := slices.BinarySearchFunc(s.Coins, at, comparePoints); !found {
		s.Coins = slices.Insert(s.Coins, i, at)
	}
}

func randomPoint(r *rand.Rand) Point { return Point{r.IntN(side), r.IntN(side)} }

func comparePoints(a, b Point) int { return (a.Y-b.Y)*side + a.X - b.X }

func (p Point) isValid() bool { return p.X >= 0 && p.X < side && p.Y >= 0 && p.Y < side }

func (p Point) sees(q Point) bool {
	return max(p.X-q.X, q.X-p.X) <= sight && max(p.Y-q.Y, q.Y-p.Y) <= sight
}
