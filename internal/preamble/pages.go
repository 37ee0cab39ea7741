package preamble

import "strings"

// pages is a text in the making: its parts, and the room that is left. The parts
// are written by what must not be missing, and bound by when it happened.
type pages struct {
	room              int
	first, lead, last string // sentences: the lead is to the open turn

	task, done, begun, refused, looked, turns  string
	doneNow, begunNow, refusedNow, words, plan string
	changed                                    string
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

// refusals is the heading of what the user decided against.
const refusals = "The user decided against this; do not do it unless the user asks for it again.\n"

// now writes the turn that is open, in seven shares of the room.
func (p *pages) now(s *Builder, changed []string, share int) {
	left := p.room - 7*share
	p.begunNow = p.section(share, "You had begun this for it, and its outcome is unknown: check before you do it again.\n", listing(&s.begun, nil))
	p.refusedNow = p.section(share, refusals, listing(&s.refused, nil))
	if words := s.turns.list[0].words; words != "" {
		p.words = p.section(share, "You had begun to say:\n", func(room int) string { return block(words, room) })
	}
	p.plan = p.section(share, "", func(room int) string { return tellPlan(s.plan, room) })
	if len(changed) > 0 {
		p.changed = p.section(share, "These paths in the workspace changed since that message came, by you or by somebody else:\n",
			func(room int) string { return block(strings.Join(changed, "\n"), room) })
	}
	p.doneNow = p.section(p.room-left, "You have already done this for it, oldest first; do not repeat it.\n", listing(&s.done, nil))
}

// past writes what was before it.
func (p *pages) past(s *Builder, now *Builder, open int) {
	var known func(*effect) bool
	if now != nil && open != 0 {
		known = func(e *effect) bool { return e.turn == open && e.id != "" && now.calls[e.id] != nil }
	}
	turns, count := s.before(open)
	p.begun = p.section(p.room/4, "You had begun this, and its outcome is unknown: check before you do it again.\n", listing(&s.begun, known))
	p.refused = p.section(p.room/4, refusals, listing(&s.refused, known))
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
	// Effects come first, then the user's words, then answers. The details of an
	// effect, its input and answer, have only what the words leave.
	words := max(len(turns.tell(count, p.room*2/5)), min(turns.prompts(), p.room*3/5))
	effects := max(p.room-words, min(s.done.least(known), p.room*4/5))
	p.done = p.section(effects, "Since then you have done this, oldest first. All of it has happened; do not do it again unless the work ahead needs it.\n", listing(&s.done, known))
	p.turns = p.section(p.room, "", func(room int) string { return turns.tell(count, room) })
}

// before are the turns kept and the number of all turns, but for the open one.
func (s *Builder) before(open int) (turns, int) {
	past := s.turns
	if n := len(past.list); n > 0 && open != 0 && past.list[n-1].number == open {
		past.list = past.list[:n-1]
		past.count--
	}
	return past, past.count
}

func listing(l *ledger, elsewhere func(*effect) bool) func(int) string {
	return func(room int) string { return l.tell(room, elsewhere) }
}

// bind puts the parts in order.
func (p *pages) bind() string {
	if p.lead != "" && p.doneNow+p.begunNow+p.refusedNow+p.changed+p.words != "" {
		p.lead += "\n"
	} else {
		p.lead = ""
	}
	var b strings.Builder
	b.WriteString(p.first + "\n")
	for _, part := range []string{p.task, p.done, p.begun, p.refused, p.looked, p.plan, p.turns, p.lead, p.doneNow, p.begunNow, p.refusedNow, p.changed, p.words} {
		if part != "" {
			b.WriteString("\n" + part)
		}
	}
	b.WriteString("\n" + p.last + "\n")
	return b.String()
}
