package event

import "strings"

// TaskReport is what a prompt reports that the agent wrote itself, because a task in
// the background stopped.
type TaskReport struct {
	ID      string // of the task; a subagent's is its agent id
	Summary string
}

// TaskReport returns the report that a prompt consists of. ok is false for a prompt
// that a user wrote.
func (p Payload) TaskReport() (report TaskReport, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(p.Prompt), "<task-notification>")
	if !ok {
		return TaskReport{}, false
	}
	report = TaskReport{ID: element(rest, "task-id"), Summary: element(rest, "summary")}
	if report.Summary == "" {
		report.Summary = "task " + report.ID + " reported"
	}
	return report, report.ID != ""
}

// element returns the text of the first element with a name.
func element(text, name string) string {
	_, after, _ := strings.Cut(text, "<"+name+">")
	inside, _, found := strings.Cut(after, "</"+name+">")
	if !found {
		return ""
	}
	return strings.TrimSpace(inside)
}
