package preamble

import (
	"encoding/json"
	"fmt"
	"strings"
)

// todo is one point of the agent's own list.
type todo struct{ what, status string }

// todos reads a list: entries of an ACP plan, or the input of a tool that writes
// one. It is nil if raw is neither, and empty if the list is.
func todos(raw json.RawMessage) []todo {
	list := whole(raw)
	if ms := members(list); ms != nil {
		if list = get(ms, "todos"); list == nil {
			list = get(ms, "plan")
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
	const most = 100
	ts := []todo{}
	for _, p := range points[:min(most, len(points))] {
		if what := line(plain(p.Content+p.Step, keepSubject), keepSubject); what != "" {
			ts = append(ts, todo{what, p.Status})
		}
	}
	return ts
}

// tellPlan tells the open points of a list in at most room bytes.
func tellPlan(plan []todo, room int) string {
	const heading, rest = 96, 40
	done, told, left := 0, 0, 0
	var points strings.Builder
	for _, t := range plan {
		one := "- " + quote(t.what, keepSubject)
		switch t.status {
		case "completed":
			done++
			continue
		case "in_progress":
			one += ", begun"
		}
		if one += "\n"; points.Len()+len(one)+heading+rest > room {
			left++
			continue
		}
		told++
		points.WriteString(one)
	}
	if told == 0 {
		return ""
	}
	head := "This is open on your list of things to do:\n"
	if done > 0 {
		head = fmt.Sprintf("This is open on your list of things to do, after %d that are done:\n", done)
	}
	if left > 0 {
		fmt.Fprintf(&points, "- and %d more\n", left)
	}
	return head + points.String()
}
