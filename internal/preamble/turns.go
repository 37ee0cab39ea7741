package preamble

import (
	"fmt"
	"strings"
)

// How much a Builder keeps of all turns. Bytes decide and not the number of
// turns, up to a number that only bounds the memory of a hostile thread.
const (
	maxTurns       = 4096
	maxPromptBytes = 512 << 10
	maxReplyBytes  = 384 << 10
	maxWords       = 12 << 10 // of one prompt, and of one reply
	briefSize      = 160      // of one of them, once it is shortened
)

// turn has the words of the user and the agent in one turn.
type turn struct {
	number        int
	isFirst       bool
	prompt        string // the user's words
	reply         string // the agent's words
	hasEffects    bool
	isEnded       bool
	isInterrupted bool
	isCancelled   bool // by the user
}

// joinWords adds words to those before them, and clips the result.
func joinWords(before, words string) string {
	words = strings.TrimSpace(plain(words, maxWords))
	if before == "" || words == "" {
		return before + words
	}
	return clip(before+"\n\n"+words, maxWords)
}

// turns are the turns of a thread, oldest first.
type turns struct {
	list        []turn
	count       int // of all turns, including those that were dropped
	promptBytes int // in list
	replyBytes  int // in list
}

// update calls change, which may change the words of t, and keeps the sums within their
// bounds: the oldest replies are shortened first and then dropped, then the oldest prompts
// are shortened. The newest turn stays as it is.
func (ts *turns) update(t *turn, change func()) {
	ts.promptBytes -= len(t.prompt)
	ts.replyBytes -= len(t.reply)
	change()
	ts.promptBytes += len(t.prompt)
	ts.replyBytes += len(t.reply)
	shorten := func(sum *int, limit, size int, words func(*turn) *string) {
		for i := 0; i < len(ts.list)-1 && *sum > limit; i++ {
			s := words(&ts.list[i])
			*sum -= len(*s)
			*s = clip(*s, size)
			*sum += len(*s)
		}
	}
	reply := func(t *turn) *string { return &t.reply }
	shorten(&ts.replyBytes, maxReplyBytes, briefSize, reply)
	shorten(&ts.replyBytes, maxReplyBytes, 0, reply)
	shorten(&ts.promptBytes, maxPromptBytes, briefSize, func(t *turn) *string { return &t.prompt })
}

// begin adds a turn. If there are too many, it drops the older half.
func (ts *turns) begin(number int) *turn {
	if len(ts.list) == maxTurns {
		for _, t := range ts.list[:maxTurns/2] {
			ts.promptBytes -= len(t.prompt)
			ts.replyBytes -= len(t.reply)
		}
		ts.list = append(ts.list[:0], ts.list[maxTurns/2:]...)
	}
	ts.count++
	ts.list = append(ts.list, turn{number: number, isFirst: ts.count == 1})
	return &ts.list[len(ts.list)-1]
}

// promptSize is the length of all prompts in full.
func (ts *turns) promptSize() (n int) {
	for i := range ts.list {
		if t := &ts.list[i]; t.prompt != "" || t.reply != "" {
			n += t.promptSize(inFull)
		}
	}
	return n
}

// inFull is the form of a prompt that is not shortened. Every other form is the number of
// bytes of a prompt in one line.
const inFull = -1

// promptForms are the forms of a prompt, the fullest first.
var promptForms = [...]int{inFull, 400, briefSize, 80}

// promptSize is the length of a turn's prompt in a form.
func (t *turn) promptSize(form int) int {
	const frame = len("\nThe user said:\n> \n")
	switch {
	case form != inFull:
		return len(t.brief(form))
	case t.isFirst:
		return len("\n" + firstPrompt)
	}
	return frame + len(t.prompt) + 2*strings.Count(t.prompt, "\n")
}

// firstPrompt replaces the prompt of the first turn, which is the task.
const firstPrompt = "The user said the task that is quoted above.\n"

// brief returns the prompt in one line, without the reply.
func (t *turn) brief(size int) string {
	prompt := t.prompt
	if prompt == "" {
		prompt = "(nothing on record)"
	}
	text := "- " + quote(prompt, size)
	switch {
	case t.isCancelled:
		text += ", and then cancelled it"
	case t.isInterrupted || !t.isEnded:
		text += ", and you were interrupted"
	}
	return text + "\n"
}

