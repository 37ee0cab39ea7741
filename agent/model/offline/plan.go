package offline

import (
	"fmt"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// step is the work of one answer: some text, then the calls of one line.
type step struct {
	lines []string // as they were written
	cmds  []command
}

// plan is the work that a prompt asks for, in order.
type plan struct {
	steps   []step // all of them with calls
	tail    step   // the text of the last answer
	unknown string // the first unknown command, "" if none
	empty   bool   // the prompt is empty
}

// planOf parses a prompt. Only the verb and the offered tools decide whether a command is a call.
// Results have no influence, so the steps keep their numbers.
func planOf(prompt string, have tools, may func(tool string) bool) (p plan) {
	p.empty = true
	for line := range strings.Lines(prompt) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		p.empty = false
		cmds, unknown := parseLine(line)
		if unknown != "" {
			return plan{unknown: unknown}
		}
		p.tail.lines = append(p.tail.lines, line)
		p.tail.cmds = append(p.tail.cmds, cmds...)
		for _, c := range cmds {
			if tool := have.toolFor(c); tool != "" && may(tool) {
				p.steps = append(p.steps, p.tail)
				p.tail = step{}
				break
			}
		}
	}
	return p
}

// tools are the offered tools, by name.
type tools map[string]*agent.ToolSpec

func toolsOf(specs []agent.ToolSpec) tools {
	t := tools{}
	for i := range specs {
		t[specs[i].Name] = &specs[i]
	}
	return t
}

func (t tools) has(name string) bool { return t[name] != nil }

// toolFor returns the tool that a command needs, "" if it needs none.
func (t tools) toolFor(c command) string {
	switch c.name {
	case "append":
		if w := t["write_file"]; w != nil && strings.Contains(string(w.Schema), `"append"`) {
			return "write_file"
		}
	case "call":
		return c.args[0]
	}
	return c.tool
}

func answerTo(r agent.Request) *answer {
	v := newContext(r)
	a := &answer{}
	defer a.limit(r.MaxTokens)
	if verb, _ := cutVerb(v.prompt); verb == "summarize" || verb == "summarise" {
		a.text = []string{v.summary()} // regardless of the rest of the prompt
		return a
	}
	p := planOf(v.prompt, v.tools, v.tools.has)
	switch {
	case p.unknown != "":
		a.text = []string{fmt.Sprintf("I do not understand %q. %s", clip(p.unknown, 80), v.tools.help())}
	case p.empty && !v.resumed:
		a.text = []string{v.tools.help()}
	case v.done < len(p.steps):
		a.addStep(p.steps[v.done], v)
		return a
	default:
		a.addStep(p.tail, v)
		a.addOutcomes(v)
	}
	if final := v.tools["final_answer"]; final != nil && v.done <= len(p.steps) {
		a.calls = []agent.Call{{ID: v.callID(0), Name: final.Name, Args: exampleOf(final.Schema, strings.Join(a.text, "\n"))}}
		a.text = nil
	}
	return a
}

// help lists the commands that these tools support.
func (t tools) help() string {
	var known []string
	for i := range verbs {
		if tool := t.toolFor(command{verb: &verbs[i]}); tool == "" || t[tool] != nil {
			known = append(known, strings.TrimSpace(verbs[i].name+" "+verbs[i].usage))
		}
	}
	return "I am a model without a network and follow plain commands, one a line: " + strings.Join(known, "; ") + "."
}

func (a *answer) addStep(s step, v *modelContext) {
	var todos []command
	for _, c := range s.cmds {
		tool := v.tools.toolFor(c)
		switch {
		case c.name == "think":
			a.thinking = append(a.thinking, c.args[0])
		case tool == "":
			a.text = append(a.text, v.say(c))
		case !v.tools.has(tool):
			a.text = append(a.text, fmt.Sprintf("I have no tool %s.", tool))
		case c.tool == "write_todos":
			todos = append(todos, c) // one call for all, because concurrent calls would race
			if len(todos) == 1 {
				a.calls = append(a.calls, agent.Call{Name: tool})
			}
		default:
			a.calls = append(a.calls, agent.Call{Name: tool, Args: c.callArgs()})
		}
	}
	for i := range a.calls {
		a.calls[i].ID = v.callID(i)
		if a.calls[i].Args == nil {
			a.calls[i].Args = v.todosAfter(todos)
		}
	}
}

// say answers a command without a tool.
func (v *modelContext) say(c command) string {
	switch c.name {
	case "remember":
		return fmt.Sprintf("noted: %s is %s", c.args[0], c.args[1])
	case "recall":
		for _, f := range v.facts() {
			if strings.EqualFold(f.what, c.args[0]) {
				return fmt.Sprintf("%s is %s", c.args[0], f.is)
			}
		}
		return fmt.Sprintf("I do not know %s.", c.args[0])
	case "count":
		if n := len(v.messages); n != 1 {
			return fmt.Sprintf("%d messages", n)
		}
		return "1 message"
	case "summarize":
		return v.summary()
	}
	return c.args[0]
}
