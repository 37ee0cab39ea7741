package web_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/chat"
)

// openChat opens the chat of a thread.
func (r *moveRig) openChat(session string) *chat.Chat {
	r.Helper()
	c, err := chat.Open(r.Context(), chat.Config{Model: offline.New(), Store: r.store, Timeline: r.timeline, Dir: r.project, Session: session})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

// run runs the chat until it ends or waits.
func (r *moveRig) run(c *chat.Chat, in agent.Input) {
	r.Helper()
	for _, err := range c.Stream(r.Context(), in) {
		if err != nil {
			r.Fatal(err)
		}
	}
}

// ask makes the chat ask for a command that writes a file, and returns the question.
func (r *moveRig) ask(c *chat.Chat, name string) string {
	r.Helper()
	r.run(c, agent.Input{Prompt: "run echo done > " + name})
	open, err := c.Waiting(r.Context())
	if err != nil || len(open) != 1 {
		r.Fatalf("the open questions are %v, %v", open, err)
	}
	return open[0].ID
}

func TestDecide(t *testing.T) {
	r := newMoveRig(t)
	c := r.openChat("talk")
	r.thread = "talk"
	id := r.ask(c, "approved.txt")
	p := r.preview(`"verb":"decide","interrupt":"` + id + `","decision":"approve"`)
	if p.Title != "approve: execute echo done > approved.txt" || !p.Final {
		t.Errorf("the preview is %s", p.raw)
	}
	done := r.apply(p, "")
	if done.status != http.StatusOK || !strings.Contains(strings.Join(done.Run, " "), "chat --session talk --continue") {
		t.Errorf("the decision returns %s", done.raw)
	}
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(r.project, name))
		return err == nil
	}
	if exists("approved.txt") {
		t.Error("the decision ran the command")
	}
	r.run(c, agent.Input{})
	if !exists("approved.txt") {
		t.Error("the approved command did not run")
	}
	again := r.post("/previews", "", `{"verb":"decide","thread":"talk","interrupt":"`+id+`","decision":"reject"}`)
	r.refused(again, http.StatusConflict, "conflict", "answered before: approve")

	id = r.ask(c, "rejected.txt")
	late := r.preview(`"verb":"decide","interrupt":"` + id + `","decision":"approve"`)
	r.move(`"verb":"decide","interrupt":"` + id + `","decision":"reject","message":"not that"`)
	r.refused(r.apply(late, ""), http.StatusConflict, "conflict", "answered before")
	r.run(c, agent.Input{})
	messages, err := c.Messages(t.Context())
	if err != nil || exists("rejected.txt") {
		t.Errorf("after a rejection the command ran, or %v", err)
	}
	if text, err := segno.Encode(messages); err != nil || !strings.Contains(string(text), "not that") {
		t.Errorf("the agent does not know the reason: %s, %v", text, err)
	}

	id = r.ask(c, "edited.txt")
	bad := r.preview(`"verb":"decide","interrupt":"` + id + `","decision":"edit","input":{"surprise":1}`)
	r.refused(r.apply(bad, ""), http.StatusBadRequest, "invalid", "")
	r.refused(r.post("/previews", "", `{"verb":"decide","thread":"talk","interrupt":"`+id+`","decision":"edit"}`), http.StatusBadRequest, "invalid", "")
	r.refused(r.post("/previews", "", `{"verb":"decide","thread":"talk","interrupt":"`+id+`","decision":"guess"}`), http.StatusForbidden, "refused", "")
	r.move(`"verb":"decide","interrupt":"` + id + `","decision":"edit","input":{"command":"echo other > other.txt"}`)
	r.run(c, agent.Input{})
	if exists("edited.txt") || !exists("other.txt") {
		t.Error("the edited command did not run")
	}
}

// TestWaitsOfATool shows the question of a tool, and not the sleep of another one. The reply must be
// one of the choices.
func TestWaitsOfATool(t *testing.T) {
	r := newMoveRig(t)
	sleep := agent.NewTool("sleep", "sleeps", agent.LostAsk, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		agent.Sleep(ctx, time.Hour)
		return "slept", nil
	})
	ask := agent.NewTool("ask", "asks", agent.LostAsk, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		a, err := agent.Interrupt(ctx, agent.Ask{Text: "which size?", Choices: []string{"small", "large"}})
		return a.Text, err
	})
	a := agent.New(agent.Config{Name: "shop", Model: offline.New(), Store: r.store, Tools: []agent.Tool{sleep, ask}})
	if _, err := a.Run(r.Context(), agent.Input{Thread: "shop", Prompt: "call sleep {} ; call ask {}"}); err != nil {
		t.Fatal(err)
	}
	r.thread = "shop"
	var thread struct {
		Interrupts []struct{ ID, Question string }
	}
	r.get("/threads/shop", &thread)
	if len(thread.Interrupts) != 1 || thread.Interrupts[0].Question != "which size? (small, large)" {
		t.Fatalf("the open questions are %+v", thread.Interrupts)
	}
	id := `"verb":"decide","thread":"shop","interrupt":"` + thread.Interrupts[0].ID + `","decision":"respond"`
	r.refused(r.post("/previews", "", `{`+id+`,"message":"huge"}`), http.StatusBadRequest, "invalid", "")
	r.move(id + `,"message":"large"`)
	s, err := a.Status(r.Context(), "shop")
	if err != nil || len(s.Interrupts) != 1 || s.Wake.IsZero() {
		t.Errorf("after the decision the thread is %+v, %v", s, err)
	}
}
