package preamble

import (
	"encoding/json"
	"strings"

	"github.com/dalsegno/segno/internal/agenttool"
)

// call is one call of a tool. Its texts are plain.
type call struct {
	id        string
	turn      int
	inputSize int // of the input it was described from, 0 for an empty one
	tool      string
	verb      verb
	// subject is the object of the call in one line: a command, a path. input is
	// the rest of the tool's input, answer its output.
	subject, input, answer string
	state                  state
	isReadOnly             bool              // it changes nothing, so it is not an effect
	sizes                  [len(details)]int // of the text at each level of detail, 0 if not computed
}

// state is how a call ended, as far as it is known.
type state int

const (
	begun state = iota // unknown
	done
	failed
	interrupted
	rejected  // by the user; the tool did not run
	withdrawn // the user cancelled the turn while the call waited for permission
	stopped   // the user cancelled the turn while the tool ran
)

// verb is the action of a call in the words of the text: "ran", "run".
type verb struct{ past, infinitive string }

// The kinds of call, as ACP has them, and a write, which ACP lacks.
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
	default:
		return verb{"used", "use"}
	}
}

// kindOf returns the kind of a call: by the tool's name if it is one of a known agent's,
// even if the agent announced another kind, because a subagent may do anything and is
// announced as a thought. Otherwise it is the announced kind. An unknown tool may have done
// anything.
func kindOf(tool, announced string) string {
	switch t := agenttool.Of(tool); {
	case t.Kind != "" && (t.Effect != agenttool.Runs || announced == ""):
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

// describe makes a call of an intent. A hook's intent is the tool's input. The
// proxy's intent has a title, a kind and perhaps the input.
func describe(tool string, body json.RawMessage) *call {
	title, announced, input, path := readIntent(body)
	kind := kindOf(tool, announced)
	c := &call{inputSize: max(0, len(input)-len(`{}`)), verb: verbOf(kind)}
	if c.isReadOnly = kind == "read" || kind == kindSearch || kind == kindThink || kind == "switch_mode"; c.isReadOnly {
		return c
	}
	if tool != announced || c.verb == verbOf(kindOther) && tool != kindOther {
		c.tool = toolName(tool)
	}
	subject, rest := splitInput(tool, kind, input)
	if subject == "" {
		subject = plain(strings.Trim(title, "`"), maxDetail)
	}
	if subject == "" {
		subject = plain(path, maxDetail)
	}
	if subject == "" {
		subject, rest = rest, ""
	}
	c.subject, c.input = oneLine(subject, maxSubject), rest
	if rest == "" && c.subject != strings.TrimSpace(subject) {
		c.input = subject
	}
	return c
}

// restored returns the entry among the calls for a user's restore of files.
func restored(turn int, label string) *call {
	return &call{turn: turn, verb: verb{past: "restored"}, subject: oneLine(plain(label, maxSubject), maxSubject), state: done}
}

// setResult adds a result. If the result reports that the call still runs, the call remains
// begun.
func (c *call) setResult(body json.RawMessage) {
	c.state, c.answer = readResult(body)
	if c.verb == verbOf(kindWrite) && c.state == done {
		c.answer = "" // it repeats the input
	}
}

// detailSize is the length of the parts that the shortest text about c leaves out.
func (c *call) detailSize() int { return len(c.input) + len(c.answer) }

func (c *call) dropDetails() {
	c.input, c.answer = "", ""
	c.sizes = [len(details)]int{}
}

// detail is how much of a call a text has, in bytes.
type detail struct{ subject, input, answer int }

// details are the levels of detail, the fullest first: answers are shortened
// first, then inputs, then subjects.
var details = [...]detail{
	{maxSubject, maxDetail, maxDetail},
	{maxSubject, maxDetail, 1024},
	{maxSubject, maxDetail, 160},
	{maxSubject, 1024, 120},
	{maxSubject, 240, 80},
	{maxSubject, 0, 40},
	{120, 0, 0},
	{60, 0, 0},
}

const shortest = len(details) - 1

// size is the length of c's text at a level of detail.
func (c *call) size(level int) int {
	if c.sizes[level] == 0 {
		c.sizes[level] = len(c.text(level))
	}
	return c.sizes[level]
}

// text returns one or more lines about c.
func (c *call) text(level int) string {
	const inline = 160
	limit := details[level]
	text := c.sentence(limit.subject) + c.ending() + "."
	hasInput := limit.input > 0 && c.input != ""
	if hasInput {
		text += " You gave it:\n" + block(c.input, limit.input)
	}
	switch {
	case limit.answer == 0 || c.answer == "":
		if !hasInput {
			text += "\n"
		}
		return text
	case !hasInput:
		text += " "
	}
	if limit.answer <= inline || len(c.answer) <= inline && !strings.Contains(c.answer, "\n") {
		return text + "It answered " + quote(c.answer, min(limit.answer, inline)) + ".\n"
	}
	return text + "It answered:\n" + block(c.answer, limit.answer)
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
	case c.state == rejected, c.state == withdrawn:
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
		return text + " something" + with
	}
	return text + " " + about + with
}

// ending returns how c ended, "" if it ended normally.
func (c *call) ending() string {
	switch c.state {
	case failed:
		return ", and it failed"
	case interrupted:
		return ", and it was interrupted"
	case rejected:
		return ", and the user rejected it"
	case withdrawn:
		return ", and the user cancelled it before it was made"
	case stopped:
		return ", and the user cancelled it while it ran; it may have had effects"
	default:
		return ""
	}
}
