package acpagent

import (
	"context"
	"encoding/base64"
	"sync"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// updater converts the events of a run into updates for the client. It serves one request.
type updater struct {
	server    *server
	session   acp.SessionId
	chat      *chat.Chat
	stop      func()                  // cancels the turn like a cancel from the client
	announced map[acp.ToolCallId]bool // calls that were announced
	streamed  bool                    // the text was sent as it arrived
	since     int64                   // number of the newest event before the run
	sent      map[int64]bool          // numbers of durable events that were sent
	usage     agent.Usage
	truncated bool  // the answer reached a limit
	err       error // of the connection

	namesMu sync.Mutex
	names   map[call]acp.ToolCallId
}

func (s *server) newUpdater(id acp.SessionId, c *chat.Chat) *updater {
	return &updater{server: s, session: id, chat: c,
		announced: map[acp.ToolCallId]bool{}, sent: map[int64]bool{}, names: map[call]acp.ToolCallId{}}
}

// send sends an update, also during cancellation.
func (t *updater) send(u acp.SessionUpdate) {
	if t.err == nil {
		t.err = t.server.conn.notify(acp.ClientMethodSessionUpdate, acp.SessionNotification{SessionId: t.session, Update: u})
	}
}

// sendText sends a text that is not part of a message of the model, such as a command's reply.
func (t *updater) sendText(text string) {
	if text != "" {
		t.send(acp.UpdateAgentMessageText(text))
	}
}

// sendMessageText sends a piece of a message of the agent.
func (t *updater) sendMessageText(at messagePlace, text string) {
	if text != "" {
		u := acp.UpdateAgentMessageText(text)
		u.AgentMessageChunk.MessageId = acp.Ptr(at.message())
		t.send(u)
	}
}

// sendEvent sends an event of a run.
func (t *updater) sendEvent(e agent.Event) {
	if e.Agent == "" {
		t.sent[e.Seq] = true
		t.sendOwnEvent(e)
	}
	switch e.Kind {
	case agent.EventRetry:
		t.streamed = false
		t.sendText("\n\n(" + chat.Line(e) + ")\n\n")
	case agent.EventToolStart:
		t.call(e, acp.ToolCallStatusInProgress)
	case agent.EventToolCall:
		t.call(e, acp.ToolCallStatusPending)
	case agent.EventToolResult:
		t.result(t.callOf(messagePlace{thread: e.Thread, turn: e.Turn}, e.Result.Call), e.Result)
	case agent.EventStepFinish:
		t.usage.Input += e.Usage.Input
		t.usage.Output += e.Usage.Output
		t.usage.CacheRead += e.Usage.CacheRead
		t.usage.CacheWrite += e.Usage.CacheWrite
	}
}

// sendOwnEvent sends an event of the agent itself. The client does not show these events
// for subagents.
func (t *updater) sendOwnEvent(e agent.Event) {
	switch e.Kind {
	case agent.EventText:
		t.streamed = true
		t.sendMessageText(messagePlace{e.Thread, e.Turn, e.Step}, e.Text)
	case agent.EventThinking:
		if e.Text != "" {
			t.send(acp.UpdateAgentThoughtText(e.Text))
		}
	case agent.EventSegment:
		if !t.streamed {
			t.sendMessageText(messagePlace{e.Thread, e.Turn, e.Step - 1}, e.Text)
		}
		t.streamed = false
	case agent.EventTodos:
		t.send(planUpdate(e.Todos))
	case agent.EventDone:
		t.truncated = e.Stop == agent.StopLength
		if e.Stop == agent.StopRefusal { // the protocol's refusal would remove the prompt
			t.sendText("\n\n(" + chat.Line(e) + ")")
		}
	}
}

// call announces a call, or reports that it is running.
func (t *updater) call(e agent.Event, status acp.ToolCallStatus) {
	id := t.callOf(messagePlace{thread: e.Thread, turn: e.Turn}, e.Call.ID)
	if t.announced[id] {
		if status == acp.ToolCallStatusInProgress {
			t.send(acp.UpdateToolCall(id, acp.WithUpdateStatus(status)))
		}
		return
	}
	t.announced[id] = true
	a := t.describeCall(e.Call.Name, e.Call.Args)
	if e.Agent != "" {
		a.title = e.Agent + ": " + a.title
	}
	t.send(acp.StartToolCall(id, a.title, acp.WithStartKind(a.kind), acp.WithStartStatus(status), acp.WithStartRawInput(a.input),
		acp.WithStartContent(a.content), acp.WithStartLocations(a.locations)))
}

// result sends the result of a call.
func (t *updater) result(id acp.ToolCallId, r *agent.Result) {
	status := acp.ToolCallStatusCompleted
	if r.Error {
		status = acp.ToolCallStatusFailed
	}
	options := []acp.ToolCallUpdateOpt{acp.WithUpdateStatus(status), acp.WithUpdateRawOutput(map[string]any{"text": r.Text})}
	if kindOf(r.Name) != acp.ToolKindEdit || r.Error {
		// The client already received the diff of an edit with the call.
		options = append(options, acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(r.Text))}))
	}
	t.send(acp.UpdateToolCall(id, options...))
}

// sendMissed sends the events that a cancelled run recorded after its sequence ended.
func (t *updater) sendMissed(ctx context.Context) {
	for e, err := range t.chat.Events(context.WithoutCancel(ctx), t.since) {
		if err != nil {
			return // loading the session reports the error
		}
		if !t.sent[e.Seq] {
			t.sendEvent(e)
		}
	}
}

// replay sends a message of the log.
func (t *updater) replay(m *agent.Message, at messagePlace) {
	for _, p := range m.Parts {
		switch {
		case p.Text != "" && m.Role == agent.User:
			t.send(acp.UpdateUserMessageText(p.Text))
		case p.Image != nil && m.Role == agent.User && len(p.Image.Data) > 0:
			t.send(acp.UpdateUserMessage(acp.ImageBlock(base64.StdEncoding.EncodeToString(p.Image.Data), p.Image.Type)))
		case p.File != nil && m.Role == agent.User:
			t.send(acp.UpdateUserMessage(acp.ResourceLinkBlock(p.File.Name, "file:///"+p.File.Name)))
		case p.Text != "":
			t.sendMessageText(at, p.Text)
		case p.Thinking != nil && p.Thinking.Text != "":
			t.send(acp.UpdateAgentThoughtText(p.Thinking.Text))
		case p.Call != nil:
			t.call(agent.Event{Thread: segno.ThreadID(t.session), Turn: at.turn, Call: p.Call}, acp.ToolCallStatusPending)
		case p.Result != nil:
			t.result(t.callOf(messagePlace{thread: segno.ThreadID(t.session), turn: at.turn}, p.Result.Call), p.Result)
		}
	}
}

// planUpdate converts the todo list to a plan. A plan has no cancelled entries, and
// requires priorities, which the list lacks.
func planUpdate(todos []agent.Todo) acp.SessionUpdate {
	entries := []acp.PlanEntry{}
	for _, t := range todos {
		status := acp.PlanEntryStatusPending
		switch t.Status {
		case "in_progress":
			status = acp.PlanEntryStatusInProgress
		case "completed", "cancelled":
			status = acp.PlanEntryStatusCompleted
		}
		entries = append(entries, acp.PlanEntry{Content: t.Text, Priority: acp.PlanEntryPriorityMedium, Status: status})
	}
	return acp.UpdatePlan(entries...)
}
