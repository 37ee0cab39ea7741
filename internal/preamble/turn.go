package preamble

import (
	"fmt"
	"strings"
)

const (
	keepTurns = 64       // of which the words are kept
	keepWords = 12 << 10 // of one side of a turn
)

// turn is what was said in one turn.
type turn struct {
	number      int
	first       bool
	said        string // by the user
	words       string // of the agent
	acted       bool   // it has effects
	ended       bool
	interrupted bool
}

// join adds words to what was said before, and clips the whole.
func join(said, words string) string {
	words = strings.TrimSpace(plain(words, keepWords))
	if said == "" || words == "" {
		return said + words
	}
	return clip(said+"\n\n"+words, keepWords)
}

// tell tells the turn in at most room bytes, or not at all.
func (t *turn) tell(room int) string {
	var b strings.Builder
	switch {
	case t.said == "":
	case t.first:
		b.WriteString("The user said what is told above as the task.\n")
	default:
		said := block(t.said, max(room/2, room-len(t.words)*5/4-200))
		b.WriteString("The user said:\n" + said)
	}
	b.WriteString(t.how())
	if t.words != "" {
		words := block(t.words, room-b.Len())
		if words == "" {
			return ""
		}
		b.WriteString(words)
	}
	if b.Len() > room {
		return ""
	}
	return b.String()
}

// how leads over to the agent's words.
func (t *turn) how() string {
	if !t.interrupted && t.ended {
		if t.words == "" {
			return "No words of yours in reply are on record.\n"
		}
		return "You replied:\n"
	}
	s := "You were interrupted before you had finished."
	if t.acted {
		s += " What you had done by then is told above and counts."
	}
	if t.words != "" {
		s += " You had begun to say:"
	}
	return s + "\n"
}

// tellTurns tells the newest turns, as many as there is room for. The newer one
// is, the more of the room it may take.
func tellTurns(turns []turn, count, room int) string {
	const heading, least = 64, 320
	left := room - heading
	var told []string
	for i := len(turns) - 1; i >= 0 && left >= least; i-- {
		if turns[i].said == "" && turns[i].words == "" {
			continue
		}
		share := max(left/3, least)
		if i == 0 {
			share = left
		}
		one := turns[i].tell(share)
		if one == "" {
			break
		}
		left -= len(one) + 1
		told = append(told, one)
	}
	if len(told) == 0 {
		return ""
	}
	var b strings.Builder
	switch {
	case len(told) == 1:
		b.WriteString("This was the last turn.\n")
	case len(told) == count:
		b.WriteString("These were the turns, oldest first.\n")
	default:
		fmt.Fprintf(&b, "These were the last %d of %d turns, oldest first.\n", len(told), count)
	}
	for i := len(told) - 1; i >= 0; i-- {
		b.WriteString("\n")
		b.WriteString(told[i])
	}
	return b.String()
}
