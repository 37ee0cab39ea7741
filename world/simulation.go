package world

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Rules are the laws of a simulation with the state S. Their methods are called one at a time. A
// method that returns an error must leave the state unchanged.
type Rules[S any] interface {
	// Start returns the state at time 0, which may depend on random numbers.
	Start(r *rand.Rand) *S
	// Join adds an agent with a new name.
	Join(m Moment[S], name string) error
	// Act makes an agent do something. Its errors have [segno.KindInvalid] or [segno.KindRefused].
	Act(m Moment[S], name string, action json.RawMessage) error
	// Observe returns an agent's observation, a value for encoding/json. It must not change m.State.
	// m.Rand is nil.
	Observe(m Moment[S], name string) any
	// Tick ends the present tick. m.Time is the time after it.
	Tick(m Moment[S])
	// Check returns an error for a state that the rules could not have reached. Load then refuses the
	// state instead of failing later. names are the names of the agents.
	Check(s *S, names []string) error
	// Waiting returns those of the named agents that may still act in this tick. Rules that let
	// agents act at any time return nil.
	Waiting(s *S, names []string) []string
}

// Moment is the state and the time of a simulation during a call of its rules.
type Moment[S any] struct {
	State *S
	Time  segno.SimTime
	Rand  *rand.Rand
	Names []string // of the agents, in the order of joining
	chat  *[]Message
}

// Say adds a message of an agent to the chat. The error has [segno.KindInvalid] if the text is
// empty or longer than 500 bytes.
func (m Moment[S]) Say(from, text string) error {
	if err := CheckText(text); err != nil {
		return err
	}
	*m.chat = append(*m.chat, Message{Time: m.Time, From: from, Text: text})
	return nil
}

// CheckText returns an error unless an agent can say a text.
func CheckText(text string) error {
	if text == "" || len(text) > maxText {
		return segno.Errorf(segno.KindInvalid, "say", "", "a text needs 1 to %d bytes", maxText)
	}
	return nil
}

// Chat returns the last n messages.
func (m Moment[S]) Chat(n int) []Message {
	all := *m.chat
	return slices.Clone(all[max(0, len(all)-n):])
}

// Config describes a simulation.
type Config struct {
	Name, Format, Manual string
	Tick                 time.Duration // positive
	Seed                 uint64
	// Content describes the code, the assets and the configuration, except the seed. A
	// document loads only in a simulation with equal content.
	Content string
}

// Simulation is a [segno.World] that follows rules.
type Simulation[S any] struct {
	rules Rules[S]
	info  segno.WorldInfo

	mu     sync.Mutex
	doc    *document[S]
	pcg    *rand.PCG
	loaded bool
	// measured is set if doc contains the outcomes of its present state. The first snapshot after a change measures
	// them. A loaded document keeps its own outcomes, so that the next snapshot equals it.
	measured bool
}

// TurnBased is implemented by worlds in which agents act once per tick.
type TurnBased interface {
	// Waiting returns the names of the agents that may still act in the present tick. If it
	// is empty, there is no reason to wait before the next Advance.
	Waiting(ctx context.Context) ([]string, error)
}

// maxTicks limits the ticks of one call of Advance.
const maxTicks = 1_000_000

// maxText is the longest message in bytes.
const maxText = 500

// maxName is the longest name of an agent in bytes.
const maxName = 64

// New returns a simulation at time 0.
func New[S any](c Config, rules Rules[S]) *Simulation[S] {
	s := &Simulation[S]{rules: rules, pcg: rand.NewPCG(c.Seed, 0),
		info: segno.WorldInfo{Name: c.Name, Format: c.Format, Tick: c.Tick, Manual: c.Manual, Content: segno.HashOf([]byte(c.Format + "\n" + c.Content))}}
	s.doc = &document[S]{Header: Header{Format: s.info.Format, Content: s.info.Content}, Sessions: []agent{}, Chat: []Message{}, State: rules.Start(rand.New(s.pcg))}
	return s
}

// Info implements [segno.World].
func (s *Simulation[S]) Info() segno.WorldInfo { return s.info }

// Join implements [segno.World].
func (s *Simulation[S]) Join(ctx context.Context, session, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := segno.CheckID("join world", session); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	for _, a := range s.doc.Sessions {
		switch {
		case a.Session == session && a.Name == name:
			return nil
		case a.Session == session:
			return segno.Errorf(segno.KindConflict, "join world", name, "the session belongs to another agent")
		case a.Name == name:
			return segno.Errorf(segno.KindConflict, "join world", name, "the name is in use").WithHint("choose another name")
		}
	}
	if err := s.rules.Join(s.moment(), name); err != nil {
		return err
	}
	s.doc.Sessions = append(s.doc.Sessions, agent{Session: session, Name: name})
	s.changed()
	return nil
}

// Act implements [segno.World].
func (s *Simulation[S]) Act(ctx context.Context, session string, action json.RawMessage) (segno.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.name(ctx, "act", session)
	if err != nil {
		return nil, err
	}
	if err := s.rules.Act(s.moment(), name, action); err != nil {
		return nil, err
	}
	s.changed()
	return s.observe(name)
}

// Observe implements [segno.World].
func (s *Simulation[S]) Observe(ctx context.Context, session string) (segno.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.name(ctx, "observe", session)
	if err != nil {
		return nil, err
	}
	return s.observe(name)
}

