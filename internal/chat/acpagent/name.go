package acpagent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// The client's ids of calls and messages contain the thread and the turn: models count calls
// from zero in every turn or on every line, and a client behind a proxy sees several threads as
// one session.

// messagePlace is the position of a message.
type messagePlace struct {
	thread segno.ThreadID
	turn   int // 0 in a subagent's thread
	step   int // number of steps before the message
}

// call returns the client's id of a call.
func (p messagePlace) call(id string) acp.ToolCallId {
	name := segno.DerivedID("calls", string(p.thread))[:10]
	if p.turn > 0 {
		name += fmt.Sprintf("-%d", p.turn)
	}
	return acp.ToolCallId(name + "-" + id)
}

// message returns the id of the assistant's message of the step. The protocol requires a UUID.
func (p messagePlace) message() string {
	return p.messages() + fmt.Sprintf("%06x", max(0, p.step)&0xffffff)
}

// messages returns the common prefix of the ids of the turn's messages.
func (p messagePlace) messages() string {
	h := sha256.Sum256([]byte(p.thread))
	return fmt.Sprintf("%x-%x-8%03x-%04x-%06x", h[:4], h[4:6], binary.BigEndian.Uint16(h[6:])&0xfff,
		binary.BigEndian.Uint16(h[8:])&0x3fff|0x8000, p.turn&0xffffff)
}

// call is the agent's id of a call. It is unique only in the line of its thread: after an undo,
// the model may use the same id again.
type call struct {
	thread segno.ThreadID
	id     string
}

// callOf returns the client's id of a call. For a call of the agent itself, the id contains the
// turn. A call keeps the id under which it was announced first, even if a later event lacks the
// turn. callOf is safe for concurrent use: the agent's run asks for permission in another
// goroutine than the one that reads its events.
func (t *updater) callOf(at messagePlace, id string) acp.ToolCallId {
	if string(at.thread) != string(t.session) {
		at.turn = 0
	}
	c := call{at.thread, id}
	t.namesMu.Lock()
	defer t.namesMu.Unlock()
	if t.names[c] == "" {
		t.names[c] = at.call(id)
	}
	return t.names[c]
}

// loadNames loads the ids of the calls of the session's line, and returns the positions of its
// messages.
func (t *updater) loadNames(ctx context.Context, messages []agent.Message) (map[string]messagePlace, error) {
	head, err := t.chat.Store.Head(ctx, segno.ThreadID(t.session))
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	line, err := t.chat.Store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	places := map[string]messagePlace{}
	for _, n := range line.Commits {
		for _, e := range n.Entries {
			if e.Kind == segno.EntryMessage {
				p := messagePlace{thread: n.Thread, turn: e.Turn}
				if n.Checkpoint != nil {
					p.step = n.Checkpoint.Step - 1
				}
				places[e.ID] = p
			}
		}
	}
	t.namesMu.Lock()
	defer t.namesMu.Unlock()
	for i := range messages {
		for _, c := range messages[i].Calls() {
			t.names[call{segno.ThreadID(t.session), c.ID}] = places[messages[i].ID].call(c.ID)
		}
	}
	return places, nil
}

// turnOf returns the checkpoint at the end of the turn that contains a message.
func turnOf(ctx context.Context, c *chat.Chat, message string) (segno.CommitID, error) {
	ends := func(cp *segno.Checkpoint) bool {
		return cp != nil && cp.Kind == segno.CheckpointTurn &&
			strings.HasPrefix(message, messagePlace{thread: cp.Thread, turn: cp.Turn}.messages())
	}
	for cp, err := range c.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: segno.ThreadID(c.Session)}) {
		if err != nil || ends(&cp) {
			return cp.ID, err
		}
	}
	head, err := c.Store.Head(ctx, segno.ThreadID(c.Session))
	if err != nil {
		return "", err
	}
	line, err := c.Store.Load(ctx, head.Tip, segno.Window{})
	if err != nil {
		return "", err
	}
	for _, n := range line.Commits {
		if ends(n.Checkpoint) {
			return n.ID, nil
		}
	}
	return "", segno.Errorf(segno.KindInvalid, "find message", message, "no completed turn of %s has the message", c.Session)
}

// forkPoint returns the message at which a request forks the session, or "" for its head. The
// protocol has no field for it; this is the field by JetBrains, which other agents accept too.
func forkPoint(meta map[string]any) string {
	for _, key := range []string{"jetbrains", "air", "fork"} {
		meta, _ = meta[key].(map[string]any)
	}
	id, _ := meta["messageId"].(string)
	return id
}
