package preamble

import "strings"

// The parts of a text, in the order of the text. They are written in another order: first
// those that must not be missing.
const (
	partTask = iota
	partDone
	partBegun
	partRefused
	partReadOnly
	partPlan
	partTurns
	partLead // to the open turn
	partDoneNow
	partBegunNow
	partRefusedNow
	partChanged
	partReply
	numParts
)

// layout is a text that is being written: its parts, and the room that is left.
type layout struct {
	room        int
	first, last string
	parts       [numParts]string
}

// newLayout begins a text of at most size bytes. The room excludes the sentences that every
// text has, and the line breaks between them.
func newLayout(size int, first, lead, last string) *layout {
	l := &layout{room: size - len(first+lead+last) - len("\n\n\n\n\n"), first: first, last: last}
	l.parts[partLead] = lead
	return l
}

// add writes a part of at most room bytes, of those that are left.
func (l *layout) add(part, room int, heading string, body func(room int) string) {
	const gap = 1
	if room = min(room, l.room) - len(heading) - gap; room <= 0 {
		return
	}
	if text := body(room); text != "" {
		l.room -= len(heading) + len(text) + gap
		l.parts[part] = heading + text
	}
}

const refusedHeading = "The user decided against this; do not do it unless the user asks for it again.\n"

// addOpenTurn writes the turn that is open, in seven shares of the room.
func (l *layout) addOpenTurn(b *Builder, changed []string, share int) {
	left := l.room - 7*share
	l.add(partBegunNow, share, "You had begun this for it, and its outcome is unknown: check before you do it again.\n", b.begun.TextOf)
	l.add(partRefusedNow, share, refusedHeading, b.refused.TextOf)
	if reply := b.turns.list[0].reply; reply != "" {
		l.add(partReply, share, "You had begun to say:\n", func(room int) string { return block(reply, room) })
	}
	l.add(partPlan, share, "", func(room int) string { return planText(b.plan, room) })
	if len(changed) > 0 {
		l.add(partChanged, share, "These paths in the workspace changed since that message came, by you or by another program:\n",
			func(room int) string { return block(strings.Join(changed, "\n"), room) })
	}
	l.add(partDoneNow, l.room-left, "You have already done this for it, oldest first; do not repeat it.\n", b.done.TextOf)
}

// addPast writes the history before the open turn. It leaves out the calls of the open
// turn that now has.
//
// Each part has a limit, so that a long list of one kind does not displace the others: calls
// with an unknown outcome and refused calls get up to a quarter of the room each, because
// the agent must not repeat them; the task gets a fifth, the plan an eighth.
func (l *layout) addPast(b, now *Builder, open int) {
	begun, refused, done := b.begun, b.refused, b.done
	if now != nil && open != 0 {
		isInNow := func(c *call) bool { return c.turn == open && c.id != "" && now.calls[c.id] != nil }
		begun, refused, done = begun.without(isInNow), refused.without(isInNow), done.without(isInNow)
	}
	turns := b.turnsBefore(open)
	l.add(partBegun, l.room/4, "You had begun this, and its outcome is unknown: check before you do it again.\n", begun.TextOf)
	l.add(partRefused, l.room/4, refusedHeading, refused.TextOf)
	if turns.count > 0 && b.task != "" {
		l.add(partTask, l.room/5, "It began with this message from the user, which is the task:\n", func(room int) string { return block(b.task, room) })
	}
	if l.parts[partPlan] == "" && (now == nil || now.plan == nil) {
		l.add(partPlan, l.room/8, "", func(room int) string { return planText(b.plan, room) })
	}
	if b.readOnlyCalls > 0 {
		l.add(partReadOnly, l.room, "", func(int) string {
			return "You also looked things up " + times(b.readOnlyCalls) + ", which changed nothing.\n"
		})
	}
	// Effects come first, then the user's words, then answers. The details of an
	// effect, its input and answer, get only what the words leave.
	words := max(len(turns.text(l.room*2/5)), min(turns.promptSize(), l.room*3/5))
	effects := max(l.room-words, min(done.minSize(), l.room*4/5))
	const doneHeading = "Since then you have done this, oldest first. All of it has happened; do not do it again unless the work ahead needs it.\n"
	l.add(partDone, effects, doneHeading, done.TextOf)
	l.add(partTurns, l.room, "", turns.text)
}

// text joins the parts. The lead is needed only if a part follows it.
func (l *layout) text() string {
	if lead := l.parts[partLead]; lead != "" && strings.Join(l.parts[partLead+1:], "") != "" {
		l.parts[partLead] = lead + "\n"
	} else {
		l.parts[partLead] = ""
	}
	var b strings.Builder
	b.WriteString(l.first + "\n")
	for _, part := range l.parts {
		if part != "" {
			b.WriteString("\n" + part)
		}
	}
	b.WriteString("\n" + l.last + "\n")
	return b.String()
}
