package preamble

import (
	"encoding/json"
	"strings"
)

// effect is one call of a tool. What it holds of others is plain text.
type effect struct {
	id    string
	turn  int
	known int // the length of the input it was described from, if that says anything
	tool  string
	act   act
	// subject is what the call is about in one line: a command, a path. input is
	// the rest of what the tool was given, answer what it said.
	subject, input, answer string
	state                  state
	looks                  bool             // it changes nothing and is no effect at all
	sizes                  [len(depths)]int // of what is told at each, once it was asked for
}

// state says what is known of how a call ended.
type state int

const (
	begun state = iota // nothing
	done
	failed
	interrupted
	rejected  // by the user, and not made
	withdrawn // the user cancelled the turn while the call waited for permission
	stopped   // the user cancelled the turn while the call ran
)

// act is what a call does, in the agent's own words: "ran", "run".
type act struct{ did, do string }

// The kinds of call, as ACP has them, and a write, which it has not.
const (
	execute = "execute"
	write   = "write"
	edit    = "edit"
	search  = "search"
	think   = "think"
	other   = "other"
)

func actOf(kind string) act {
	switch kind {
	case execute:
		return act{"ran", "run"}
	case write:
		return act{"wrote", "write"}
	case edit:
		return act{"changed", "change"}
	case "delete":
		return act{"deleted", "delete"}
	case "move":
		return act{"moved", "move"}
	case "fetch":
		return act{"fetched", "fetch"}
	default:
		return act{"used", "use"}
	}
}

// kindOf says what a tool does: by its name if it is one of a known agent's,
// whatever kind it was announced as, since a subagent may do anything and is
// announced as mere thought; else by that kind. Of whom nothing is known may have
// done anything.
func kindOf(tool, announced string) string {
	switch tool = strings.ToLower(tool); tool {
	case "bash", "shell", "exec_command", "local_shell", "run_shell_command":
		if announced == "" {
			return execute
		}
	case "write", "write_file", "create_file", "fs/write_text_file":
		return write
	case "multiedit", "notebookedit", "replace", "str_replace", "apply_patch":
		return edit
	case "task", "agent":
		return other
	case "grep", "glob", "ls", "read_file", "read_many_files", "list_directory", "fs/read_text_file", "notebookread", "bashoutput",
		"toolsearch", "websearch", "webfetch", "web_search", "web_fetch", "google_web_search":
		return search
	case "todowrite", "todoread", "update_plan", "write_todos", "exitplanmode", "enterplanmode":
		return think
	}
	if announced != "" {
		return announced
	}
	return tool
}

// looking reports whether calls of a kind change nothing.
func looking(kind string) bool {
	return kind == "read" || kind == search || kind == think || kind == "switch_mode"
}

const (
	keepSubject = 200
	keepDetail  = 8 << 10 // of an input, and of an answer
)

// describe makes an effect of an intent. Hooks tell the tool's raw input; the
// proxy tells a title, a kind and perhaps the input.
func describe(tool string, body json.RawMessage) *effect {
	title, announced, input, place := asked(body)
	kind := kindOf(tool, announced)
	e := &effect{known: max(0, len(input)-len(`{}`)), looks: looking(kind), act: actOf(kind)}
	if e.looks {
		return e
	}
	if tool != announced || e.act == actOf(other) && tool != other {
		e.tool = name(tool)
	}
	subject, rest := divide(kind, input)
	if subject == "" {
		subject = plain(strings.Trim(title, "`"), keepDetail)
	}
	if subject == "" {
		subject = plain(place, keepDetail)
	}
	if subject == "" {
		subject, rest = rest, ""
	}
	e.subject, e.input = line(subject, keepSubject), rest
	if rest == "" && e.subject != strings.TrimSpace(subject) {
		e.input = subject
	}
	return e
}

// restored stands among the effects for a person's moving back of files.
func restored(turn int, label string) *effect {
	return &effect{turn: turn, act: act{did: "restored"}, subject: line(plain(label, keepSubject), keepSubject), state: done}
}

// conclude adds what a result says. One that says the call still runs leaves it
// begun.
func (e *effect) conclude(body json.RawMessage) {
	e.state, e.answer = outcome(body)
	if e.act == actOf(write) && e.state == done {
		e.answer = "" // it repeats the input
	}
}

// bytes is what e holds that a line of it does not need.
func (e *effect) bytes() int { return len(e.input) + len(e.answer) }

// depth says how much of a call is told, in bytes.
type depth struct{ subject, input, answer int }

// depths are the ways to tell a call, the fullest first: answers are shortened
// first, then inputs, then subjects.
var depths = [...]depth{
	{keepSubject, keepDetail, keepDetail},
	{keepSubject, keepDetail, 1024},
	{keepSubject, keepDetail, 160},
	{keepSubject, 1024, 120},
	{keepSubject, 240, 80},
	{keepSubject, 0, 40},
	{120, 0, 0},
	{60, 0, 0},
}

const shortest = len(depths) - 1

// size is the length of what is told of e at a depth.
func (e *effect) size(d int) int {
	if e.sizes[d] == 0 {
		e.sizes[d] = len(e.tell(d))
	}
	return e.sizes[d]
}

// tally counts e as something that was done once.
func (e *effect) tally() tally {
	t := tally{what: e.sentence(depths[shortest].subject), tool: e.tool, times: 1}
	switch e.state {
	case failed:
		t.failed = 1
	case interrupted, rejected, withdrawn, stopped:
		t.what += e.ending()
	}
	return t
}

// tell tells e on lines of its own.
func (e *effect) tell(d int) string {
	const inline = 160
	limit := depths[d]
	var b strings.Builder
	b.WriteString(e.sentence(limit.subject))
	b.WriteString(e.ending())
	b.WriteString(".")
	given := limit.input > 0 && e.input != ""
	if given {
		b.WriteString(" You gave it:\n")
		b.WriteString(block(e.input, limit.input))
	}
	if limit.answer > 0 && e.answer != "" {
		if !given {
			b.WriteString(" ")
		}
		if limit.answer <= inline || len(e.answer) <= inline && !strings.Contains(e.answer, "\n") {
			b.WriteString("It answered " + quote(e.answer, min(limit.answer, inline)) + ".\n")
		} else {
			b.WriteString("It answered:\n" + block(e.answer, limit.answer))
		}
	} else if !given {
		b.WriteString("\n")
	}
	return b.String()
}

// sentence says what e is, up to how it ended.
func (e *effect) sentence(subject int) string {
	var b strings.Builder
	about := ""
	if e.subject != "" {
		about = quote(e.subject, subject)
	}
	switch {
	case e.act.did == "restored":
		return "- Here the user restored files as they were before, by " + about + "; what is told above may not stand any more"
	case e.state == begun || e.state == stopped:
		b.WriteString("- You began to " + e.act.do)
	case e.state == rejected || e.state == withdrawn:
		b.WriteString("- You asked to " + e.act.do)
	case e.state == failed && (e.act == actOf(write) || e.act == actOf(edit)):
		b.WriteString("- You tried to " + e.act.do)
	default:
		b.WriteString("- You " + e.act.did)
	}
	switch {
	case e.act == actOf(other) && e.tool != "":
		b.WriteString(" " + e.tool)
		if about != "" {
			b.WriteString(" for " + about)
		}
		return b.String()
	case about != "":
		b.WriteString(" " + about)
	default:
		b.WriteString(" something")
	}
	if e.tool != "" {
		b.WriteString(" with " + e.tool)
	}
	return b.String()
}

// ending says how e ended, if that needs a word.
func (e *effect) ending() string {
	switch e.state {
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
