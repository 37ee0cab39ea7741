package preamble

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// piece is a part of a text that can have different lengths. A longer one contains the facts of
// each shorter one.
type piece struct {
	render func(size int) string // the text with about size bytes of the words or of the details
	most   int                   // the size of the complete text
	size   int
	text   string
}

func newPiece(most int, render func(size int) string) *piece {
	return &piece{render: render, most: most, text: render(0)}
}

// steps are the sizes in which pieces grow: each piece gets one size before any gets the next.
var steps = [...]int{160, 640, 2560, 1 << 20}

// grow extends a piece to a size, or as far as room allows. It returns the rest of the room, and whether the
// piece has that size.
func (p *piece) grow(size, room int) (left int, ok bool) {
	if size = min(size, p.most); size <= p.size {
		return room, true
	}
	added := func(size int) int { return len(p.render(size)) - len(p.text) }
	if ok = added(size) <= room; !ok {
		size = p.size + sort.Search(size-p.size, func(i int) bool { return added(p.size+i+1) > room })
	}
	if text := p.render(size); size > p.size && len(text)-len(p.text) <= room {
		room -= len(text) - len(p.text)
		p.text, p.size = text, size
	}
	return room, ok
}

// growAll extends pieces in order until one of them does not fit in room. It returns the rest of the room. A
// text with more room therefore never has fewer facts.
func growAll(pieces []*piece, size, room int) (left int, ok bool) {
	for _, p := range pieces {
		if room, ok = p.grow(size, room); !ok {
			return room, false
		}
	}
	return room, true
}

// turnText is the text about one turn.
type turnText struct {
	*turn
	prompt, lookedUp, reply *piece
	calls                   []*piece // those that the text describes one by one
	short                   int      // the length of the shortest text without the calls
}

// newTurnText returns the shortest text about a turn.
func newTurnText(t *turn) *turnText {
	text := &turnText{turn: t, prompt: newPiece(len(t.prompt)+inLine+1, t.promptText), reply: newPiece(len(t.reply), t.replyText),
		lookedUp: newPiece(len(strings.Join(t.lookups, ", "))+2, t.lookupText), calls: callPieces(t.calls)}
	text.short = 1 + len(text.prompt.text) + len(text.reply.text)
	return text
}

func callPieces(calls []*call) []*piece {
	pieces := make([]*piece, len(calls))
	for i, c := range calls {
		pieces[i] = newPiece(len(c.input)+len(c.answer)+1, c.text)
	}
	return pieces
}

// byImportance returns the pieces in the order in which they grow.
func (t *turnText) byImportance() []*piece {
	pieces := []*piece{t.prompt, t.reply}
	for _, c := range slices.Backward(t.calls) {
		pieces = append(pieces, c)
	}
	return append(pieces, t.lookedUp)
}

// text returns the text about the turn: the user's words, the agent's actions, and the agent's words.
func (t *turnText) text() string { return t.prompt.text + t.done() + t.reply.text }

// done returns the text about the agent's actions.
func (t *turnText) done() string {
	var b strings.Builder
	for _, c := range t.calls {
		b.WriteString(c.text)
	}
	b.WriteString(t.lookedUp.text)
	return b.String()
}

func sizeOf(pieces []*piece) (n int) {
	for _, p := range pieces {
		n += len(p.text)
	}
	return n
}

// countOldest replaces the oldest calls by counts of their sentences, so that the text about all calls fits
// in room. It counts as few calls as possible, but not fewer than least. It returns the text about the
// counted calls and the older ones, and the number of counted calls.
func countOldest(calls []*call, pieces []*piece, older *tallies, least, room int) (text string, n int) {
	doesFit := func(n int) bool { return len(older.with(calls[:n]).text())+sizeOf(pieces[n:]) <= room }
	if n = least; !doesFit(n) {
		n += sort.Search(len(calls)-n, func(i int) bool { return doesFit(n + i) })
	}
	return older.with(calls[:n]).fit(room - sizeOf(pieces[n:])), n
}

// frameSize is the room for the sentences between the turns.
const frameSize = len(turnsHeading) + len(olderHeading) + len("\n(10000 turns are left out here.)\n") + 8

const (
	turnsHeading = "These were the turns, oldest first.\n"
	olderHeading = "\nYou also did this in turns that are left out, or at the beginning of these, oldest first.\n"
)

// openText returns the text about the agent's actions in an open turn, in at most room bytes. It names or
// counts every call.
func (o *OpenTurn) openText(t *turn, older *tallies, room int) string {
	const heading = "You have already done this for it, oldest first; do not repeat it.\n"
	text := newTurnText(t)
	reply := newPiece(len(t.reply), func(size int) string {
		if size == 0 {
			return ""
		}
		return "\nYou had begun to say:\n" + quotedLines(ends(t.reply, size))
	})
	paths := plain(strings.Join(o.Changed, "\n"), maxWords)
	changed := newPiece(len(paths), func(size int) string {
		if size == 0 {
			return ""
		}
		return "\nThese paths in the workspace changed since then, by you or by others:\n" + quotedLines(ends(paths, size))
	})
	room -= len(heading) + 1
	counted, n := countOldest(t.calls, text.calls, older, 0, room)
	text.calls = text.calls[n:]
	room -= len(counted) + sizeOf(text.calls)
	pieces := append([]*piece{reply, changed}, text.byImportance()[2:]...)
	for i, ok := 0, true; ok && i < len(steps); i++ {
		room, ok = growAll(pieces, steps[i], room)
	}
	done := counted + text.done()
	if done != "" {
		done = "\n" + heading + done
	}
	return done + changed.text + reply.text
}

