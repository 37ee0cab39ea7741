package hook

import (
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// backgroundTasks returns the background tasks that the turn started and that still run when it
// stops. The agent lists the tasks of the whole session. If it no longer lists a task of an earlier
// turn, that task has ended, and backgroundTasks records its end.
func (h *handler) backgroundTasks(ctx context.Context, key segno.TurnKey, turns []timeline.OpenTurn) (tasks []timeline.Task, err error) {
	others := map[string]bool{}
	for _, t := range turns {
		if t.Key == key || t.Source.Session != h.Session {
			continue
		}
		for _, task := range t.Tasks {
			others[task.ID] = true
			if h.agent.Hooks.HasSubagentPrompts || h.Tasks == nil && task.Kind != timeline.TaskShell || h.lists(task.ID) {
				continue // an agent that lists no tasks reports the stop of a subagent, and its session shows the end of a command
			}
			if err := h.notes.RecordTaskEnd(ctx, h.Payload, t.Key, task.ID, "task "+task.ID+" ended"); err != nil {
				return nil, err
			}
		}
	}
	if h.agent.Hooks.HasSubagentPrompts {
		entries, _, err := h.spool.Entries(ctx, key)
		return timeline.UnfinishedTasks(entries), err
	}
	for _, task := range h.Tasks {
		if !others[task.ID] && task.ID != "" && h.lists(task.ID) {
			tasks = append(tasks, timeline.Task{ID: task.ID, Kind: task.Type, What: task.Description})
		}
	}
	return tasks, nil
}

// lists reports whether the event lists a task as unfinished.
func (h *handler) lists(id string) bool {
	for _, task := range h.Tasks {
		if task.ID == id {
			return slices.Contains([]string{"", "running", "pending", "in_progress", "backgrounded"}, task.Status)
		}
	}
	return false
}

// subagentEvent handles an event of an agent whose subagents send the same events as a session of a
// user. Such an event begins and ends no turn.
func (h *handler) subagentEvent(ctx context.Context) error {
	switch h.Payload.Event {
	case "UserPromptSubmit":
		return h.notes.RecordSubagentStart(ctx, h.Payload)
	case "Stop", "SubagentStop":
		return h.subagentStop(ctx)
	}
	return nil
}

// subagentStop records the end of a subagent in the turn that started it.
func (h *handler) subagentStop(ctx context.Context) error {
	text := "subagent " + h.AgentID + " (" + cmp.Or(h.AgentType, "default") + ") stopped"
	key, err := h.notes.TurnOfTask(ctx, h.Session, h.AgentID)
	if err != nil {
		return err
	}
	if key == "" { // the turn that started the task may not have ended yet
		p := h.Payload
		p.PromptID = ""
		if key, err = h.notes.TurnOf(ctx, p); key == "" || err != nil {
			return err
		}
	}
	return h.notes.RecordTaskEnd(ctx, h.Payload, key, h.AgentID, text)
}
