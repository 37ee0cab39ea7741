package export

import (
	"strings"

	"github.com/dalsegno/segno/internal/history/turns"
)

// separateSubagents moves the calls of subagents from the turn's items to its subagents.
func (t *Turn) separateSubagents() {
	var own []turns.Item
	byID := map[string]int{}
	for _, it := range t.Items {
		if it.Call == nil || it.Call.Agent == "" {
			own = append(own, it)
			continue
		}
		i, ok := byID[it.Call.Agent]
		if !ok {
			i = len(t.Subagents)
			byID[it.Call.Agent] = i
			t.Subagents = append(t.Subagents, Subagent{ID: it.Call.Agent})
		}
		t.Subagents[i].Calls = append(t.Subagents[i].Calls, it.Call)
	}
	t.Items = own
	for i := range t.Subagents {
		t.Subagents[i].Parent = t.callOf(&t.Subagents[i])
	}
}

// callOf returns the call that started a subagent. It returns "" if no result of a call names the subagent.
func (t *Turn) callOf(s *Subagent) string {
	for _, it := range t.Items {
		if it.Call == nil {
			continue
		}
		if tool := strings.ToLower(it.Call.Tool); tool != "task" && tool != "agent" && tool != "spawn_agent" {
			continue
		}
		if strings.Contains(it.Call.Result, s.ID) {
			return it.Call.ID
		}
	}
	return ""
}
