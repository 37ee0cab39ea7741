package preamble

import (
	"fmt"
	"strings"
)

// How much a story keeps of all its turns. Bytes decide and not the number of
// turns, up to a number that only bounds the memory of a hostile thread.
const (
	keepTurns = 4096
	keepSaid  = 512 << 10 // of the user's words
	keepReply = 384 << 10 // of the agent's
	keepBrief = 160       // of one side of a turn, once it is shortened
)

// turns are the turns of a story, oldest first.
type turns struct {
	list  []turn
	count int // of all turns, including those that are dropped
	said  int // bytes of the user's words in list
	reply int // bytes of the agent's
}

// measure takes the length of a turn's words out of the sums; the caller changes
// the turn and calls the function that measure returns.
func (ts *turns) measure(t *turn) (done func()) {
	said, reply := len(t.said), len(t.words)
	return func() {
		ts.said += len(t.said) - said
		ts.reply += len(t.words) - reply
		ts.shorten()
	}
}

// shorten keeps the sums within their bounds: the oldest answers are shortened
// first and then dropped, then the oldest of the user's words are shortened.
func (ts *turns) shorten() {
	for _, most := range []int{keepBrief, 0} {
		for i := 0; i < len(ts.list)-1 && ts.reply > keepReply; i++ {
			t := &ts.list[i]
			ts.reply -= len(t.words)
			t.words = clip(t.words, most)
			ts.reply += len(t.words)
		}
	}
	for i := 0; i < len(ts.list)-1 && ts.said > keepSaid; i++ {
		t := &ts.list[i]
		ts.said -= len(t.said)
		t.said = clip(t.said, keepBrief)
		ts.said += len(t.said)
	}
}

// begin adds a turn. Of more than keepTurns turns, the older half is counted only.
func (ts *turns) begin(number int) *turn {
	if len(ts.list) == keepTurns {
		for i := range ts.list[:keepTurns/2] {
			ts.said -= len(ts.list[i].said)
			ts.reply -= len(ts.list[i].words)
		}
		ts.list = append(ts.list[:0], ts.list[keepTurns/2:]...)
	}
	ts.count++
	ts.list = append(ts.list, turn{number: number, first: ts.count == 1})
	return &ts.list[len(ts.list)-1]
}

// prompts is the length of what the user said in all turns, told in full.
func (ts *turns) prompts() (n int) {
	for i := range ts.list {
		n += ts.list[i].asks(inFull)
	}
	return n
}

// How tell writes the user's words of a turn: in full, or as one line of at most so
// many bytes.
const inFull = -1

// briefs are the ways to tell the user's words, the fullest first.
func briefs() []int { return []int{inFull, 400, keepBrief, 80} }

// asks is the length of the user's words of a turn, told in a way of [briefs].
func (t *turn) asks(brief int) int {
	const frame = len("\nThe user said:\n> \n")
	switch {
	case t.said == "" && t.words == "":
		return 0
	case brief != inFull:
		return len(t.brief(brief))
	case t.first:
		return len("\nThe user said what is told above as the task.\n")
	}
	return frame + len(t.said) + 2*strings.Count(t.said, "\n")
}

// brief tells the user's words in one line, without the agent's.
func (t *turn) brief(most int) string {
	said := t.said
	if said == "" {
		said = "(nothing on record)"
	}
	s := "- " + quote(said, most)
	switch {
	case t.cancelled:
		s += ", and then cancelled it"
	case t.interrupted || !t.ended:
		s += ", and you were interrupted"
	}
	return s + "\n"
}

const listHeading = "\nIn these turns the user said the following; your replies are left out.\n"

// telling is the form in which tell writes one turn.
type telling struct {
	*turn
	brief int    // see [briefs]
	reply string // the agent's words as quoted lines, or ""
}

