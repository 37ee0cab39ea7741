// Package event is one event of an agent that runs hooks: what it says, the turn
// it belongs to, and what is noted of it at a tool boundary.
//
// An agent waits for a hook at every tool call, so all of this stands on the spool
// and the standard library alone; what needs the store is in internal/hook.
package event

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Probe is an event no agent sends.
const Probe = "SegnoProbe"

// IsToolEvent reports whether the event is one of a tool boundary: it is noted in the
// spool, and that is all.
func (p Payload) IsToolEvent() bool {
	switch p.Event {
	case "PreToolUse", "PostToolUse", "PostToolUseFailure":
		return true
	}
	return false
}

// AnswerProbe proves to whoever sent the event [Probe] that it came here.
func (p Payload) AnswerProbe(w io.Writer) error {
	if err := segno.CheckID("probe", p.Nonce); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "{\"suppressOutput\":true,\"segno\":%q}\n", segno.DerivedID("probe", p.Nonce))
	return err
}

// Recorder adds entries to open turns.
type Recorder struct {
	Spool segno.Spool
	Now   func() time.Time
}

// begun is the ability of a spool to tell whether it has anything of a turn, at
// the cost of one look.
type begun interface {
	Has(key segno.TurnKey) bool
}

// TurnOf names the turn an event belongs to: its prompt's, else the one its session
// has open. A turn that somebody else records has another key than the prompt's.
// It is "" if there is none.
func (n Recorder) TurnOf(ctx context.Context, p Payload) (segno.TurnKey, error) {
	own := segno.TurnKey(p.PromptID)
	if p.AgentID != "" {
		if key, err := n.TurnOfTask(ctx, p.Session, p.AgentID); key != "" || err != nil {
			return key, err
		}
	}
	if b, ok := n.Spool.(begun); own != "" && ok && b.Has(own) {
		return own, nil
	}
	turns, err := n.Spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	found := own
	for _, t := range turns {
		if t.Source.Session != p.Session || own != "" && t.Owner == "" && !t.Is(own) && !t.Queued {
			continue
		}
		if found = t.Key; !t.Background() {
			break // the turn that runs, rather than one whose tasks go on
		}
	}
	return found, nil
}

// TurnOfTask names the turn of a session that a background task belongs to, "" if none
// does. An agent gives what a task does the id of the prompt that is answered meanwhile.
func (n Recorder) TurnOfTask(ctx context.Context, session segno.SessionID, task string) (segno.TurnKey, error) {
	turns, err := n.Spool.Turns(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range turns {
		if t.Source.Session == session && slices.ContainsFunc(t.Tasks, func(x segno.Task) bool { return x.ID == task }) {
			return t.Key, nil
		}
	}
	return "", nil
}

// RecordTaskEnd notes on a turn that a background task of it ended.
func (n Recorder) RecordTaskEnd(ctx context.Context, p Payload, key segno.TurnKey, task, text string) error {
	body, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("encode note: %w", err)
	}
	return n.Spool.Note(ctx, key, segno.Entry{Kind: segno.EntryNote, Session: p.Session, Time: n.Now(), ID: task, Name: segno.NoteTask, Body: body})
}

// RecordTool notes an event of a tool boundary: what was asked of a tool, or what came
// of it.
func (n Recorder) RecordTool(ctx context.Context, p Payload) error {
	if p.Event == "PreToolUse" {
		return n.note(ctx, p, segno.EntryIntent, clipInput(p.ToolInput))
	}
	body, err := json.Marshal(p.result())
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	return n.note(ctx, p, segno.EntryResult, body)
}

// maxText bounds what is noted of a text, which is for people.
const maxText = 8 << 10

// RecordText notes what is to be said about a turn.
func (n Recorder) RecordText(ctx context.Context, p Payload, text string) error {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	body, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("encode note: %w", err)
	}
	return n.note(ctx, p, segno.EntryNote, body)
}

func (n Recorder) note(ctx context.Context, p Payload, kind segno.EntryKind, body json.RawMessage) error {
	key, err := n.TurnOf(ctx, p)
	if err != nil || key == "" {
		return err
	}
	return n.Spool.Note(ctx, key, segno.Entry{Kind: kind, Session: p.Session, Time: n.Now(),
		ID: bounded(p.ToolUseID), Name: bounded(p.ToolName), Body: body})
}
