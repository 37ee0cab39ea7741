package chat

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/transcript"
)

// ConversationBetween returns a function that returns the messages of a chat between two of its
// checkpoints, or from the beginning if after is "". The error has [segno.KindNotFound] if the
// conversation at the second checkpoint no longer contains the end of after.
func ConversationBetween(store segno.Store) func(ctx context.Context, after, at segno.CommitID) (transcript.Conversation, error) {
	return func(ctx context.Context, after, at segno.CommitID) (transcript.Conversation, error) {
		var out transcript.Conversation
		line, err := store.Load(ctx, at, segno.Window{Entries: true})
		if err != nil {
			return out, err
		}
		from, err := imported(line, after)
		if err != nil {
			return out, err
		}
		state, err := segno.Fold(line)
		if err != nil {
			return out, err
		}
		if from > len(state.Messages) {
			return out, segno.Errorf(segno.KindNotFound, "read conversation", string(at), "the model no longer sees the messages before it")
		}
		for _, body := range state.Messages[from:] {
			var m agent.Message
			if err := json.Unmarshal(body, &m); err != nil {
				return out, segno.NewError(segno.KindCorrupt, "read message", string(at), err)
			}
			addMessage(&out, m)
		}
		return out, nil
	}
}

// imported returns the number of messages at the beginning of a chat that come from another agent. The
// commit that follows the checkpoint after added them.
func imported(line *segno.Line, after segno.CommitID) (n int, err error) {
	if after == "" {
		return 0, nil
	}
	state, err := segno.Fold(&segno.Line{})
	isBehind := false
	for i := range line.Commits {
		if err != nil {
			break
		}
		c := &line.Commits[i]
		err = state.Add(c)
		if isBehind && c.Checkpoint != nil && c.Checkpoint.Agent == Name {
			return len(state.Messages), err
		}
		isBehind = isBehind || c.ID == after
	}
	return 0, err
}

// addMessage adds a message of segno's agent. For other agents, results are messages of the user.
func addMessage(out *transcript.Conversation, m agent.Message) {
	to := transcript.Message{Role: transcript.User, Model: m.Model, Time: m.Time, Prompt: m.Role == agent.User}
	if m.Role == agent.Assistant {
		to.Role = transcript.Assistant
	}
	for _, p := range m.Parts {
		if p.Result == nil {
			addPart(out, &to.Parts, p)
			continue
		}
		result := &transcript.Result{Call: p.Result.Call, IsError: p.Result.Error}
		if p.Result.Text != "" {
			result.Parts = append(result.Parts, transcript.Part{Text: p.Result.Text})
		}
		for _, beside := range p.Result.Parts {
			addPart(out, &result.Parts, beside)
		}
		to.Parts = append(to.Parts, transcript.Part{Result: result})
	}
	if len(to.Parts) > 0 {
		out.Messages = append(out.Messages, to)
	}
}

func addPart(out *transcript.Conversation, to *[]transcript.Part, p agent.Part) {
	switch {
	case p.Text != "":
		*to = append(*to, transcript.Part{Text: p.Text})
	case p.Image != nil:
		*to = append(*to, transcript.Part{Image: &transcript.Image{Type: p.Image.Type, URL: p.Image.URL, Data: base64.StdEncoding.EncodeToString(p.Image.Data)}})
	case p.Call != nil:
		*to = append(*to, transcript.Part{Call: &transcript.Call{ID: p.Call.ID, Name: p.Call.Name, Input: p.Call.Args}})
	case p.Thinking != nil:
		out.Lose(transcript.LostReasoning, 1)
	case p.File != nil:
		out.Lose(transcript.LostDocuments, 1)
	}
}
