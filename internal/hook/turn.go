package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/claude"
	"github.com/dalsegno/segno/agents/codex"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// promptSubmit opens a turn.
func (h *handler) promptSubmit(ctx context.Context) error {
	if h.Session == "" {
		return segno.NewError(segno.KindInvalid, "begin turn", "", errNoSession)
	}
	return h.withStore(ctx, h.beginTurn)
}

// beginTurn opens the turn of the event's prompt, unless another process records the session. The
// user receives a warning about other turns. The model receives the text about a move.
func (h *handler) beginTurn(ctx context.Context, store *local.Store) error {
	if held, err := store.Leased(ctx, h.Session); err != nil || held {
		return err
	}
	if err := h.findSessionDir(ctx, store); err != nil {
		return err
	}
	rec, tl, err := h.timeline(ctx, store, "")
	if err != nil {
		return err
	}
	pid := h.agentPID(ctx)
	prompt := timeline.Prompt{Key: segno.TurnKey(h.PromptID), Agent: h.agent.Name, Source: h.source(),
		Text: h.Prompt, Process: spool.TurnProcess(pid)}
	if task, summary := h.TaskReport(); task != "" {
		prompt.Task, prompt.Text = task, summary
	}
	begun, err := tl.BeginTurn(ctx, prompt)
	if begun.Key == "" {
		return h.beginLate(ctx, rec, prompt, err)
	}
	h.markRecorded(ctx)
	h.answer.showLine(begun.Warn)
	h.answer.addContext(h.Payload.Event, begun.Tell)
	h.showWriters(ctx)
	return err
}

// beginLate opens a turn whose snapshot could not be made in time. Its end is then recorded against
// the last known snapshot of the workspace.
func (h *handler) beginLate(ctx context.Context, rec segno.WorkspaceRecord, p timeline.Prompt, why error) error {
	h.log.Append("no snapshot before this turn", h.Session, why)
	turns, err := h.spool.Turns(context.WithoutCancel(ctx))
	isThis := func(t timeline.OpenTurn) bool { return t.Key == p.Key && t.Source.Session == p.Source.Session }
	if err == nil && slices.ContainsFunc(turns, isThis) {
		return nil // the turn is open and has its snapshot: this is a further prompt of it
	}
	if p.Key == "" {
		p.Key = segno.TurnKey(segno.NewID())
	}
	return h.spool.SaveTurn(context.WithoutCancel(ctx), timeline.OpenTurn{Key: p.Key, Agent: p.Agent, Source: p.Source, Workspace: rec.ID,
		Prompt: p.Text, Before: rec.State.Snapshot, BeforeTime: rec.State.Time, Start: h.Place.Now(), Process: p.Process})
}

