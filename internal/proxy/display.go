package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// display records what the client shows of the conversation.
type display struct {
	openCalls  openCalls
	leftOpen   []string      // the newest calls that the proxy showed as failed because their turn ended
	collecting *replayReader // collects the replay under way, nil if there is none
	deferring  bool          // reports wait until the client has received the conversation
	reports    []string
}

// openCalls are the tool calls that a client was shown without a final status, by the
// agent's ids, oldest first.
type openCalls []string

// observe adds or removes a call according to an update.
func (o *openCalls) observe(kind, id, status string) {
	switch {
	case id == "":
	case status == "completed" || status == "failed":
		*o = slices.DeleteFunc(*o, func(open string) bool { return open == id })
	case (kind == "tool_call" || status != "") && !slices.Contains(*o, id):
		*o = append(*o, id)
	}
}

// failOpenCalls shows the open calls as failed: the agent that made them has stopped. Their
// results are unknown.
func (s *session) failOpenCalls() {
	const most = 256
	s.leftOpen = append(s.leftOpen, s.openCalls...)
	s.leftOpen = s.leftOpen[max(0, len(s.leftOpen)-most):]
	s.endCalls(map[string]any{"_meta": map[string]any{"segno": map[string]any{"outcome": "unknown"}}})
}

// endReplayedCalls ends the calls of a replayed turn for which no result is recorded.
func (s *session) endReplayedCalls() {
	s.endCalls(map[string]any{"content": toolText("The turn ended before this call did. Its result is not recorded.")})
}

// endCalls shows the open calls as failed.
func (s *session) endCalls(fields map[string]any) {
	for _, id := range s.openCalls {
		s.notify(callUpdate("tool_call_update", id, "failed", fields))
	}
	s.openCalls = nil
}

// notify sends the client an update of the proxy.
func (s *session) notify(update map[string]any) {
	s.proxy.toClient(acp.Notification("session/update", acp.Encode(map[string]any{"sessionId": s.id, "update": update})))
}

// say shows the client a text as a message of the agent. The message has an id, because a client
// appends a message without an id to the agent's previous message.
func (s *session) say(text string) {
	update := textUpdate("agent_message_chunk", text)
	update["messageId"] = "segno-" + segno.NewID()
	s.notify(update)
}

// report shows the user one line.
func (s *session) report(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if s.deferring {
		s.reports = append(s.reports, line)
		return
	}
	s.logf("%s", line)
	if s.proxy.notices.Load() {
		s.notify(map[string]any{"sessionUpdate": "notice", "severity": "warning", "title": "segno: " + line})
		return
	}
	s.say("segno: " + line + "\n\n")
}

// deferReports delays reports until show is called. The reports refer to a conversation, which the
// client must receive first.
func (s *session) deferReports() (show func()) {
	s.deferring = true
	return func() {
		reports := s.reports
		s.deferring, s.reports = false, nil
		for _, line := range reports {
			s.report("%s", line)
		}
	}
}

// replay sends the client the thread's line from the store, oldest first, as an agent that
// loads a session does. It skips the turns whose prompt is in replayed, the agent's own replay,
// which may be nil.
func (s *session) replay(ctx context.Context, replayed *replayReader) error {
	head, err := s.proxy.store.Head(ctx, s.record.Thread)
	if err != nil {
		return err
	}
	line, err := s.proxy.store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	ofTurn := s.openCalls // of the turn under way
	s.openCalls = nil
	defer func() { s.openCalls = ofTurn }()
	later := lastResults(line.Commits)
	for i, n := range line.Commits {
		c := n.Checkpoint
		if c == nil || c.Kind != segno.CheckpointTurn || replayed != nil && replayed.hasPrompt(c.Prompt) {
			continue
		}
		if len(n.Entries) == 0 { // a turn from before segno
			s.notify(textUpdate("user_message_chunk", c.Prompt))
		}
		full := shownInFull(n.Entries)
		for at, e := range n.Entries {
			s.show(n.ID, at, e, full)
		}
		running := slices.DeleteFunc(slices.Clone(s.openCalls), func(id string) bool { return later[id] <= i })
		s.openCalls = slices.DeleteFunc(s.openCalls, func(id string) bool { return slices.Contains(running, id) })
		s.endReplayedCalls()
		s.openCalls = running
	}
	return nil
}

// lastResults returns the index of the last commit with a result of each call: a call in the background may
// end in a later turn.
func lastResults(commits []segno.Node) map[string]int {
	last := map[string]int{}
	for i, n := range commits {
		for _, e := range n.Entries {
			if e.Kind == segno.EntryResult {
				last[e.ID] = i
			}
		}
	}
	return last
}

// replayMissing shows the client the part of an interrupted turn that segno recorded and the agent
// did not replay. An agent that is killed loses the output that it had not written.
func (s *session) replayMissing(ctx context.Context, turn *segno.Checkpoint, replayed *replayReader) error {
	commits, err := s.entriesOf(ctx, turn)
	if err != nil {
		return err
	}
	last := replayed.turnOf(turn.Prompt)
	for _, n := range commits {
		full := shownInFull(n.Entries)
		for i, e := range n.Entries {
			if last.has(e) {
				continue
			}
			if e.Kind == segno.EntryMessage && e.Name == "agent" {
				text := missingText(cmp.Or(full[shownKey(e.Kind, e.ID)], entryText(e.Body)), last.texts)
				if text == "" {
					continue
				}
				e.Body = acp.Encode(text)
				delete(full, shownKey(e.Kind, e.ID))
			}
			s.show(n.ID, i, e, full)
		}
	}
	s.endReplayedCalls()
	return nil
}

