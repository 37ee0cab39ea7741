package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agent"
)

// Prefixes of the lines of a summary that the model parses.
const (
	callsHeader = "calls so far:"
	filesHeader = "files written: "
	runHeader   = "command run: "
	askedHeader = "asked: "
	leftHeader  = "still to do:"
)

// summary returns a summary that can replace the conversation: recall, todos, call ids and an
// unfinished prompt continue from it.
func (v *modelContext) summary() string {
	lines := []string{fmt.Sprintf("Summary of %d messages.", len(v.messages))}
	for _, f := range v.facts() {
		lines = append(lines, fmt.Sprintf("remember %s is %s", f.what, f.is))
	}
	for _, t := range v.todos() {
		lines = append(lines, fmt.Sprintf("- [%s] %s: %s", markOf(t.Status), t.ID, clip(t.Text, resultSize)))
	}
	if files := v.files(); len(files) > 0 {
		lines = append(lines, filesHeader+strings.Join(files, ", "))
	}
	lines = append(lines, v.earlierLines()...)
	before := *v
	if n := lastUser(v.messages); n >= 0 {
		before.messages = v.messages[:n] // without the request for the summary
	}
	for _, c := range callsIn(before.messages) {
		var args struct{ Command string }
		if c.Name == "execute" && json.Unmarshal(c.Args, &args) == nil {
			lines = append(lines, runHeader+clip(args.Command, resultSize))
		}
	}
	for i := range before.messages {
		if m := &before.messages[i]; m.Role == agent.User && !isSummary(m.Text()) {
			lines = append(lines, askedHeader+clip(m.Text(), resultSize/2))
		}
	}
	if id := v.callID(-1); id != "call_0" {
		lines = append(lines, callsHeader+" "+strings.TrimPrefix(id, "call_"))
	}
	return strings.Join(append(lines, before.remaining(v.tools)...), "\n")
}

func lastUser(messages []agent.Message) int {
	last := -1
	for i := range messages {
		if messages[i].Role == agent.User {
			last = i
		}
	}
	return last
}

func isSummary(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "Summary of ") && strings.HasSuffix(line, " messages.")
	})
}

// earlierLines returns the lines of earlier summaries that the messages do not contain.
func (v *modelContext) earlierLines() (lines []string) {
	for line := range v.lines {
		if strings.HasPrefix(line, runHeader) || strings.HasPrefix(line, askedHeader) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// files returns the paths that were written or edited.
func (v *modelContext) files() (paths []string) {
	add := func(path string) {
		if path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for line := range v.lines {
		if list, ok := strings.CutPrefix(line, filesHeader); ok {
			for _, path := range strings.Split(list, ", ") {
				add(path)
			}
		}
	}
	for _, c := range callsIn(v.messages) {
		var args struct{ Path string }
		switch c.Name {
		case "write_file", "append_file", "edit_file":
			if (c.result == nil || !c.result.Error) && json.Unmarshal(c.Args, &args) == nil {
				add(args.Path)
			}
		}
	}
	return paths
}

// remaining returns the lines of an unfinished prompt that are not done yet.
func (v *modelContext) remaining(have tools) []string {
	if n := len(v.messages); n == 0 || v.messages[n-1].Role == agent.Assistant && len(v.messages[n-1].Calls()) == 0 {
		return nil // there is no prompt, or it was answered
	}
	u := newContext(agent.Request{System: v.system, Messages: v.messages})
	p := planOf(u.prompt, have, func(tool string) bool {
		return len(have) == 0 || have.has(tool) // a request for a summary may offer none
	})
	if p.unknown != "" || p.empty && !u.resumed {
		return nil
	}
	lines := []string{leftHeader}
	for i := u.done; i < len(p.steps); i++ {
		lines = append(lines, p.steps[i].lines...)
	}
	return append(lines, p.tail.lines...)
}

func markOf(status string) string {
	switch status {
	case "completed":
		return "x"
	case "in_progress":
		return "~"
	case "cancelled":
		return "-"
	}
	return " "
}

func statusOf(mark string) string {
	for _, status := range []string{"completed", "in_progress", "cancelled"} {
		if markOf(status) == mark {
			return status
		}
	}
	return "pending"
}
