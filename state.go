package segno

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// State is the state of a Go agent at the end of a line. It is folded from the line's entries
// and never stored whole, so that a step writes only its own changes. A State shares its bodies
// with the line that it was folded from.
type State struct {
	At     CommitID // the newest commit folded
	Step   int      // of the newest checkpoint that has a step
	Turn   int
	Parent CommitID // the parent of the newest checkpoint

	Messages []json.RawMessage
	Values   map[string]json.RawMessage
	// Interrupts wait for a decision, oldest first. Answers are the interrupts that have one,
	// by id.
	Interrupts []Interrupt
	Answers    map[string]Answer
	Replaced   map[string]string // interrupts that the run has asked again under another id, and that id
	Signals    []Signal          // sent to the thread, oldest first
	// Unknown are intents without a result, oldest first: their effects may have
	// happened.
	Unknown []Entry
}

// Fold computes the state from a line that was loaded whole, with its entries. For an entry
// that it cannot decode, the error has [KindCorrupt] and names the entry.
func Fold(line *Line) (*State, error) {
	s := &State{Values: map[string]json.RawMessage{}, Answers: map[string]Answer{}}
	for i := range line.Commits {
		if err := s.Add(&line.Commits[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add folds one more commit of the line.
func (s *State) Add(n *Node) error {
	for i := range n.Entries {
		if err := s.Apply(&n.Entries[i]); err != nil {
			return Errorf(KindCorrupt, "read state", string(n.ID), "entry %d: %w", i+1, err).
				WithHint("fork the thread at an earlier checkpoint to go on")
		}
	}
	s.At = n.ID
	if c := n.Checkpoint; c != nil {
		s.Parent, s.Turn = c.Parent, c.Turn
		if c.Step != 0 {
			s.Step = c.Step
		}
	}
	return nil
}

// Apply folds one entry.
func (s *State) Apply(e *Entry) error {
	switch e.Kind {
	case EntryMessage:
		s.Messages = append(s.Messages, e.Body)
	case EntryKeep:
		return s.keep(e.Body)
	case EntryState:
		if e.Body == nil {
			delete(s.Values, e.Name)
		} else {
			s.Values[e.Name] = e.Body
		}
	case EntryIntent:
		s.allowed(e.ID, true)
		s.Unknown = append(s.ended(e.ID), *e)
	case EntryResult:
		s.Unknown = s.ended(e.ID)
		if string(e.Body) == NotStarted {
			s.allowed(e.ID, false)
		}
		s.Interrupts = slices.DeleteFunc(s.Interrupts, func(x Interrupt) bool { return x.Via != "" && x.Via == e.ID }) // the questions of the task that ended
	case EntryInterrupt:
		var x Interrupt
		if err := json.Unmarshal(e.Body, &x); err != nil {
			return err
		}
		s.open(x)
	case EntryDecision:
		var d Decision
		if err := json.Unmarshal(e.Body, &d); err != nil {
			return err
		}
		if i := slices.IndexFunc(s.Interrupts, func(x Interrupt) bool { return x.ID == d.Interrupt }); i >= 0 {
			s.Answers[d.Interrupt] = Answer{Interrupt: s.Interrupts[i], Decision: d}
			s.close(d.Interrupt)
			s.use(d.Signal)
		}
	case EntrySignal:
		s.Signals = append(s.Signals, Signal{Name: e.Name, Key: e.ID, Value: e.Body, Time: e.Time})
	}
	return nil
}

// use marks the signal that ended a wait.
func (s *State) use(key string) {
	for i := range s.Signals {
		if key != "" && s.Signals[i].Key == key {
			s.Signals[i].Used = true
		}
	}
}

// ended returns the unknown intents without those of call.
func (s *State) ended(call string) []Entry {
	return slices.DeleteFunc(s.Unknown, func(x Entry) bool { return x.ID == call })
}

// allowed marks the answers that allowed a call as used, or as unused again.
func (s *State) allowed(call string, used bool) {
	for id, a := range s.Answers {
		if a.Interrupt.Call == call && a.Interrupt.Via == "" {
			a.Used = used
			s.Answers[id] = a
		}
	}
}

func (s *State) keep(body json.RawMessage) error {
	var n int
	if err := json.Unmarshal(body, &n); err != nil {
		return err
	}
	if n < 0 || n > len(s.Messages) {
		return fmt.Errorf("it keeps %d of %d messages", n, len(s.Messages))
	}
	s.Messages = s.Messages[:n:n]
	return nil
}

// open adds an interrupt, which may replace an older one.
func (s *State) open(x Interrupt) {
	if x.Replaces != "" {
		s.close(x.Replaces)
		if s.Replaced == nil {
			s.Replaced = map[string]string{}
		}
		s.Replaced[x.Replaces] = x.ID
	}
	s.Interrupts = append(s.Interrupts, x)
}

func (s *State) close(interrupt string) {
	s.Interrupts = slices.DeleteFunc(s.Interrupts, func(x Interrupt) bool { return x.ID == interrupt })
}

// Clone returns a copy to which the caller can add entries independently; the bodies are
// shared.
func (s *State) Clone() *State {
	c := *s
	c.Messages, c.Values, c.Answers, c.Replaced = slices.Clone(s.Messages), maps.Clone(s.Values), maps.Clone(s.Answers), maps.Clone(s.Replaced)
	c.Interrupts, c.Unknown, c.Signals = slices.Clone(s.Interrupts), slices.Clone(s.Unknown), slices.Clone(s.Signals)
	return &c
}
