package preamble

import (
	"strings"

	"github.com/dalsegno/segno"
)

// Telling says how to tell a story.
type Telling struct {
	// Budget is how many tokens the text may have, at four bytes each; 0 is
	// [DefaultBudget].
	Budget int
	// Open is the turn that goes on, or is to begin, in the new session. Its
	// prompt is what the text precedes.
	Open *OpenTurn
}

// OpenTurn is a turn that has not ended.
type OpenTurn struct {
	// Turn is its number. What a [Story] was already told of that turn is not told
	// twice. It is 0 if the story was told nothing of it.
	Turn   int
	Prompt string
	// Entries are the turn's so far: intents, results, messages, plans.
	Entries []segno.Entry
	// Words are what the agent had said that is in no entry yet.
	Words string
}

// story is the turn as a story of its own.
func (o *OpenTurn) story() *Story {
	s := new(Story)
	t := s.begin(o.Turn)
	for _, e := range o.Entries {
		if e.Turn = o.Turn; e.Kind != segno.EntryMessage || e.Name != "user" {
			s.add(e)
		}
	}
	t = s.turn(o.Turn)
	t.words = join(t.words, o.Words)
	return s
}

func (t Telling) bytes() int {
	switch {
	case t.Budget == 0:
		return DefaultBudget * bytesPerToken
	case t.Budget < LeastBudget:
		return LeastBudget * bytesPerToken
	default:
		return t.Budget * bytesPerToken
	}
}

// Tell is the preamble, or "" if there is nothing to tell. The prompt that it
// precedes is to follow as it is, last and without a label. The same story told
// the same way gives the same text, and telling does not change it.
func (s *Story) Tell(t Telling) string {
	var now *Story
	end, open := closing, 0
	if t.Open != nil {
		open = t.Open.Turn
		if now = t.Open.story(); now.began() {
			end = closingOpen
		}
	}
	if _, count := s.before(open); count == 0 && s.done.empty() && s.begun.empty() && end == closing {
		return ""
	}
	p := newPages(t.bytes(), opening, leadOpen, end)
	if now != nil {
		p.now(now, p.room/8)
	}
	p.past(s, now, open)
	return p.bind()
}

// began reports whether an open turn has anything to be told.
func (s *Story) began() bool {
	return !s.done.empty() || !s.begun.empty() || s.turns[0].words != ""
}

// Continue is the prompt with which an agent is asked to go on with a turn that a
// failure broke off, in a session that still knows the conversation. It has at most
// [DefaultBudget].
func Continue(open OpenTurn) string {
	now := open.story()
	p := newPages(Telling{}.bytes(), interruption, "", continuation)
	if said := plain(open.Prompt, keepWords); strings.TrimSpace(said) != "" {
		p.task = p.section(p.room/4, "That message was:\n", func(room int) string { return block(said, room) })
	}
	p.now(now, p.room/5)
	return p.bind()
}

// pages is a text in the making: its parts, and the room that is left. The parts
// are written by what must not be missing, and bound by when it happened.
type pages struct {
	room              int
	first, lead, last string // sentences: the lead is to the open turn

	task, done, begun, looked, turns string
	doneNow, begunNow, words, plan   string
}

func newPages(bytes int, first, lead, last string) *pages {
	return &pages{room: bytes - len(first+lead+last) - len("\n\n\n\n\n"), first: first, lead: lead, last: last}
}

// section writes a part of at most room bytes, of what is left.
func (p *pages) section(room int, heading string, body func(room int) string) string {
	const gap = 1
	room = min(room, p.room) - len(heading) - gap
	if room <= 0 {
		return ""
	}
	s := body(room)
	if s == "" {
		return ""
	}
	p.room -= len(heading) + len(s) + gap
	return heading + s
}

// now writes the turn that is open, in shares of the room.
func (p *pages) now(s *Story, share int) {
	p.begunNow = p.section(share, "You had begun this for it, and its outcome is unknown: check before you do it again.\n", listing(&s.begun, nil))
	p.doneNow = p.section(2*share, "You have already done this for it, oldest first; do not repeat it.\n", listing(&s.done, nil))
	if words := s.turns[0].words; words != "" {
		p.words = p.section(share, "You had begun to say:\n", func(room int) string { return block(words, room) })
	}
	p.plan = p.section(share, "", func(room int) string { return tellPlan(s.plan, room) })
}

// past writes what was before it.
func (p *pages) past(s *Story, now *Story, open int) {
	var known func(*effect) bool
	if now != nil && open != 0 {
		known = func(e *effect) bool { return e.turn == open && e.id != "" && now.calls[e.id] != nil }
	}
	turns, count := s.before(open)
	p.begun = p.section(p.room/4, "You had begun this, and its outcome is unknown: check before you do it again.\n", listing(&s.begun, known))
	if count > 0 && s.task != "" {
		p.task = p.section(p.room/5, "It began with this message from the user, which is the task:\n", func(room int) string { return block(s.task, room) })
	}
	if p.plan == "" && (now == nil || now.plan == nil) {
		p.plan = p.section(p.room/8, "", func(room int) string { return tellPlan(s.plan, room) })
	}
	if s.looked > 0 {
		p.looked = p.section(p.room, "", func(int) string {
			return "You also looked things up " + times(s.looked) + ", which changed nothing.\n"
		})
	}
	tell := func(room int) string { return tellTurns(turns, count, room) }
	reserve := len(tell(p.room * 2 / 5))
	p.done = p.section(p.room-reserve, "Since then you have done this, oldest first. All of it has happened; do not do it again unless the work ahead needs it.\n", listing(&s.done, known))
	p.turns = p.section(p.room, "", tell)
}

// before are the turns kept and the number of all turns, but for the open one.
func (s *Story) before(open int) ([]turn, int) {
	if n := len(s.turns); n > 0 && open != 0 && s.turns[n-1].number == open {
		return s.turns[:n-1], s.count - 1
	}
	return s.turns, s.count
}

func listing(l *ledger, elsewhere func(*effect) bool) func(int) string {
	return func(room int) string { return l.tell(room, elsewhere) }
}

// bind puts the parts in order.
func (p *pages) bind() string {
	if p.lead != "" && p.doneNow+p.begunNow+p.words != "" {
		p.lead += "\n"
	} else {
		p.lead = ""
	}
	var b strings.Builder
	b.WriteString(p.first + "\n")
	for _, part := range []string{p.task, p.done, p.begun, p.looked, p.plan, p.turns, p.lead, p.doneNow, p.begunNow, p.words} {
		if part != "" {
			b.WriteString("\n" + part)
		}
	}
	b.WriteString("\n" + p.last + "\n")
	return b.String()
}