// end ends the event's turn. If the user queued messages during the turn, end also begins the turn
// of those messages.
func (h *handler) end(ctx context.Context, interrupted bool) error {
	if h.Session == "" {
		return segno.NewError(segno.KindInvalid, "end turn", "", errNoSession)
	}
	key, err := h.notes.TurnOf(ctx, h.Payload)
	if err != nil {
		return err
	}
	turns, err := h.spool.Turns(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(turns, func(t timeline.OpenTurn) bool { return t.Key == key }) {
		began, err := h.beginUnreported(ctx, true)
		if err != nil {
			return err
		}
		key = cmp.Or(began, key) // the turn made no call
	}
	if key == "" {
		return segno.Errorf(segno.KindNotFound, "end turn", string(h.Session), "no turn of this session is open")
	}
	ending := timeline.TurnEnd{Key: key, Agent: h.agent.Name, Source: h.source(), Interrupted: interrupted, Message: h.LastMessage,
		Process: spool.TurnProcess(h.agentPID(ctx)), AwaitTranscript: h.awaitTranscript}
	if ending.Tasks, err = h.backgroundTasks(ctx, key, turns); err != nil {
		return err
	}
	if h.agent.Name == codex.Name && h.LastMessage == "" && !interrupted {
		// Codex reports no message if the last one is a plan. Without a readable session, there is none.
		if plan, err := h.Place.CodexTranscripts().LastMessage(ctx, ending.Source, segno.TurnKey(h.PromptID), ""); err == nil {
			ending.Message = plan
		}
	}
	for _, t := range turns {
		if t.Key != key {
			continue
		}
		h.showOutside(ctx, t)
		h.noteLeft(ctx, t)
		queued, err := h.queued(ctx, t)
		if err != nil {
			h.log.Append("the agent's queue cannot be read", h.Session, err)
		}
		ending.Queued = len(queued)
		if err := h.endTurn(ctx, ending, t.Workspace); err != nil || len(queued) == 0 {
			return err
		}
		return h.beginQueued(ctx, t, strings.Join(queued, "\n"))
	}
	return h.endTurn(ctx, ending, "")
}

// queued returns the messages that the user typed during a turn and that the agent has not
// processed yet, oldest first. Claude Code 2.1.330 reports a message when it is typed, and does not
// report the turn that begins with it.
func (h *handler) queued(ctx context.Context, t timeline.OpenTurn) ([]string, error) {
	if h.agent.Name != claude.Name {
		return nil, nil
	}
	noted, _, err := h.spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	var added []string
	for _, e := range noted {
		if text := ""; e.Kind == segno.EntryMessage && e.Name == "user" && json.Unmarshal(e.Body, &text) == nil {
			added = append(added, text)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	n, err := h.Place.ClaudeTranscripts().Queued(ctx, h.source())
	if err != nil {
		return nil, err
	}
	return added[len(added)-min(n, len(added)):], nil
}

// beginQueued opens the turn that the agent begins with a queued message right after this event.
func (h *handler) beginQueued(ctx context.Context, before timeline.OpenTurn, text string) error {
	return h.withStore(ctx, func(ctx context.Context, store *local.Store) error {
		_, tl, err := h.timeline(ctx, store, before.Workspace)
		if err != nil {
			return err
		}
		_, err = tl.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(segno.NewID()), Agent: h.agent.Name, Source: before.Source, Text: text,
			Process: before.Process, Queued: true})
		return err
	})
}

// endTurn ends a turn in its workspace. If the turn is not open, it uses the workspace around the
// event's directory.
func (h *handler) endTurn(ctx context.Context, e timeline.TurnEnd, ws segno.WorkspaceID) error {
	return h.withTimeline(ctx, ws, func(ctx context.Context, store *local.Store, tl *timeline.Timeline) error {
		e.Source.Dir = cmp.Or(h.sessionDir, e.Source.Dir)
		e.Warn = h.answer.showLine
		made, err := tl.EndTurn(ctx, e)
		h.isRecorded = made != nil // an error may be about another turn, which was set aside
		if failed := store.CompressSome(ctx); failed != nil {
			h.log.Append("compress the store", h.Session, failed)
		}
		return err
	})
}

// openUnreported opens the turn of a call for whose prompt the agent called no hook.
func (h *handler) openUnreported(ctx context.Context) error {
	began, err := h.beginUnreported(ctx, false)
	if began != "" || err != nil || h.PromptID == "" {
		return err
	}
	return h.reopenTurn(ctx)
}

// beginUnreported opens a turn if Claude Code called no hook for the session's newest prompt, and returns the key of the turn, else "". The
// events of such a turn have no key, or another one. If isFirst is set, it opens only the first turn of a session, whose prompt the agent
// wrote itself.
func (h *handler) beginUnreported(ctx context.Context, isFirst bool) (key segno.TurnKey, err error) {
	if h.agent.Name != claude.Name || !h.Place.Exists() {
		return "", nil
	}
	text, isOwn, err := h.Place.ClaudeTranscripts().UnreportedPrompt(ctx, h.source(), segno.TurnKey(h.PromptID))
	if err != nil || text == "" || isFirst && !isOwn {
		return "", err
	}
	err = h.withTimeline(ctx, "", func(ctx context.Context, store *local.Store, tl *timeline.Timeline) error {
		if dir, err := store.SessionDir(ctx, h.Session); isFirst && dir != "" || err != nil {
			return err
		}
		begun, err := tl.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(segno.NewID()), Agent: h.agent.Name, Source: h.source(), Text: text,
			Process: spool.TurnProcess(h.agentPID(ctx)), Queued: true})
		key = begun.Key
		h.answer.addContext(h.Payload.Event, begun.Tell)
		return err
	})
	return key, err
}

// reopenTurn opens the turn of the event's prompt again, because the agent continues it after its end.
func (h *handler) reopenTurn(ctx context.Context) error {
	return h.withTimeline(ctx, "", func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		begun, err := tl.ReopenTurn(ctx, timeline.Prompt{Key: segno.TurnKey(h.PromptID), Agent: h.agent.Name, Source: h.source(),
			Process: spool.TurnProcess(h.agentPID(ctx))})
		if h.agent.Name == claude.Name { // the others take no text for the model at a call
			h.answer.addContext(h.Payload.Event, begun.Tell)
		}
		return err
	})
}

