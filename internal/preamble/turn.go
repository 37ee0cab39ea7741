package preamble

import "strings"

// keepWords bounds what is kept of one side of a turn, in bytes.
const keepWords = 12 << 10

// turn is what was said in one turn.
type turn struct {
	number      int
	first       bool
	said        string // by the user
	words       string // of the agent
	acted       bool   // it has effects
	ended       bool
	interrupted bool
	cancelled   bool // the user stopped it
}

// join adds words to what was said before, and clips the whole.
func join(said, words string) string {
	words = strings.TrimSpace(plain(words, keepWords))
	if said == "" || words == "" {
		return said + words
	}
	return clip(said+"\n\n"+words, keepWords)
}

// how leads over to the agent's words.
func (t *turn) how() string {
	if !t.interrupted && t.ended && !t.cancelled {
		if t.words == "" {
			return "No words of yours in reply are on record.\n"
		}
		return "You replied:\n"
	}
	s := "You were interrupted before you had finished."
	if t.cancelled {
		s = "The user cancelled this before you had finished; do not go on with it unless the user asks for it again."
	}
	if t.acted {
		s += " What you had done by then is told above and counts."
	}
	if t.words != "" {
		s += " You had begun to say:"
	}
	return s + "\n"
}
