// Package company is a world for several agents. Each leads a branch of a trading company: it orders goods
// that arrive days later, sets prices, trades with the other branches and talks with them.
//
// An agent acts once in each tick, or passes. At the end of a tick the world applies all actions of the
// tick, in the order in which the agents joined. So the order in which actions arrive within a tick does
// not matter, and a run that is repeated from a checkpoint takes the same course.
package company

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

const (
	format = "company/1"
	tick   = 6 * time.Hour
	day    = 24 * time.Hour
)

// basePrice returns the goods and the supplier's first prices in cents.
func basePrice() map[string]int64 { return map[string]int64{"beans": 300, "cups": 200, "honey": 500} }

// goods returns the names of the goods, in order.
func goods() []string { return slices.Sorted(maps.Keys(basePrice())) }

const (
	firstCash  = 200_00
	firstStock = 5
	rent       = 8_00 // per day
	maxOrder   = 50   // units
	maxPrice   = 1000_00
)

// State is the state of the company.
type State struct {
	Branches map[string]*Branch `json:"branches"`
	Market   map[string]int64   `json:"market"` // the supplier's prices
	Fair     string             `json:"fair"`   // the good that customers want today, or ""
	Queue    []Event            `json:"queue"`  // of the future, in order
	Offers   []Offer            `json:"offers"` // until the end of the day
	Pending  map[string]Action  `json:"pending"`
	Ledger   []Line             `json:"ledger"`
	NextID   int                `json:"next_id"`
}

// Branch belongs to one agent. Its maps have all goods. Amounts of money are in cents.
type Branch struct {
	Cash   int64            `json:"cash"`
	Stock  map[string]int   `json:"stock"`
	Prices map[string]int64 `json:"prices"` // for customers
}

// Event is an event in the future.
type Event struct {
	ID       int           `json:"id"`
	At       segno.SimTime `json:"at"`
	Kind     EventKind     `json:"kind"`
	Agent    string        `json:"agent,omitempty"`
	Good     string        `json:"good"`
	Quantity int           `json:"quantity,omitempty"`
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of event.
const (
	EventDelivery EventKind = "delivery" // ordered goods arrive
	EventFair     EventKind = "fair"     // customers want twice as much of a good that day
)

// Offer is an offer of one branch to sell to another.
type Offer struct {
	ID       int    `json:"id"`
	From     string `json:"from"`
	To       string `json:"to"`
	Good     string `json:"good"`
	Quantity int    `json:"quantity"`
	Price    int64  `json:"price"` // per unit
}

// New returns a company. Market, customers and the weather depend on seed.
func New(seed uint64) *world.Simulation[State] {
	return world.New(world.Config{Name: "company", Format: format, Manual: manual, Tick: tick, Seed: seed}, rules{})
}

type rules struct{}

func (rules) Start(*rand.Rand) *State {
	return &State{Branches: map[string]*Branch{}, Market: basePrice(), Queue: []Event{}, Offers: []Offer{},
		Pending: map[string]Action{}, Ledger: []Line{}, NextID: 1}
}

func (rules) Join(m world.Moment[State], name string) error {
	b := &Branch{Cash: firstCash, Stock: map[string]int{}, Prices: map[string]int64{}}
	for good, price := range basePrice() {
		b.Stock[good], b.Prices[good] = firstStock, 2*price
	}
	m.State.Branches[name] = b
	m.State.write(Line{Time: m.Time, Agent: name, Kind: LineJoin, Amount: firstCash})
	return nil
}

// Act checks the action and records it for the end of the tick.
func (rules) Act(m world.Moment[State], name string, action json.RawMessage) error {
	a, err := world.DecodeAction[Action](action)
	if err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	if _, acted := m.State.Pending[name]; acted {
		return segno.Errorf(segno.KindRefused, "act", string(a.Do), "you acted already in this tick").WithHint("wait for the next tick")
	}
	m.State.Pending[name] = a
	return nil
}

func (rules) Waiting(s *State, names []string) []string {
	waiting := []string{}
	for _, name := range names {
		if _, acted := s.Pending[name]; !acted {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// Tick applies the actions of the tick, and then the events up to its end.
func (rules) Tick(m world.Moment[State]) {
	end := m.Time
	m.Time -= segno.SimTime(tick)
	for _, name := range m.Names {
		if a, acted := m.State.Pending[name]; acted {
			apply(m, name, a)
		}
	}
	clear(m.State.Pending)
	m.Time = end
	if m.Time%segno.SimTime(day) == 0 {
		closeDay(m)
	}
	for len(m.State.Queue) > 0 && m.State.Queue[0].At <= m.Time {
		e := m.State.Queue[0]
		m.State.Queue = slices.Delete(m.State.Queue, 0, 1)
		m.State.happen(e)
	}
}

// happen applies the effect of an event.
func (s *State) happen(e Event) {
	switch e.Kind {
	case EventDelivery:
		s.Branches[e.Agent].Stock[e.Good] += e.Quantity
		s.write(Line{Time: e.At, Agent: e.Agent, Kind: LineDelivery, Good: e.Good, Quantity: e.Quantity})
	case EventFair:
		s.Fair = e.Good
		s.write(Line{Time: e.At, Kind: LineFair, Good: e.Good})
	}
}

// schedule adds an event to the queue.
func (s *State) schedule(e Event) {
	e.ID = s.newID()
	i, _ := slices.BinarySearchFunc(s.Queue, e, compareEvents)
	s.Queue = slices.Insert(s.Queue, i, e)
}

func compareEvents(a, b Event) int {
	if a.At != b.At {
		return int(min(1, max(-1, a.At-b.At)))
	}
	return a.ID - b.ID
}

func (s *State) newID() int {
	s.NextID++
	return s.NextID - 1
}