// replyLead returns the words before a reply.
func (t *turn) replyLead(reply string) string {
	if t.isComplete() {
		if reply == "" {
			return "Your reply was not recorded.\n"
		}
		return "You replied:\n"
	}
	text := "You were interrupted before you had finished."
	if t.isCancelled {
		text = "The user cancelled this before you had finished; do not go on with it unless the user asks for it again."
	}
	if t.hasEffects {
		text += " What you had done by then is listed above and remains in effect."
	}
	if reply != "" {
		text += " You had begun to say:"
	}
	return text + "\n"
}

// isComplete reports whether the agent ended the turn normally.
func (t *turn) isComplete() bool { return t.isEnded && !t.isInterrupted && !t.isCancelled }

// turnText is the form in which a text has one turn.
type turnText struct {
	*turn
	form  int    // of the prompt
	reply string // as quoted lines, or ""
}

// noReply replaces the reply of a complete turn if there is no room for it.
const noReply = "Your reply is left out.\n"

// full returns the turn with as much of the reply as was chosen.
func (t *turnText) full() string {
	text := "The user said:\n" + quotedLines(t.prompt)
	switch {
	case t.prompt == "":
		text = ""
	case t.isFirst:
		text = firstPrompt
	}
	if t.reply == "" && t.turn.reply != "" && t.isComplete() {
		return text + noReply
	}
	return text + t.replyLead(t.reply) + t.reply
}

// size is the length of the text without a reply.
func (t *turnText) size() int {
	n := t.promptSize(t.form)
	if t.form == inFull {
		n += len(noReply) + 200 // or of an interruption
	}
	return n
}

const briefHeading = "\nIn these turns the user said the following; your replies are left out.\n"

// text returns the turns in at most room bytes: the prompts first, the oldest
// shortened first; then the replies, the newest in full. The oldest turns are brief and the
// newest are in full.
func (ts *turns) text(room int) string {
	const heading = len("These were the last 10000 of 10000 turns, oldest first.\n") + len(briefHeading)
	all := ts.choose(room - heading)
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	switch {
	case len(all) == 1 && ts.count == 1:
		b.WriteString("This was the last turn.\n")
	case len(all) == ts.count:
		b.WriteString("These were the turns, oldest first.\n")
	default:
		fmt.Fprintf(&b, "These were the last %d of %d turns, oldest first.\n", len(all), ts.count)
	}
	for i, t := range all {
		switch {
		case t.form == inFull:
			b.WriteString("\n" + t.full())
			continue
		case i == 0 || all[i-1].form == inFull:
			b.WriteString(briefHeading)
		}
		b.WriteString(t.brief(t.form))
	}
	return b.String()
}

// choose returns the turns for which there is room, each in its form.
func (ts *turns) choose(room int) []turnText {
	var all []turnText
	for i := range ts.list {
		if t := &ts.list[i]; t.prompt != "" || t.reply != "" {
			all = append(all, turnText{turn: t, form: inFull})
		}
	}
	if len(all) == 0 || room <= 0 {
		return nil
	}
	all, room = fitPrompts(all, room)
	fitReplies(all, room)
	return all
}

// fitPrompts chooses the forms of the prompts: for all turns the fullest form
// that leaves two fifths of the room, then for the newest turns fuller forms while a
// quarter is left for replies. It drops turns, the oldest first, only if the
// shortest form of all turns needs more than nine tenths of the room. It returns
// the turns that it keeps and the room that is left.
func fitPrompts(all []turnText, room int) ([]turnText, int) {
	sum := 0
	for _, form := range promptForms {
		sum = 0
		for i := range all {
			all[i].form = form
			sum += all[i].size()
		}
		if sum <= room*3/5 {
			break
		}
	}
	for sum > room*9/10 && len(all) > 0 {
		sum -= all[0].size()
		all = all[1:]
	}
	forms := promptForms[:] // an older turn gets no fuller form than a newer one
	for i := len(all) - 1; i >= 0 && forms[0] != all[i].form; i-- {
		t := all[i]
		for t.form = forms[0]; t.form != all[i].form && sum-all[i].size()+t.size() > room*3/4; t.form = forms[0] {
			forms = forms[1:]
		}
		sum += t.size() - all[i].size()
		all[i] = t
	}
	return all, room - sum
}

// fitReplies gives the room to the replies of the turns in full, the
// newest first: each gets a third of the room that is left.
func fitReplies(all []turnText, room int) {
	const least = 160
	for i := len(all) - 1; i >= 0 && room >= least; i-- {
		t := &all[i]
		words := t.turn.reply
		if t.form != inFull || words == "" {
			continue
		}
		share := max(room/3, least)
		if i == 0 || len(words)*5/4+64 < least {
			share = room
		}
		t.reply = block(words, share)
		room -= len(t.reply)
	}
}
