package preamble

import (
	"encoding/json"

	"github.com/dalsegno/segno"
)

// Story is what a thread has done so far, kept ready to be told. Its size is
// bounded, whatever the thread's length. It is not for concurrent use.
type Story struct {
	task   string // what the user said first
	turns  []turn // the newest of them
	count  int    // of all turns
	done   ledger
	begun  ledger // effects whose outcome is unknown
	looked int    // calls that change nothing
	plan   []todo // as it was written last

	calls map[string]*effect // of the newest turn, by id
}

// Of is the story of a thread's line, oldest commit first, with entries.
func Of(nodes []segno.Node) *Story {
	s := new(Story)
	for _, n := range nodes {
		s.Add(n)
	}
	return s
}

// Add tells s of one more commit of the line.
func (s *Story) Add(n segno.Node) {
	for _, e := range n.Entries {
		s.add(e)
	}
	switch cp := n.Checkpoint; {
	case cp == nil:
	case cp.Kind == segno.KindTurn:
		t := s.turn(cp.Turn)
		s.hear(t, cp.Prompt)
		t.ended, t.interrupted = true, cp.Interrupted
	case cp.Kind == segno.KindRestore:
		s.done.add(restored(cp.Turn, cp.Label))
	}
}

func (s *Story) add(e segno.Entry) {
	switch e.Kind {
	case segno.EntryMessage:
		switch e.Name {
		case "user":
			s.ask(e.Turn, text(e.Body))
		case "agent":
			t := s.turn(e.Turn)
			t.words = join(t.words, text(e.Body))
		}
	case segno.EntryIntent:
		s.intent(e)
	case segno.EntryResult:
		s.result(e)
	case segno.EntryNote:
		if e.Name == "plan" {
			s.intend(e.Body)
		}
	}
}

// ask adds what the user said. Said without a turn's number, after a turn ended,
// it begins the next one.
func (s *Story) ask(number int, words string) {
	if number == 0 && len(s.turns) > 0 && s.turns[len(s.turns)-1].ended {
		s.begin(0)
	}
	t := s.turn(number)
	words = Spoken(words)
	t.first = t.first && t.said == ""
	t.said = join(t.said, words)
	s.first(words)
}

// hear adds a prompt that a checkpoint knows, if no entry told it.
func (s *Story) hear(t *turn, prompt string) {
	if t.said == "" {
		t.said = join("", Spoken(prompt))
		s.first(t.said)
	}
}

// first remembers the task.
func (s *Story) first(words string) {
	if s.task == "" && s.count == 1 {
		s.task = join("", words)
	}
}

// turn returns the turn with a number, which is a new one if it is higher than
// any so far. Entries without a number belong to the newest.
func (s *Story) turn(number int) *turn {
	for i := len(s.turns) - 1; i >= 0; i-- {
		if number == 0 || s.turns[i].number == number {
			return &s.turns[i]
		}
	}
	if n := len(s.turns); n > 0 && number < s.turns[n-1].number {
		return &s.turns[n-1]
	}
	return s.begin(number)
}

func (s *Story) begin(number int) *turn {
	if len(s.turns) == keepTurns {
		s.turns = append(s.turns[:0], s.turns[keepTurns/2:]...)
	}
	s.count++
	s.calls = nil
	s.turns = append(s.turns, turn{number: number, first: s.count == 1})
	return &s.turns[len(s.turns)-1]
}

// intent adds a call that begins, or what more is said of one that began.
func (s *Story) intent(e segno.Entry) {
	now := describe(e.Name, e.Body)
	now.id, now.turn = e.ID, s.turn(e.Turn).number
	if now.looks {
		_, _, input, _ := asked(e.Body)
		s.intend(input)
	}
	if before := s.calls[e.ID]; e.ID != "" && before != nil {
		switch {
		case before.looks && !now.looks:
			s.looked--
		case before.looks || now.looks:
			return
		case before.state == begun:
			if s.begun.remove(before); before.known > 0 && before.known >= now.known {
				now = before
			}
		case now.subject == "" || now.subject == before.subject:
			return // one call, reported twice; another would not say the same
		}
	}
	s.keep(e.ID, now)
	s.act(now)
	if !now.looks {
		s.begun.add(now)
	}
}

// intend replaces the list of things to do by the one in raw, if there is one.
func (s *Story) intend(raw json.RawMessage) {
	if list := todos(raw); list != nil {
		s.plan = list
	}
}

// act counts a call that was not seen before.
func (s *Story) act(c *effect) {
	if c.looks {
		s.looked++
	} else {
		s.turn(c.turn).acted = true
	}
}

// result adds what came of a call.
func (s *Story) result(e segno.Entry) {
	c := s.called(e)
	if c == nil {
		c = describe(e.Name, nil) // its beginning was not seen
		c.id, c.turn = e.ID, s.turn(e.Turn).number
		s.keep(e.ID, c)
		s.act(c)
	}
	if c.looks || c.state != begun {
		return
	}
	s.begun.remove(c)
	if c.conclude(e.Body); c.state == begun {
		s.begun.add(c)
	} else {
		s.done.add(c)
	}
}

// called finds the call that a result belongs to. It may have begun in an earlier
// turn, in the background.
func (s *Story) called(e segno.Entry) *effect {
	s.turn(e.Turn)
	if c := s.calls[e.ID]; e.ID != "" && c != nil {
		return c
	}
	return s.begun.find(func(c *effect) bool {
		return c.id == e.ID && (e.ID != "" || c.tool == name(e.Name))
	})
}

func (s *Story) keep(id string, c *effect) {
	if id == "" {
		return
	}
	if s.calls == nil || len(s.calls) >= keepEffects {
		s.calls = map[string]*effect{}
	}
	s.calls[id] = c
}
