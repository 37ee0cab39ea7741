package chat

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// Import makes a session from a plan: a fork of the plan's checkpoint whose messages are the
// conversation of the other agent. Messages of the chat itself at that checkpoint stay. The session's
// first checkpoint has the current files of the directory.
func Import(ctx context.Context, tl *timeline.Timeline, plan *timeline.Continuation, title string) (segno.ThreadID, error) {
	kept, err := messagesAt(ctx, tl.Store, plan.Native)
	if err != nil {
		return "", err
	}
	line, err := tl.Store.Load(ctx, plan.At.ID, segno.Window{Entries: true})
	if err != nil {
		return "", err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return "", err
	}
	now := tl.Now()
	entries := []segno.Entry{{Kind: segno.EntryKeep, Body: fmt.Append(nil, kept)}}
	for _, x := range state.Unknown { // the other agent has already reported them to the user
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: x.ID, Name: x.Name, Body: []byte(`{"unknown":true}`)})
	}
	for _, m := range fromConversation(plan.Conversation, now) {
		body, err := segno.Encode(m)
		if err != nil {
			return "", segno.NewError(segno.KindInvalid, "import conversation", string(plan.At.ID), err)
		}
		entries = append(entries, segno.Entry{Kind: segno.EntryMessage, ID: m.ID, Name: string(m.Role), Time: m.Time, Body: body})
	}
	for i := range entries {
		entries[i].Turn = plan.At.Turn
		if entries[i].Time.IsZero() {
			entries[i].Time = now
		}
	}
	thread := segno.ThreadID(segno.NewID())
	_, err = tl.CommitStep(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Parent: plan.At.ID, Entries: entries,
		Create:     &segno.Thread{ID: thread, Created: now, Title: title, Agent: Name, Parent: plan.At.ID},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Turn: plan.At.Turn, Time: now, Agent: Name}}, "")
	return thread, err
}

// messagesAt returns the number of messages of a chat at a checkpoint, 0 for nil.
func messagesAt(ctx context.Context, store segno.Store, at *segno.Checkpoint) (int, error) {
	if at == nil {
		return 0, nil
	}
	line, err := store.Load(ctx, at.ID, segno.Window{Entries: true})
	if err != nil {
		return 0, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return 0, err
	}
	return len(state.Messages), nil
}

// fromConversation converts the messages of another agent to those of a chat. It omits the name of
// the model, because the chat continues with the model that answered last.
func fromConversation(c transcript.Conversation, now time.Time) (all []agent.Message) {
	names := map[string]string{}
	for _, m := range c.Messages {
		to := agent.Message{Role: agent.Role(m.Role), Time: m.Time}
		results := agent.Message{Role: agent.ToolRole, Time: m.Time}
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				names[p.Call.ID] = p.Call.Name
				to.Parts = append(to.Parts, agent.Part{Call: &agent.Call{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Input}})
			case p.Result != nil:
				results.Parts = append(results.Parts, agent.Part{Result: fromResult(p.Result, names)})
			case p.Interruption:
				to.Parts = append(to.Parts, agent.Part{Text: "[The user interrupted the turn.]"})
			default:
				to.Parts = append(to.Parts, fromPart(p))
			}
		}
		for _, m := range []agent.Message{results, to} {
			if len(m.Parts) == 0 {
				continue
			}
			if m.ID = segno.NewID(); m.Time.IsZero() {
				m.Time = now
			}
			all = append(all, m)
		}
	}
	return all
}

func fromResult(r *transcript.Result, names map[string]string) *agent.Result {
	out := &agent.Result{Call: r.Call, Name: names[r.Call], Error: r.IsError}
	for _, p := range r.Parts {
		if p.Image != nil {
			out.Parts = append(out.Parts, fromPart(p))
			continue
		}
		if out.Text != "" {
			out.Text += "\n"
		}
		out.Text += p.Text
	}
	return out
}

func fromPart(p transcript.Part) agent.Part {
	if p.Image == nil {
		return agent.Part{Text: p.Text}
	}
	data, err := base64.StdEncoding.DecodeString(p.Image.Data)
	if err != nil {
		return agent.Part{Text: "[an image that cannot be decoded]"}
	}
	return agent.Part{Image: &agent.Blob{Type: p.Image.Type, Data: data, URL: p.Image.URL}}
}