// Advance implements [segno.World]. Each tick is one change.
func (s *Simulation[S]) Advance(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d <= 0 || d%s.info.Tick != 0 || d/s.info.Tick > maxTicks || s.doc.Time > segno.SimTime(1<<63-1-d) {
		return segno.Errorf(segno.KindInvalid, "advance world", d.String(), "the duration is not 1 to %d ticks of %s", maxTicks, s.info.Tick)
	}
	for range d / s.info.Tick {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.doc.Time += segno.SimTime(s.info.Tick)
		s.rules.Tick(s.moment())
		s.changed()
	}
	return nil
}

// Waiting implements [TurnBased].
func (s *Simulation[S]) Waiting(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules.Waiting(s.doc.State, s.names()), ctx.Err()
}

// Snapshot implements [segno.World].
func (s *Simulation[S]) Snapshot(ctx context.Context) (segno.WorldSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return segno.WorldSnapshot{}, err
	}
	var err error
	if s.doc.RNG, err = s.pcg.MarshalBinary(); err != nil {
		return segno.WorldSnapshot{}, err
	}
	if err := s.measure(); err != nil {
		return segno.WorldSnapshot{}, err
	}
	data, err := s.doc.encode()
	return segno.WorldSnapshot{Seq: s.doc.Seq, Time: s.doc.Time, Document: data}, err
}

// Load implements [segno.World].
func (s *Simulation[S]) Load(ctx context.Context, data []byte) error {
	h, err := ReadHeader(data)
	if err != nil {
		return err
	}
	if h.Format != s.info.Format || h.Content != s.info.Content {
		return segno.Errorf(segno.KindRefused, "load world", s.info.Name, "the document is of %q with another content", h.Format).
			WithHint("load it into the version of the world that wrote it")
	}
	doc, err := decode[S](data)
	if err != nil {
		return err
	}
	pcg := new(rand.PCG)
	err = cmp.Or(pcg.UnmarshalBinary(doc.RNG), doc.check(s.info.Tick))
	if err == nil {
		err = s.rules.Check(doc.State, namesOf(doc.Sessions))
	}
	if err == nil && doc.Outcomes != nil && !maps.Equal(doc.Outcomes, s.outcomesOf(doc)) {
		err = errors.New("the outcomes are not those of the state")
	}
	if err != nil {
		return segno.NewError(segno.KindCorrupt, "load world", s.info.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.doc.Seq != 0 || s.loaded {
		return segno.Errorf(segno.KindRefused, "load world", s.info.Name, "the world was used already").WithHint("load into a new world")
	}
	s.doc, s.pcg, s.loaded, s.measured = doc, pcg, true, true
	return nil
}

// changed records a change of the state.
func (s *Simulation[S]) changed() {
	s.doc.Seq++
	s.measured = false
}

// outcomesOf returns the outcomes of a document's state, or nil if the rules measure none.
func (s *Simulation[S]) outcomesOf(doc *document[S]) Outcomes {
	if m, ok := s.rules.(Measurer[S]); ok {
		return m.Outcomes(doc.State, namesOf(doc.Sessions))
	}
	return nil
}

// measure updates the outcomes in the document from its state. If a name is not allowed, the rules have a defect.
func (s *Simulation[S]) measure() error {
	if s.measured {
		return nil
	}
	o := s.outcomesOf(s.doc)
	if err := o.Check(); err != nil {
		return err
	}
	s.doc.Outcomes, s.measured = o, true
	return nil
}

// moment returns the present moment for a call that changes the state.
func (s *Simulation[S]) moment() Moment[S] {
	return Moment[S]{State: s.doc.State, Time: s.doc.Time, Rand: rand.New(s.pcg), Names: s.names(), chat: &s.doc.Chat}
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return segno.Errorf(segno.KindInvalid, "join world", "", "a name needs 1 to %d bytes of UTF-8", maxName)
	}
	return nil
}

// check returns an error for a document that no simulation with this tick could have written. The document may
// come from an archive of unknown origin, so its sum proves nothing.
func (d *document[S]) check(tick time.Duration) error {
	if d.Time < 0 || d.Time%segno.SimTime(tick) != 0 {
		return fmt.Errorf("the time is %s", d.Time)
	}
	names, sessions := map[string]bool{}, map[string]bool{}
	for _, a := range d.Sessions {
		if err := cmp.Or(segno.CheckID("load world", a.Session), checkName(a.Name)); err != nil {
			return err
		}
		if names[a.Name] || sessions[a.Session] {
			return fmt.Errorf("the agent %q is there twice", a.Name)
		}
		names[a.Name], sessions[a.Session] = true, true
	}
	return nil
}

// name returns the name of the agent of a session.
func (s *Simulation[S]) name(ctx context.Context, op, session string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	for _, a := range s.doc.Sessions {
		if a.Session == session {
			return a.Name, nil
		}
	}
	return "", segno.Errorf(segno.KindNotFound, op, "", "the session has not joined the world").WithHint("join first")
}

func (s *Simulation[S]) observe(name string) (segno.Observation, error) {
	m := s.moment()
	m.Rand = nil
	return json.Marshal(s.rules.Observe(m, name))
}

func (s *Simulation[S]) names() []string { return namesOf(s.doc.Sessions) }

func namesOf(agents []agent) []string {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	return names
}
