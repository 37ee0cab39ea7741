package preamble

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/history/turns"
)

// call is one call of a tool. Its texts are plain.
type call struct {
	id        string
	turn      *turn // nil if it is only counted
	times     int   // how often it was made
	inputSize int   // of the input in its description, 0 for an empty one
	tool      string
	verb      verb
	// subject is the object of the call in one line, such as a command or a path. input is the rest of
	// the tool's input, answer its output.
	subject, input, answer string
	state                  state
	isReadOnly             bool // it changes nothing, so it is not an effect
	isThought              bool // it does not look anything up, either
}

// state is the known outcome of a call.
type state int

const (
	begun state = iota // unknown
	done
	failed
	interrupted
	rejected  // by the user; the tool did not run
	withdrawn // the user cancelled the turn while the call waited for permission
	stopped   // the user cancelled the turn while the tool ran
	// unanswered is a call that still waited for permission when the turn was interrupted.
	unanswered
)

// verb is the action of a call in the words of the text: "ran", "run".
type verb struct{ past, infinitive string }

// The kinds of call: those of ACP, and a write, which ACP lacks.
const (
	kindExecute = "execute"
	kindWrite   = "write"
	kindEdit    = "edit"
	kindSearch  = "search"
	kindThink   = "think"
	kindOther   = "other"
)

func verbOf(kind string) verb {
	switch kind {
	case kindExecute:
		return verb{"ran", "run"}
	case kindWrite:
		return verb{"wrote", "write"}
	case kindEdit:
		return verb{"changed", "change"}
	case "delete":
		return verb{"deleted", "delete"}
	case "move":
		return verb{"moved", "move"}
	case "fetch":
		return verb{"fetched", "fetch"}
	case "read":
		return verb{"read", "read"}
	default:
		return verb{"used", "use"}
	}
}

// kindOf returns the kind of a call. The name of a known agent's tool decides, even if the agent
// announced another kind: agents announce a subagent as a thought, but a subagent may do anything. For
// other tools, it is the announced kind. An unknown tool may have done anything.
func kindOf(tool, announced string) string {
	switch t := agents.Tool(tool); {
	case t.Kind != "" && (t.Effect != profile.Runs || announced == ""):
		return t.Kind
	case announced != "":
		return announced
	}
	return strings.ToLower(tool)
}

// The lengths of the texts that a call keeps.
const (
	maxSubject = 200
	maxDetail  = 8 << 10 // of an input, and of an answer
)

// describe converts an intent to a call. A hook's intent is the tool's input. The proxy's intent has a
// title, a kind and perhaps the input.
func (b *Builder) describe(tool string, body json.RawMessage) *call {
	in := turns.ReadIntent(body)
	input, path := in.Input, append(in.Files, "")[0]
	kind := kindOf(tool, in.Kind)
	c := &call{times: 1, inputSize: max(0, len(input)-len(`{}`)), verb: verbOf(kind)}
	c.isThought = kind == kindThink || kind == "switch_mode"
	c.isReadOnly = c.isThought || kind == "read" || kind == kindSearch
	if tool != in.Kind || c.verb == verbOf(kindOther) && tool != kindOther {
		c.tool = toolName(tool)
	}
	if c.isReadOnly {
		c.verb = verbOf("read")
	}
	subject, rest := splitInput(tool, c.verb, input)
	title, file := plain(strings.Trim(in.Title, "`"), maxDetail), plain(path, maxDetail)
	if c.isOfFile() {
		subject = cmp.Or(subject, file, title)
	} else {
		subject = cmp.Or(subject, title, file)
	}
	if subject == "" {
		subject, rest = rest, ""
	}
	subject = b.relative(subject)
	c.subject, c.input = oneLine(subject, maxSubject), rest
	if rest == "" && c.subject != strings.TrimSpace(subject) {
		c.input = subject
	}
	if c.isReadOnly && c.subject != "" {
		c.subject, c.input = quote(c.subject, inLine), ""
	}
	return c
}