// past is the text about the turns of a Builder.
type past struct {
	turns []*turnText
	shown int    // the number of turns that are not left out
	older string // the text about the counted calls
}

// firsts is how many of the shown turns are from the beginning; the others are the newest.
func (p *past) firsts() int { return max(0, min(2, p.shown-1)) }

// isShown reports whether the text has the i-th turn.
func (p *past) isShown(i int) bool { return i < p.firsts() || i >= len(p.turns)-p.shown+p.firsts() }

// pastText returns the turns of a Builder in at most room bytes. The room is given in this order, to each
// part until it has all that it needs:
//
//   - up to an eighth to the words of the newest turns, and up to a fourteenth to the first two prompts;
//   - to a line for each turn and for each call. If the room is too small, the oldest calls are
//     counted, and the turns after the first two are left out;
//   - to the words and calls of all turns, the newest first, in steps.
func (b *Builder) pastText(room int) string {
	p := &past{}
	for _, t := range b.turns {
		if !t.isEmpty() {
			p.turns = append(p.turns, newTurnText(t))
		}
	}
	if room -= frameSize; len(p.turns) == 0 && b.older.added == 0 || room <= 0 {
		return ""
	}
	p.growEnds(&room)
	if p.choose(&b.older, &room) {
		p.growAll(room)
	}
	return p.text()
}

// growEnds extends the words of the newest turns and the first prompts. If a share is too small for the next
// size, its rest stays unused: otherwise more room could mean fewer facts, because texts grow in jumps.
func (p *past) growEnds(room *int) {
	var newest, first []*piece
	for _, t := range slices.Backward(p.turns) {
		newest = append(newest, t.prompt, t.reply)
	}
	for _, t := range p.turns[:min(2, len(p.turns))] {
		first = append(first, t.prompt)
	}
	shares := []int{*room / 8, *room / 14}
	for i, pieces := range [][]*piece{newest, first} {
		left, ok := growAll(pieces, maxWords, shares[i])
		if *room -= shares[i]; ok {
			*room += left
		}
	}
}

// choose decides which turns are left out and which calls are counted. complete reports that there are none
// of either. room is the room for the shortest texts; on return, it is the rest.
func (p *past) choose(older *tallies, room *int) (complete bool) {
	var calls []*call
	var pieces []*piece
	last := make([]int, len(p.turns)) // the number of calls up to the end of each turn
	for i, t := range p.turns {
		calls, pieces = append(calls, t.turn.calls...), append(pieces, t.calls...)
		last[i] = len(calls)
	}
	words, needed := max(*room/2, *room-sizeOf(pieces)-len(older.text())), 0
	for _, t := range p.turns {
		needed += t.short
	}
	*room -= min(words, needed)
	for p.shown < len(p.turns) {
		if words -= p.turns[p.next()].short; words < 0 {
			break
		}
		p.shown++
	}
	counted := 0
	for i := range p.turns {
		if !p.isShown(i) {
			counted = last[i]
		}
	}
	p.older, counted = countOldest(calls, pieces, older, counted, *room)
	*room -= len(p.older) + sizeOf(pieces[counted:])
	for i, t := range p.turns {
		t.calls = t.calls[len(t.calls)-max(0, min(len(t.calls), last[i]-counted)):]
	}
	return p.shown == len(p.turns) && counted == 0
}

// next returns the index of the next turn to include: the newest one, the first two, then the newest of the
// others.
func (p *past) next() int {
	if p.shown == 1 || p.shown == 2 && len(p.turns) > 2 {
		return p.shown - 1
	}
	return len(p.turns) - 1 - p.shown + p.firsts()
}

// growAll extends all turns.
func (p *past) growAll(room int) {
	var pieces []*piece
	for _, t := range slices.Backward(p.turns) {
		pieces = append(pieces, t.byImportance()...)
	}
	for i, ok := 0, true; ok && i < len(steps); i++ {
		room, ok = growAll(pieces, steps[i], room)
	}
}

// text joins the turns.
func (p *past) text() string {
	var b strings.Builder
	if b.WriteString(turnsHeading); p.older != "" {
		b.WriteString(olderHeading + p.older)
	}
	for i, t := range p.turns {
		switch {
		case p.isShown(i):
			b.WriteString("\n" + t.text())
		case i == 0 || p.isShown(i-1):
			fmt.Fprintf(&b, "\n(%d turns are left out here.)\n", len(p.turns)-p.shown)
		}
	}
	return b.String()
}
