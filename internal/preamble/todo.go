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
	const heading, more = 80, 20
	told, left := 0, 0
	var points strings.Builder
	for _, t := range plan {
		if t.status == "completed" {
			continue
		}
		one := "- " + quote(t.what, keepSubject)
		if t.status == "in_progress" {
			one += ", begun"
		}
		if heading+points.Len()+len(one)+more > room {
			left++
			continue
		}
		told++
		points.WriteString(one + "\n")
	}
	if told == 0 {
		return ""
	}
	if left > 0 {
		fmt.Fprintf(&points, "- and %d more\n", left)
	}
	return fmt.Sprintf("Of the %d points on your list of things to do, these are open:\n%s", len(plan), points.String())
}
