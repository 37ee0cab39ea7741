package preamble

import (
	"encoding/json"

	"github.com/dalsegno/segno"
)

// Builder is what a thread has done so far, kept ready to be told. Its size is
// bounded, whatever the thread's length. It is not for concurrent use.
type Builder struct {
	task    string // what the user said first
	turns   turns
	done    ledger
	begun   ledger // effects whose outcome is unknown
	refused ledger // calls that the user decided against
	looked  int    // calls that change nothing
	plan    []todo // as it was written last

	calls     map[string]*effect  // of the newest turn, by id
	questions map[string]question // requests for permission that are open, by the call's id
}

// FromCommits is the story of a thread's line, oldest commit first, with entries.
func FromCommits(nodes []segno.Node) *Builder {
	s := new(Builder)
	for _, n := range nodes {
		s.Add(n)
	}
	return s
}

// Add tells s of one more commit of the line.
func (s *Builder) Add(n segno.Node) {
	for _, e := range n.Entries {
		s.add(e)
	}
	switch cp := n.Checkpoint; {
	case cp == nil:
	case cp.Kind == segno.CheckpointTurn:
		t := s.turn(cp.Turn)
		s.hear(t, cp.Prompt)
		t.ended, t.interrupted = true, cp.Interrupted
	case cp.Kind == segno.CheckpointRestore:
		s.done.add(restored(cp.Turn, cp.Label))
	}
}

func (s *Builder) add(e segno.Entry) {
	switch e.Kind {
	case segno.EntryMessage:
		switch e.Name {
		case "user":
			s.ask(e.Turn, text(e.Body))
		case "agent":
			s.reply(e.Turn, text(e.Body))
		}
	case segno.EntryIntent:
		s.intent(e)
	case segno.EntryResult:
		s.result(e)
	case segno.EntryInterrupt:
		s.permissionAsked(e)
	case segno.EntryDecision:
		s.permissionAnswered(e)
	case segno.EntryNote:
		switch e.Name {
		case "plan":
			s.intend(e.Body)
		case "end":
			if isCancelled(e.Body) {
				s.cancel(s.turn(e.Turn))
			}
		}
	}
}

// ask adds what the user said. Said without a turn's number, after a turn ended,
// it begins the next one.
func (s *Builder) ask(number int, words string) {
	if list := s.turns.list; number == 0 && len(list) > 0 && list[len(list)-1].ended {
		s.begin(0)
	}
	t := s.turn(number)
	measured := s.turns.measure(t)
	words = StripPreamble(words)
	t.first = t.first && t.said == ""
	t.said = join(t.said, words)
	measured()
	s.first(words)
}

// reply adds what the agent said.
func (s *Builder) reply(number int, words string) {
	t := s.turn(number)
	measured := s.turns.measure(t)
	t.words = join(t.words, words)
	measured()
}

// hear adds a prompt that a checkpoint knows, if no entry told it.
func (s *Builder) hear(t *turn, prompt string) {
	if t.said == "" {
		measured := s.turns.measure(t)
		t.said = join("", StripPreamble(prompt))
		measured()
		s.first(t.said)
	}
}

// first remembers the task.
func (s *Builder) first(words string) {
	if s.task == "" && s.turns.count == 1 {
		s.task = join("", words)
	}
}

// turn returns the turn with a number, which is a new one if it is higher than
// any so far. Entries without a number belong to the newest.
func (s *Builder) turn(number int) *turn {
	list := s.turns.list
	for i := len(list) - 1; i >= 0; i-- {
		if number == 0 || list[i].number == number {
			return &list[i]
		}
	}
	if n := len(list); n > 0 && number < list[n-1].number {
		return &list[n-1]
	}
	return s.begin(number)
}

func (s *Builder) begin(number int) *turn {
	s.calls = nil
	return s.turns.begin(number)
}

// intent adds a call that begins, or what more is said of one that began.
func (s *Builder) intent(e segno.Entry) {
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
func (s *Builder) intend(raw json.RawMessage) {
	if list := todos(raw); list != nil {
		s.plan = list
	}
}

// act counts a call that was not seen before.
func (s *Builder) act(c *effect) {
	if c.looks {
		s.looked++
	} else {
		s.turn(c.turn).acted = true
	}
}

// result adds what came of a call.
func (s *Builder) result(e segno.Entry) {
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
func (s *Builder) called(e segno.Entry) *effect {
	s.turn(e.Turn)
	if c := s.calls[e.ID]; e.ID != "" && c != nil {
		return c
	}
	return s.begun.find(func(c *effect) bool {
		return c.id == e.ID && (e.ID != "" || c.tool == name(e.Name))
	})
}

func (s *Builder) keep(id string, c *effect) {
	if id == "" {
		return
	}
	if s.calls == nil || len(s.calls) >= keepEffects {
		s.calls = map[string]*effect{}
	}
	s.calls[id] = c
}