// tell tells every turn in at most room bytes: the user's words first, the oldest
// shortened first; then the answers, the newest in full. count is the number of
// all turns.
func (ts *turns) tell(count, room int) string {
	// The oldest turns are brief and the newest are in full, so there is one list.
	const heading = len("These were the last 10000 of 10000 turns, oldest first.\n") + len(listHeading)
	all := ts.choose(room - heading)
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	switch {
	case len(all) == 1 && count == 1:
		b.WriteString("This was the last turn.\n")
	case len(all) == count:
		b.WriteString("These were the turns, oldest first.\n")
	default:
		fmt.Fprintf(&b, "These were the last %d of %d turns, oldest first.\n", len(all), count)
	}
	listed := false
	for _, t := range all {
		if t.brief == inFull {
			b.WriteString("\n" + t.full())
			listed = false
			continue
		}
		if !listed {
			b.WriteString(listHeading)
			listed = true
		}
		b.WriteString(t.turn.brief(t.brief))
	}
	return b.String()
}

// full tells the turn with as much of the answer as was chosen.
func (t *telling) full() string {
	var b strings.Builder
	switch {
	case t.said == "":
	case t.first:
		b.WriteString("The user said what is told above as the task.\n")
	default:
		b.WriteString("The user said:\n" + marked(t.said))
	}
	if t.reply == "" && t.words != "" {
		b.WriteString(t.left())
	} else {
		b.WriteString(t.how() + t.reply)
	}
	return b.String()
}

// left returns the text that replaces an answer if there is no room for it.
func (t *turn) left() string {
	if t.interrupted || t.cancelled || !t.ended {
		cut := turn{interrupted: true, cancelled: t.cancelled, acted: t.acted}
		return cut.how()
	}
	return "Your reply is left out.\n"
}

// choose decides how tell writes each turn.
func (ts *turns) choose(room int) []telling {
	var all []telling
	for i := range ts.list {
		if t := &ts.list[i]; t.said != "" || t.words != "" {
			all = append(all, telling{turn: t, brief: inFull})
		}
	}
	if len(all) == 0 || room <= 0 {
		return nil
	}
	all, room = fitPrompts(all, room)
	fitReplies(all, room)
	return all
}

// fitPrompts decides how tell writes the user's words: all turns in the fullest form
// that leaves two fifths of the room, then the newest in fuller forms while a
// quarter is left for answers. It drops turns, the oldest first, only if the
// shortest form of all turns needs more than nine tenths of the room. It returns
// the turns that it keeps and the room that is left.
func fitPrompts(all []telling, room int) ([]telling, int) {
	sum := 0
	for _, way := range briefs() {
		sum = 0
		for i := range all {
			all[i].brief = way
			sum += all[i].cost()
		}
		if sum <= room*3/5 {
			break
		}
	}
	for sum > room*9/10 && len(all) > 0 {
		sum -= all[0].cost()
		all = all[1:]
	}
	ways := briefs() // an older turn is told no fuller than a newer one
	for i := len(all) - 1; i >= 0 && ways[0] != all[i].brief; i-- {
		t := all[i]
		for t.brief = ways[0]; t.brief != all[i].brief && sum-all[i].cost()+t.cost() > room*3/4; t.brief = ways[0] {
			ways = ways[1:]
		}
		sum += t.cost() - all[i].cost()
		all[i] = t
	}
	return all, room - sum
}

// cost is the length of a turn without its answer.
func (t *telling) cost() int {
	const noReply = len("Your reply is left out.\n") + 200 // or of an interruption
	if t.brief == inFull {
		return t.asks(inFull) + noReply
	}
	return t.asks(t.brief)
}

// fitReplies gives the room to the answers of the turns that tell writes in full, the
// newest first: each gets a third of the room that is left.
func fitReplies(all []telling, room int) {
	const least = 160
	for i := len(all) - 1; i >= 0 && room >= least; i-- {
		t := &all[i]
		if t.brief != inFull || t.words == "" {
			continue
		}
		share := max(room/3, least)
		if i == 0 || len(t.words)*5/4+64 < least {
			share = room
		}
		t.reply = block(t.words, share)
		room -= len(t.reply)
	}
}
