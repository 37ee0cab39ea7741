package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestTheHookMakesARequestedMove lets the agent ask for an undo in its turn. The hook at the end of the turn makes it and tells
// the user.
func TestTheHookMakesARequestedMove(t *testing.T) {
	c := newScene(t, map[string]string{"a": "0"})
	c.asks("p1", "one")
	c.writes("p1", "w1", "a", "1")
	c.stops("p1")
	c.asks("p2", "two")
	c.writes("p2", "w2", "a", "2")
	c.stops("p2")
	c.asks("p3", "undo that")
	c.as(segno.Lease{}, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		thread, err := tl.CurrentThread(ctx)
		if err == nil {
			_, err = tl.WithActor("claude-code").RequestMove(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: thread})
		}
		return err
	})
	c.wantFiles("a=2")
	c.says("done")
	var out bytes.Buffer
	Run(c.Context(), "claude", Event{Place: c.place, Stdin: strings.NewReader(c.payload("Stop", "prompt_id", "p3", "last_assistant_message", "done", "background_tasks", []any{})),
		Stdout: &out, Getenv: func(string) string { return "" }})
	var answer struct {
		Message string `json:"systemMessage"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("the hook printed %q: %v", out.String(), err)
	}
	for _, want := range []string{"made 'undo t2', which claude-code requested", "claude --resume ", "segno op undo"} {
		if !strings.Contains(answer.Message, want) {
			t.Errorf("the user gets %q, without %q", answer.Message, want)
		}
	}
	c.wantFiles("a=1")
	c.wantNoFailures()
}
