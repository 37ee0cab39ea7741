package preamble

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/history/turns"
)

// splitInput splits a tool's input into the subject of the call and the rest.
func splitInput(tool string, v verb, input json.RawMessage) (subject, rest string) {
	fields := turns.FieldsOf(input)
	if v == verbOf(kindOther) || len(fields) == 0 {
		text := turns.TextOf(input)
		if text == "{}" {
			return "", ""
		}
		if len(fields) > 0 && !turns.IsClipped(input) {
			text = string(input)
		}
		return "", plainDetail(text)
	}
	name, subject := turns.SubjectField(tool, fields)
	ignored := []string{name, "description", "timeout", "run_in_background"} // the last three do not change the effect of the call
	fields = slices.DeleteFunc(fields, func(f turns.Field) bool { return slices.Contains(ignored, f.Name) })
	var parts []string
	for _, f := range fields {
		text := plainDetail(turns.TextOf(f.Value))
		if len(fields) > 1 {
			text = oneLine(plain(f.Name, maxSubject), maxSubject) + ": " + text
		}
		parts = append(parts, text)
	}
	rest = clip(strings.Join(parts, "\n"), maxDetail)
	subject = strings.TrimSpace(plain(subject, maxDetail))
	if strings.Contains(subject, "\n") || len(subject) > maxSubject { // one line is too short for it
		rest = strings.TrimSpace(clip(subject+"\n"+rest, maxDetail))
	}
	return subject, rest
}

// readResult returns the outcome of a call, and its output.
func readResult(body json.RawMessage) (end state, output string) {
	switch r := turns.ReadResult(body); {
	case r.IsRunning:
		return begun, plainDetail(r.Text)
	case r.Interrupted:
		return interrupted, plainDetail(r.Text)
	case r.Failed():
		return failed, plainDetail(r.Text)
	default:
		return done, plainDetail(r.Text)
	}
}

// todo is one item of the agent's todo list.
type todo struct{ text, status string }

// readTodos decodes a todo list: the entries of an ACP plan, or the input of a tool that
// writes such a list. It returns nil if raw is neither, and an empty list if the list is
// empty.
func readTodos(raw json.RawMessage) []todo {
	list := turns.Unclip(raw)
	if f := turns.FieldsOf(list); f != nil {
		if list = f.Get("todos"); list == nil {
			list = f.Get("plan")
		}
	}
	var points []struct {
		Content string `json:"content"`
		Step    string `json:"step"`
		Status  string `json:"status"`
	}
	if len(list) == 0 || list[0] != '[' || json.Unmarshal(list, &points) != nil {
		return nil
	}
	const maxTodos = 100
	out := []todo{}
	for _, p := range points[:min(maxTodos, len(points))] {
		if text := oneLine(plain(p.Content+p.Step, maxSubject), maxSubject); text != "" {
			out = append(out, todo{text, p.Status})
		}
	}
	return out
}

// planText returns the open items of a todo list in at most room bytes.
func planText(plan []todo, room int) string {
	const heading, more = 80, 20
	shown, left := 0, 0
	var points strings.Builder
	for _, t := range plan {
		if t.status == "completed" {
			continue
		}
		line := "- " + quote(t.text, maxSubject)
		if t.status == "in_progress" {
			line += ", begun"
		}
		if heading+points.Len()+len(line)+more > room {
			left++
			continue
		}
		shown++
		points.WriteString(line + "\n")
	}
	if shown == 0 {
		return ""
	}
	if left > 0 {
		fmt.Fprintf(&points, "- and %d more\n", left)
	}
	return fmt.Sprintf("Of the %d points on your list of things to do, these are open:\n%s", len(plan), points.String())
}
