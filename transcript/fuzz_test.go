package transcript_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// sessionPath returns where an agent keeps the session firstID.
func sessionPath(home, name string) string {
	if name == claude.Agent {
		return filepath.Join(home, "projects", claude.Slug("/srv/proj"), firstID+".jsonl")
	}
	return filepath.Join(home, "sessions", "2026", "11", "22", "rollout-2026-11-22T10-00-01-"+firstID+".jsonl")
}

func openAgent(home, name string) agent {
	if name == claude.Agent {
		return claude.New(home, claude.Options{})
	}
	return codex.New(home, codex.Options{})
}

// fuzz reads sessions of one agent that contain arbitrary bytes. If it can read a conversation, it can write
// it as a session of the other agent, which has the same messages.
func fuzz(f *testing.F, name, other string) {
	c := hostile()
	seedHome := f.TempDir()
	src, err := openAgent(seedHome, name).WriteConversation(context.Background(), c, nil, segno.Target{Session: firstID, Dir: "/srv/proj"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(src.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:min(len(seed), 8000)])
	f.Add([]byte(`{"type":"session_meta","payload":{"id":"` + firstID + `"}}` + "\n" + `{"type":"event_msg","payload":{"type":"user_message","message":"x"}}` + "\n" +
		`{"type":"compacted","payload":{"message":"s","replacement_history":null}}` + "\n" + `{"type":"response_item","payload":{"type":"function_call","call_id":"a","name":"b","arguments":"["}}` + "\n"))
	f.Add([]byte(`{"type":"user","uuid":"a","parentUuid":null,"message":{"content":[{"type":"image","source":{}},{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"t"}]}]}}` + "\n" +
		`{"type":"assistant","uuid":"b","parentUuid":"a","message":{"id":"m","content":[{"type":"tool_use","id":"x","input":3}]}}` + "\n"))
	f.Add([]byte(`{"type":"assistant","uuid":"b","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"an answer without a prompt"}]}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx := t.Context()
		home := t.TempDir()
		store := memory.New(nil)
		defer store.Close()
		read := func(name string, src segno.Source) (transcript.Conversation, error) {
			batch := store.Objects().Batch()
			defer batch.Close()
			got, err := openAgent(filepath.Join(home, name), name).Capture(ctx, src, nil, batch, nil)
			if err != nil || got.Position.Leaf == "" {
				return transcript.Conversation{}, err
			}
			return openAgent(filepath.Join(home, name), name).ReadConversation(ctx, got.Position, "", nil)
		}
		path := sessionPath(filepath.Join(home, name), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := read(name, segno.Source{Session: firstID, Path: path})
		isUser := func(m transcript.Message) bool { return m.Role == transcript.User }
		switch {
		case err != nil, len(c.Messages) == 0:
			return
		case other == codex.Agent && !slices.ContainsFunc(c.Messages, isUser):
			return // a session of Codex without a prompt has no turn, so its position has no leaf
		}
		src, err := openAgent(filepath.Join(home, other), other).WriteConversation(ctx, c, nil, segno.Target{Session: secondID, Dir: "/srv/proj"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(other, src)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(texts(c), texts(again)); diff != "" {
			t.Errorf("(-read +written):\n%s", diff)
		}
	})
}

// texts are the words of the user and the model. They reach the other agent whatever ids and names calls have.
func texts(c transcript.Conversation) (out []string) {
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			if p.Text != "" {
				out = append(out, string(m.Role)+" "+p.Text)
			}
		}
	}
	return out
}

func FuzzClaude(f *testing.F) { fuzz(f, claude.Agent, codex.Agent) }

func FuzzCodex(f *testing.F) { fuzz(f, codex.Agent, claude.Agent) }
