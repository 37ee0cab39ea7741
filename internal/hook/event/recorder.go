package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// Recorder adds entries to open turns in the spool.
type Recorder struct {
	Spool timeline.Spool
	Now   func() time.Time
	// Store is the directory of the store, whose files are never saved.
	Store string
	// NoSteps is set if the user does not want points inside turns.
	NoSteps bool
}

// eventReceiver is implemented by a spool that needs no list of turns to find out whether a turn has a file, and whether the events
// under the key of a turn belong to it.
type eventReceiver interface {
	Has(key segno.TurnKey) bool
	ReceivesEvents(key segno.TurnKey) bool
}

// TurnOf returns the turn of an event: the turn of its prompt, else the open turn of its session.
// If another process records the turn, its key differs from the prompt's. An event of a subagent
// belongs to the turn that started the subagent. The key is "" if there is no such turn.
func (r Recorder) TurnOf(ctx context.Context, p Payload) (segno.TurnKey, error) {
	own := segno.TurnKey(p.PromptID)
	if p.AgentID != "" {
		if key, err := r.TurnOfTask(ctx, p.Session, p.AgentID); key != "" || err != nil {
			return key, err
		}
	}
	if s, ok := r.Spool.(eventReceiver); own != "" && ok && s.ReceivesEvents(own) {
		return own, nil
	}
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	if found := openTurn(turns, p.Session, own); found != "" || own == "" {
		return found, nil
	}
	if parent := p.OfParent(); parent.PromptID == "" {
		return r.TurnOf(ctx, parent)
	}
	return own, nil
}

// openTurn returns the key of a session's open turn that matches a prompt id, or "". An event without a prompt id
// matches any turn.
func openTurn(turns []timeline.OpenTurn, session segno.SessionID, own segno.TurnKey) (found segno.TurnKey) {
	for _, t := range turns {
		if t.Source.Session != session || own != "" && t.Owner == "" && !t.HasKey(own) && !t.RunsQueued() {
			continue
		}
		if found = t.Key; !t.InBackground() {
			break // a running turn takes precedence over one with background tasks only
		}
	}
	return found
}

// TurnOfTask returns the turn of a session that started a background task, or "". The events of a
// task name another prompt: the one that the agent answers at that time.
func (r Recorder) TurnOfTask(ctx context.Context, session segno.SessionID, task string) (segno.TurnKey, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range turns {
		if t.Source.Session == session && slices.ContainsFunc(t.Tasks, func(x timeline.Task) bool { return x.ID == task }) {
			return t.Key, nil
		}
	}
	return "", nil
}

// RecordSubagentStart records the start of a subagent in the turn that starts it. It records
// nothing if no turn of the session is open.
func (r Recorder) RecordSubagentStart(ctx context.Context, p Payload) error {
	p.PromptID = "" // only an open turn counts
	key, err := r.TurnOf(ctx, p)
	if key == "" || err != nil {
		return err
	}
	e, err := r.entry(p, segno.EntryNote, "subagent "+p.AgentID+" began")
	if err != nil {
		return err
	}
	e.ID, e.Name = p.AgentID, timeline.NoteTaskBegin
	return r.Spool.AppendEntry(ctx, key, e)
}

// RecordTaskEnd records the end of a background task in the turn that started it.
func (r Recorder) RecordTaskEnd(ctx context.Context, p Payload, key segno.TurnKey, task, text string) error {
	e, err := r.entry(p, segno.EntryNote, text)
	if err != nil {
		return err
	}
	e.ID, e.Name = task, timeline.NoteTask
	return r.Spool.AppendEntry(ctx, key, e)
}

// hasIntents is implemented by a spool that can return the beginning of a call quickly.
type hasIntents interface {
	Intent(key segno.TurnKey, call string) (*segno.Entry, error)
}

// RecordTool records an event of a tool call: the tool's input before the call, or its
// result after it, and then the files that the tool wrote.
func (r Recorder) RecordTool(ctx context.Context, p Payload) error {
	if p.Event == "PreToolUse" {
		_, _, err := r.record(ctx, p, segno.EntryIntent, p.intent())
		return err
	}
	if err := r.recordChangedInput(ctx, p); err != nil {
		return err
	}
	key, e, err := r.record(ctx, p, segno.EntryResult, p.result())
	if err != nil || key == "" {
		return err
	}
	return r.saveFiles(ctx, p, key, e)
}

// IsAfterEnd reports whether an event is the first call of the agent itself, not of a subagent, under a prompt without an open turn, or
// without a prompt and in a session without an open turn: the agent continues a turn that has ended, or segno did not see the beginning of
// the turn.
func (r Recorder) IsAfterEnd(ctx context.Context, p Payload) (bool, error) {
	s, ok := r.Spool.(eventReceiver)
	if !ok || p.Event != "PreToolUse" || p.AgentID != "" {
		return false, nil
	}
	key, err := r.TurnOf(ctx, p)
	return err == nil && (key == "" || !s.Has(key)), err
}

// recordChangedInput records the beginning of a call again, with the input that the tool received, if a hook of the user changed the input
// after segno's hook had recorded it. The agent shows the new input only after the call.
func (r Recorder) recordChangedInput(ctx context.Context, p Payload) error {
	s, ok := r.Spool.(hasIntents)
	if !ok || p.ToolUseID == "" || len(p.ToolInput) == 0 || !agents.Tool(p.ToolName).ChangesFiles() {
		return nil
	}
	key, err := r.TurnOf(ctx, p)
	if err != nil || key == "" {
		return err
	}
	began, err := s.Intent(key, bounded(p.ToolUseID))
	if err != nil || began == nil {
		return err
	}
	before, input := turns.ReadIntent(began.Body), clipInput(p.ToolName, p.ToolInput)
	if isSameJSON(before.Input, turns.ReadIntent(input).Input) {
		return nil
	}
	files, changed := agents.Tool(p.ToolName).Files, []*time.Time{nil} // when another file changed before the call is not known
	if before.Changed != nil && slices.Equal(files(before.Input), files(p.ToolInput)) {
		changed = before.Changed
	}
	if len(input) <= len("{}") {
		return nil
	}
	input = turns.WithChanged(input, changed)
	e, err := r.entry(p, segno.EntryIntent, input)
	if err != nil {
		return err
	}
	return r.Spool.AppendEntry(ctx, key, e)
}

// isSameJSON reports whether two inputs have the same values.
func isSameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// maxText is the length of the longest text that RecordText does not shorten.
const maxText = 8 << 10

// RecordText records a text for the user about a turn.
func (r Recorder) RecordText(ctx context.Context, p Payload, text string) error {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	_, _, err := r.record(ctx, p, segno.EntryNote, text)
	return err
}

// record adds an entry to the turn of p, and returns the key of the turn. It does nothing if there is no such turn.
func (r Recorder) record(ctx context.Context, p Payload, kind segno.EntryKind, body any) (key segno.TurnKey, e segno.Entry, err error) {
	if e, err = r.entry(p, kind, body); err != nil {
		return "", e, err
	}
	if key, err = r.TurnOf(ctx, p); err != nil || key == "" {
		return "", e, err
	}
	return key, e, r.Spool.AppendEntry(ctx, key, e)
}

func (r Recorder) entry(p Payload, kind segno.EntryKind, body any) (segno.Entry, error) {
	raw, isRaw := body.(json.RawMessage)
	if !isRaw {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return segno.Entry{}, fmt.Errorf("encode entry: %w", err)
		}
	}
	return segno.Entry{Kind: kind, Session: p.Session, Time: r.Now(), ID: bounded(p.ToolUseID), Name: bounded(p.ToolName), Body: raw}, nil
}
