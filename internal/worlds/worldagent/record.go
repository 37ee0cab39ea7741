package worldagent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/store/file"
)

// record is a copy of the conversation of an agent that keeps its own sessions. It is for a session that replaces a
// lost one, and has only the messages that this process received.
type record struct {
	store   *file.Store
	head    segno.Head
	thread  segno.ThreadID
	turn    int             // the newest
	session segno.SessionID // the agent's newest session, or ""
	words   *preamble.Builder
}

// openRecord reads the record of a conversation, which may have no turns yet.
func openRecord(ctx context.Context, dir, id string) (*record, error) {
	store, err := file.Open(ctx, dir, file.Options{})
	if err != nil {
		return nil, err
	}
	r := &record{store: store, thread: segno.ThreadID(id), words: new(preamble.Builder)}
	if err := r.read(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return r, nil
}

func (r *record) read(ctx context.Context) error {
	head, err := r.store.Head(ctx, r.thread)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	line, err := r.store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	r.head = head
	r.words = preamble.FromCommits(line.Commits)
	for _, n := range line.Commits {
		for _, e := range n.Entries {
			r.turn = max(r.turn, e.Turn)
			if e.Session != "" {
				r.session = e.Session
			}
		}
	}
	return nil
}

// begin records the prompt of the next turn.
func (r *record) begin(ctx context.Context, prompt string, session segno.SessionID) error {
	r.turn++
	r.session = session
	return r.add(ctx, nil, segno.Entry{Kind: segno.EntryMessage, Name: "user", Body: encode(prompt)})
}

// end records the end of the turn, with the agent's last words.
func (r *record) end(ctx context.Context, words string) error {
	var all []segno.Entry
	if words != "" {
		all = append(all, segno.Entry{Kind: segno.EntryMessage, Name: "agent", Body: encode(words)})
	}
	return r.add(ctx, &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: r.turn, Time: time.Now(), Agent: "acp"}, all...)
}

// add records entries of the turn.
func (r *record) add(ctx context.Context, cp *segno.Checkpoint, entries ...segno.Entry) (err error) {
	for i := range entries {
		entries[i].Turn, entries[i].Time, entries[i].Session = r.turn, time.Now(), r.session
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Parent: r.head.Head, Expect: r.head.Head, Epoch: r.head.Epoch,
		Entries: entries, Checkpoint: cp}
	if r.head.Head == "" {
		c.Create = &segno.Thread{ID: r.thread, Created: time.Now()}
	}
	r.head, err = r.store.Commit(context.WithoutCancel(ctx), c)
	return err
}

// encode returns v as JSON. v is a string or comes from decoded JSON, so encoding cannot fail.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return data
}