// relative returns s with paths below the session's directory relative to it.
func (b *Builder) relative(s string) string {
	const inPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/~"
	dir := strings.TrimSuffix(b.Dir, "/") + "/"
	if len(dir) < 3 {
		return s
	}
	parts := strings.Split(s, dir)
	for i := range parts[:len(parts)-1] {
		if before := parts[i]; before != "" && strings.Contains(inPath, before[len(before)-1:]) {
			parts[i] += dir // dir is a part of another path here
		}
	}
	return strings.Join(parts, "")
}

// describeAs replaces the description of a call by a later one.
func (c *call) describeAs(now *call) {
	c.inputSize, c.tool, c.verb, c.subject = now.inputSize, now.tool, now.verb, now.subject
}

// isOfFile reports whether the call writes or changes a file.
func (c *call) isOfFile() bool { return c.verb == verbOf(kindWrite) || c.verb == verbOf(kindEdit) }

// restored returns a call that stands for a restore of files by the user.
func restored(label string) *call {
	return &call{times: 1, verb: verb{past: "restored"}, subject: oneLine(plain(label, maxSubject), maxSubject), state: done}
}

// The lengths of a part of a call's text.
const (
	shortSubject = 60  // of the subject in the shortest text
	inlineAnswer = 160 // of an answer in one line
	minAnswer    = 24  // of an answer that is shortened
)

// text returns one or more lines about c, with about size bytes of the input and the answer. The
// answer gets a third of them, or the part that the input does not need.
func (c *call) text(size int) string {
	if size <= 0 {
		return c.sentence(shortSubject) + c.often() + c.ending() + ".\n"
	}
	input := min(len(c.input), max(size*2/3, size-len(c.answer)))
	answer := min(len(c.answer), size-input)
	text := c.sentence(maxSubject) + c.often() + c.ending() + "."
	hasInput := input > 0 && c.input != ""
	if hasInput {
		text += " You gave it:\n" + quotedLines(ends(c.input, input))
	}
	switch {
	case answer < min(minAnswer, len(c.answer)) || c.answer == "":
		if !hasInput {
			text += "\n"
		}
		return text
	case !hasInput:
		text += " "
	}
	if answer <= inlineAnswer && (len(c.answer) > answer || !strings.Contains(c.answer, "\n")) {
		return text + "It answered “" + ends(strings.Join(strings.Fields(straightQuotes.Replace(c.answer)), " "), answer) + "”.\n"
	}
	return text + "It answered:\n" + quotedLines(ends(c.answer, answer))
}

// sentence returns the sentence about c, without its ending.
func (c *call) sentence(subjectSize int) string {
	about := ""
	if c.subject != "" {
		about = quote(c.subject, subjectSize)
	}
	text := "- You " + c.verb.past
	switch {
	case c.verb.past == "restored":
		return "- Here the user restored files as they were before, by " + about + "; the record above may be out of date"
	case c.state == begun, c.state == stopped:
		text = "- You began to " + c.verb.infinitive
	case c.state == rejected, c.state == withdrawn, c.state == unanswered:
		text = "- You asked to " + c.verb.infinitive
	case c.state == failed && (c.verb == verbOf(kindWrite) || c.verb == verbOf(kindEdit)):
		text = "- You tried to " + c.verb.infinitive
	}
	with := ""
	if c.tool != "" {
		with = " with " + c.tool
	}
	switch {
	case c.verb == verbOf(kindOther) && c.tool != "" && about == "":
		return text + " " + c.tool
	case c.verb == verbOf(kindOther) && c.tool != "":
		return text + " " + c.tool + " for " + about
	case about == "":
		about = "something"
	}
	return text + " " + about + with
}

// often returns how often c was made as words, "" for once.
func (c *call) often() string {
	if c.times < 2 {
		return ""
	}
	return ", " + times(c.times)
}

// ending returns the outcome of c as words, "" if it ended normally.
func (c *call) ending() string {
	return map[state]string{
		begun:       "; its outcome is unknown: check before you do it again",
		failed:      ", and it failed",
		interrupted: ", and it was interrupted",
		rejected:    ", and the user rejected it: do not do it unless the user asks for it again",
		withdrawn:   ", and the user cancelled it before it was made: do not do it unless the user asks for it again",
		stopped:     ", and the user cancelled it while it ran; it may have had effects",
		unanswered:  ", and you were interrupted before the user answered: it was not made",
	}[c.state]
}