// withTimeline calls do with the timeline of a workspace, unless another process records the session. An empty id means the workspace
// around the event's directory.
func (h *handler) withTimeline(ctx context.Context, id segno.WorkspaceID, do func(context.Context, *local.Store, *timeline.Timeline) error) error {
	return h.withStore(ctx, func(ctx context.Context, store *local.Store) error {
		if held, err := store.Leased(ctx, h.Session); err != nil || held {
			return err
		}
		if err := h.findSessionDir(ctx, store); err != nil {
			return err
		}
		_, tl, err := h.timeline(ctx, store, id)
		if err != nil {
			return err
		}
		return do(ctx, store, tl)
	})
}

// withStore opens the store, calls do with it and closes it.
func (h *handler) withStore(ctx context.Context, do func(context.Context, *local.Store) error) error {
	store, err := h.Place.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // do has ended all its work
	return do(ctx, store)
}

// timeline returns a workspace and its timeline. An empty id means the workspace around the event's
// directory.
func (h *handler) timeline(ctx context.Context, store *local.Store, id segno.WorkspaceID) (
	rec segno.WorkspaceRecord, tl *timeline.Timeline, err error) {
	if rec, err = h.workspace(ctx, store, id); err == nil {
		tl, err = store.Timeline(rec, nil)
	}
	return rec, tl, err
}

// workspace returns the workspace with an id. An empty id means the workspace around the event's directory, which it
// registers if it is new.
func (h *handler) workspace(ctx context.Context, store *local.Store, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	if id == "" {
		return store.RegisterRoot(ctx, h.dir())
	}
	rec, err := store.Workspace(ctx, id)
	if err != nil {
		return rec, err
	}
	if _, err := os.Lstat(rec.Path); err == nil {
		return rec, nil
	}
	return store.Find(ctx, h.dir()) // the directory was moved while the turn ran
}

// awaitTranscript waits until the agent's last message is in its transcript.
func (h *handler) awaitTranscript(ctx context.Context, src segno.Source, since int64) {
	if h.LastMessage == "" || !h.agent.Hooks.WritesAfterStop {
		return
	}
	if err := h.Place.ClaudeTranscripts().AwaitMessage(ctx, src, h.LastMessage, since); err != nil {
		h.log.Append("the last message is not in the transcript yet", h.Session, err)
	}
}

// source returns where the session is kept. The transcript path is untrusted input: source uses it
// only if it is a .jsonl file below the agent's own directory and no symlink leads out of that
// directory.
func (h *handler) source() segno.Source {
	src := segno.Source{Session: h.Session, Dir: h.dir()}
	if h.Transcript == "" || h.agent.Hooks.Sessions == "" {
		return src
	}
	path, sessions := filepath.Clean(h.Transcript), filepath.Join(h.Place.Homes[h.agent.Name], h.agent.Hooks.Sessions)
	isBelow := func(dir, path string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }
	why := ""
	if !isBelow(sessions, path) || filepath.Ext(path) != ".jsonl" {
		why = "it is outside"
	} else if real, err := filepath.EvalSymlinks(path); err == nil {
		if root, err := filepath.EvalSymlinks(sessions); err != nil || !isBelow(root, real) {
			why = "a symlink leads out of"
		}
	}
	if why == "" {
		src.Path = path
		return src
	}
	h.log.Append("transcript ignored", h.Session, segno.Errorf(segno.KindRefused, "read transcript", h.Transcript, "%s %s", why, sessions))
	return src
}

// agentPID returns the process id of the agent. It uses Claude Code's registry, or else the nearest
// ancestor of the hook that is neither a shell nor the command that forwards events.
func (h *handler) agentPID(ctx context.Context) int {
	if h.agent.Name == claude.Name {
		if own, _ := h.writers(ctx); own > 0 {
			return own
		}
	}
	for pid, depth := proc.Parent(h.PID), 0; pid > 1 && depth < 4; pid, depth = proc.Parent(pid), depth+1 {
		switch proc.Command(pid) {
		case "sh", "bash", "dash", "zsh", "segno-hook":
		default:
			return pid
		}
	}
	return 0
}
