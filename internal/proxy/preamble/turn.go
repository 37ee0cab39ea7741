package preamble

import (
	"fmt"
	"slices"
	"strings"
)

// The limits of a Builder for all turns together. Usually the limits in bytes decide. The
// limits in numbers only bound the memory that a hostile thread can use.
const (
	maxTurns       = 4096
	maxPromptBytes = 512 << 10
	maxReplyBytes  = 384 << 10
	maxWords       = 12 << 10 // of one prompt, and of one reply
	briefSize      = 160      // of one of them, once it is shortened
	maxCalls       = 2048     // that are kept one by one
	maxDetailBytes = 512 << 10
	maxLookups     = 64 // that one turn names
)

// turn has the words of the user and the agent in one turn, and the agent's actions.
type turn struct {
	number        int
	prompt        string   // the user's words
	reply         string   // the agent's words
	calls         []*call  // that may have had effects, oldest first
	lookups       []string // the names of what the agent looked up, oldest first
	lookupCount   int
	isEnded       bool
	isInterrupted bool
	isCancelled   bool // by the user
}

// isEmpty reports whether there is nothing to write about the turn.
func (t *turn) isEmpty() bool {
	return t.prompt == "" && t.reply == "" && len(t.calls) == 0 && t.lookupCount == 0
}

// isComplete reports whether the agent ended the turn normally.
func (t *turn) isComplete() bool { return t.isEnded && !t.isInterrupted && !t.isCancelled }

// joinWords appends words to the previous ones, and clips the result.
func joinWords(before, words string) string {
	words = strings.TrimSpace(plain(words, maxWords))
	if before == "" || words == "" {
		return before + words
	}
	return clip(before+"\n\n"+words, maxWords)
}

// lookUp notes the name of something that the agent looked up.
func (t *turn) lookUp(name string) {
	t.lookupCount++
	if name != "" && len(t.lookups) < maxLookups && !slices.Contains(t.lookups, name) {
		t.lookups = append(t.lookups, name)
	}
}

// forgetLookup undoes lookUp, after a later report has changed the name or the kind of the
// call.
func (t *turn) forgetLookup(name string) {
	t.lookupCount--
	t.lookups = slices.DeleteFunc(t.lookups, func(n string) bool { return n == name })
}

// inLine is the number of bytes of a prompt in the shortest text about a turn.
const inLine = 80

// promptText returns the user's words, with about size bytes of them.
func (t *turn) promptText(size int) string {
	switch {
	case t.prompt == "":
		return "The user's message was not recorded.\n"
	case size <= inLine || len(t.prompt) <= inLine && !strings.Contains(t.prompt, "\n"):
		return "The user said " + quote(t.prompt, inLine) + ".\n"
	}
	return "The user said:\n" + quotedLines(ends(t.prompt, size))
}

// replyText returns a text about the end of the turn and, if size is not 0, about size
// bytes of the agent's words.
func (t *turn) replyText(size int) string {
	text, lead := "", "You replied:\n"
	if !t.isComplete() {
		text, lead = "You were interrupted before you had finished.", " You had begun to say:\n"
		if t.isCancelled {
			text = "The user cancelled this before you had finished; do not go on with it unless the user asks for it again."
		}
	}
	if size <= 0 || t.reply == "" {
		if text != "" {
			text += "\n"
		}
		return text
	}
	return text + lead + quotedLines(ends(t.reply, size))
}

// lookupText names the agent's lookups in about size bytes. It returns "" if size is too
// small.
func (t *turn) lookupText(size int) string {
	shown, n := []string(nil), 0
	for i, name := range slices.Backward(t.lookups) {
		if n += len(name) + 2; n > size {
			shown = t.lookups[i+1:]
			break
		}
		shown = t.lookups[i:]
	}
	if len(shown) == 0 {
		return ""
	}
	text := "You looked up " + strings.Join(shown, ", ")
	if more := t.lookupCount - len(shown); more > 0 {
		text += fmt.Sprintf(", and more, %s in all", times(t.lookupCount))
	}
	return text + ".\n"
}