// replayedTurn is the part of a turn that the agent replayed.
type replayedTurn struct {
	found bool
	texts []string        // the agent's messages
	calls map[string]bool // by id
}

// has reports whether the agent replayed an entry. It is false for messages of the agent, which may be replayed in part.
func (t replayedTurn) has(e segno.Entry) bool {
	switch e.Kind {
	case segno.EntryMessage:
		return t.found && e.Name == "user"
	case segno.EntryNote:
		return t.found && isOutputNote(e) // a killed agent loses its last output, which is text
	case segno.EntryIntent, segno.EntryResult:
		return t.calls[e.ID]
	}
	return false
}

// turnOf returns the newest replayed turn with a prompt, and what follows it.
func (r *replayReader) turnOf(prompt string) (found replayedTurn) {
	for _, t := range r.turns {
		if isPrompt(t.Prompt, prompt) && t.Prompt != "" {
			found = replayedTurn{found: true, calls: map[string]bool{}}
		}
		for _, e := range t.Entries {
			switch {
			case !found.found:
			case e.Kind == segno.EntryMessage && e.Name == "agent":
				found.texts = append(found.texts, entryText(e.Body))
			case e.Kind == segno.EntryIntent:
				found.calls[e.ID] = true
			}
		}
	}
	return found
}

// missingText is the part of a recorded message that the agent did not replay. If the agent was
// killed while it wrote the message, its replay ends with the beginning of that message.
func missingText(text string, replayed []string) string {
	if slices.ContainsFunc(replayed, func(s string) bool { return strings.Contains(normalSpace(s), normalSpace(text)) }) {
		return ""
	}
	if n := len(replayed); n > 0 {
		return strings.TrimPrefix(text, replayed[n-1])
	}
	return text
}

// show sends the client the updates that show an entry. Messages get an id, because a client joins
// messages without one. full has the complete texts of shortened entries.
func (s *session) show(commit segno.CommitID, i int, e segno.Entry, full map[string]string) {
	for _, update := range entryUpdates(e, full) {
		if e.Kind == segno.EntryMessage || e.Name == noteContent {
			update["messageId"] = "segno-" + segno.DerivedID("message", string(commit), strconv.Itoa(i))
		}
		if status, ok := update["status"].(string); ok {
			s.openCalls.observe("", e.ID, status)
		}
		s.notify(update)
	}
}

// toolText wraps a text as the content of a tool call.
func toolText(text string) []any {
	return []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": text}}}
}

func textUpdate(kind, text string) map[string]any {
	return map[string]any{"sessionUpdate": kind, "content": map[string]any{"type": "text", "text": text}}
}

// entryUpdate is the update that shows an entry, nil for an entry that clients do not show.
func entryUpdate(e segno.Entry) map[string]any {
	switch {
	case e.Kind == segno.EntryMessage && e.Name == "user":
		return textUpdate("user_message_chunk", entryText(e.Body))
	case e.Kind == segno.EntryMessage:
		return textUpdate("agent_message_chunk", entryText(e.Body))
	case e.Kind == segno.EntryIntent:
		return intentUpdate(e)
	case e.Kind == segno.EntryResult:
		return resultUpdate(e)
	case e.Kind == segno.EntryNote && e.Name == "plan" && json.Valid(e.Body) && e.Body[0] == '[':
		return map[string]any{"sessionUpdate": "plan", "entries": e.Body}
	}
	return nil
}

// entryText is the text of an entry's body. In a long text, "…" replaces the middle, which was not
// recorded.
func entryText(body json.RawMessage) string {
	var text string
	if json.Unmarshal(body, &text) == nil {
		return text
	}
	var long struct {
		Clipped segno.Clipped `json:"clipped"`
	}
	if json.Unmarshal(body, &long) == nil && long.Clipped.Bytes > 0 {
		return long.Clipped.Head + "\n…\n" + long.Clipped.Tail
	}
	return string(body)
}

// intentUpdate announces a recorded call. The body of an entry from the proxy is a callIntent;
// from a hook, it is the input of the tool.
func intentUpdate(e segno.Entry) map[string]any {
	var intent callIntent
	_ = json.Unmarshal(e.Body, &intent) // the body of a hook's entry is the input
	if intent.Title == "" && intent.Input == nil && json.Valid(e.Body) {
		intent.Input = e.Body
	}
	update := callUpdate("tool_call", e.ID, "pending",
		map[string]any{"kind": intent.Kind, "rawInput": intent.Input, "locations": intent.Locations})
	update["title"] = cmp.Or(intent.Title, e.Name) // the protocol requires a title, even an empty one
	return update
}

// resultUpdate shows the result of a recorded call. The result of a hook's entry has no status.
func resultUpdate(e segno.Entry) map[string]any {
	var result callResult
	_ = json.Unmarshal(e.Body, &result)
	status := "completed"
	if result.Status == "failed" || result.Error != nil {
		status = "failed"
	}
	var content any = result.Content
	if result.Content == nil && result.Status == "" {
		content = nil
		if text := turns.ReadResult(e.Body).Text; text != "" {
			content = toolText(text)
		}
	}
	return callUpdate("tool_call_update", e.ID, status, map[string]any{"content": content, "rawOutput": result.Output})
}

// callUpdate returns an update of a tool call. It omits fields without a value.
func callUpdate(kind, id, status string, fields map[string]any) map[string]any {
	update := map[string]any{"sessionUpdate": kind, "toolCallId": id, "status": status}
	for name, value := range fields {
		if raw, isRaw := value.(json.RawMessage); value != nil && value != "" && (!isRaw || raw != nil) {
			update[name] = value
		}
	}
	return update
}
