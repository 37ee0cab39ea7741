package worldagent_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/worlds/worldagent"
	"github.com/dalsegno/segno/world/company"
)

// watched is a model that records the requests to another model.
type watched struct {
	agent.Model
	requests []agent.Request
}

func (w *watched) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	w.requests = append(w.requests, r)
	return w.Model.Generate(ctx, r)
}

// TestTurns runs turns of the scripted player, each like a new process. In each turn, the player continues its
// conversation, acts once, and notes its action. The model's input contains nothing of segno.
func TestTurns(t *testing.T) {
	r := newRig(t)
	m := &watched{Model: worldagent.Player(company.Player())}
	for turn := 1; turn <= 3; turn++ {
		if r.Prompt = "Continue."; turn == 1 {
			r.Prompt = "You are Ada."
		}
		if _, err := worldagent.Turn(t.Context(), m, r.Config); err != nil {
			t.Fatal(err)
		}
		r.advance()
		notes := strings.Split(strings.TrimSpace(r.read(filepath.Join(r.Dir, "EPISODIC_MEMORY.jsonl"))), "\n")
		var last struct {
			Action  map[string]any `json:"action"`
			Refused string         `json:"refused"`
		}
		if err := json.Unmarshal([]byte(notes[len(notes)-1]), &last); err != nil || len(notes) != turn || last.Action["do"] == nil || last.Refused != "" {
			t.Errorf("turn %d: the notes are %q, %v", turn, notes, err)
		}
	}
	last := m.requests[len(m.requests)-1]
	var prompts []string
	for _, message := range last.Messages {
		if message.Role == agent.User {
			prompts = append(prompts, message.Text())
		}
	}
	if strings.Join(prompts, "|") != "You are Ada.|Continue.|Continue." {
		t.Errorf("the model sees the prompts %q", prompts)
	}
	seen, err := json.Marshal([]any{last.System, last.Messages, last.Tools})
	if text := strings.ReplaceAll(string(seen), filepath.Dir(r.Dir), ""); err != nil || strings.Contains(strings.ToLower(text), "segno") {
		t.Errorf("the model sees segno in %s, %v", text, err)
	}
}

// TestCutOff interrupts a turn during an action. The next turn learns that the result of the action is lost. A player that
// continues the cut turn notes this.
func TestCutOff(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/act" {
			_, _ = io.Copy(io.Discard, q.Body) // only then can the server notice that the client disconnects
			cancel()
			<-q.Context().Done()
			return
		}
		seen, err := r.world.Observe(q.Context(), ticket)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(seen) // the client may have disconnected
	}))
	defer broken.Close()
	world := r.World
	r.World, r.Prompt = broken.URL, "You are Ada."
	m := &watched{Model: worldagent.Player(company.Player())}
	if _, err := worldagent.Turn(ctx, m, r.Config); err == nil {
		t.Fatal("the turn succeeded")
	}
	r.World, r.Prompt = world, "Continue."
	if _, err := worldagent.Turn(t.Context(), m, r.Config); err != nil {
		t.Fatal(err)
	}
	cut := m.requests[len(m.requests)-1]
	isLost := func(m agent.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p agent.Part) bool {
			return p.Result != nil && strings.Contains(p.Result.Text, "connection was lost")
		})
	}
	lost := slices.IndexFunc(cut.Messages, isLost)
	if lost < 0 {
		t.Fatalf("the model sees %+v", cut.Messages)
	}
	cut.Messages = cut.Messages[:lost+1]
	for chunk, err := range m.Generate(t.Context(), cut) {
		if err != nil || chunk.Reply == nil || len(chunk.Reply.Message.Parts) != 1 {
			t.Fatalf("the player answers with %+v, %v", chunk, err)
		}
		if call := chunk.Reply.Message.Parts[0].Call; call == nil || !strings.Contains(string(call.Args), `"lost":true`) {
			t.Errorf("the player answers with %+v", chunk.Reply.Message)
		}
	}
}

// TestWorldGone checks that a turn ends with an error if the world does not answer.
func TestWorldGone(t *testing.T) {
	r := newRig(t)
	r.World, r.Prompt = "http://127.0.0.1:1", "You are Ada."
	if _, err := worldagent.Turn(t.Context(), worldagent.Player(company.Player()), r.Config); err == nil {
		t.Error("the turn succeeded")
	}
}

// TestRefused runs a turn with an action that the world refuses. The player notes it, and the turn succeeds.
func TestRefused(t *testing.T) {
	r := newRig(t)
	r.Prompt = "You are Ada."
	twice := worldagent.Player(func(segno.Observation) (json.RawMessage, error) { return json.RawMessage(`{"do":"fly"}`), nil })
	if _, err := worldagent.Turn(t.Context(), twice, r.Config); err != nil {
		t.Fatal(err)
	}
	if notes := r.read(filepath.Join(r.Dir, "EPISODIC_MEMORY.jsonl")); !strings.Contains(notes, `"refused":"`) {
		t.Errorf("the note is %s", notes)
	}
}
