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

// Calls and messages are named after their thread and turn: models count calls from
// nought, in every turn or on every line, and a client behind a proxy sees several
// threads as one session.

// messagePlace is where a message stands.
type messagePlace struct {
	thread segno.ThreadID
	turn   int // 0 in a subagent's thread
	step   int // how many there were before it
}

// call names a call by the agent's id.
func (p messagePlace) call(id string) acp.ToolCallId {
	name := segno.DerivedID("calls", string(p.thread))[:10]
	if p.turn > 0 {
		name += fmt.Sprintf("-%d", p.turn)
	}
	return acp.ToolCallId(name + "-" + id)
}

// message names the assistant's message of the step. The protocol wants a UUID.
func (p messagePlace) message() string {
	return p.messages() + fmt.Sprintf("%06x", max(0, p.step)&0xffffff)
}

// messages is what the names of the turn's messages begin with.
func (p messagePlace) messages() string {
	h := sha256.Sum256([]byte(p.thread))
	return fmt.Sprintf("%x-%x-8%03x-%04x-%06x", h[:4], h[4:6], binary.BigEndian.Uint16(h[6:])&0xfff,
		binary.BigEndian.Uint16(h[8:])&0x3fff|0x8000, p.turn&0xffffff)
}

// call is a call's id of the agent's, which is the only one in its thread's line.
type call struct {
	thread segno.ThreadID
	id     string
}

// callOf names a call. Those of the agent itself were announced with their turn.
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

// loadNames names what the session's line has, and returns where its messages stand.
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

// turnOf returns the checkpoint that ends the turn of a message.
func turnOf(ctx context.Context, c *chat.Chat, message string) (segno.CommitID, error) {
	ends := func(cp *segno.Checkpoint) bool {
		return cp != nil && cp.Kind == segno.CheckpointTurn && strings.HasPrefix(message, messagePlace{thread: cp.Thread, turn: cp.Turn}.messages())
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
	return "", segno.Errorf(segno.KindInvalid, "find message", message, "no turn of %s that has ended has it", c.Session)
}

// forkPoint is the message at which a request wants a fork, "" where the session stands:
// the protocol has no field for it, and JetBrains' is what other agents heed.
func forkPoint(meta map[string]any) string {
	for _, key := range []string{"jetbrains", "air", "fork"} {
		meta, _ = meta[key].(map[string]any)
	}
	id, _ := meta["messageId"].(string)
	return id
}
