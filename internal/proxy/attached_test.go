package proxy_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestReplayWithAttachmentsIsComplete uses an agent that replays pictures as pictures and
// links as links. The replay must count as complete.
func TestReplayWithAttachmentsIsComplete(t *testing.T) {
	r, c, s := startSession(t, forkers()["loads"])
	prompt := func(c *acptest.Client, blocks ...map[string]any) {
		t.Helper()
		call, err := c.Go("session/prompt", map[string]any{"sessionId": s, "prompt": blocks})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := call.Answer(r.ctx); err != nil || m.Err() != nil {
			t.Fatal(err, m.Err())
		}
	}
	image := map[string]any{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
	link := map[string]any{"type": "resource_link", "uri": "file:///x/b.txt", "name": "b.txt"}
	file := map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x/notes.md", "text": "notes"}}
	words := func(text string) map[string]any { return map[string]any{"type": "text", "text": text} }
	prompt(c, image, words("alpha and more"), link)
	prompt(c, image)
	prompt(c, words("short"), file, words("beta is longer"))
	c.CloseStdin()
	<-c.Exited()
	c = r.client()
	r.open(c, "load", s)
	r.turn(c, s, "gamma")
	if got := r.sent().Session; got != s {
		t.Errorf("it goes on in %s, not in %s: %+v", got, s, r.chain(s))
	}
	r.wantSeen([]string{"alpha and more", "beta is longer", "gamma"})
}
