package proxy_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestTitleIsNotThePreamble checks that no title comes from a preamble.
func TestTitleIsNotThePreamble(t *testing.T) {
	t.Parallel()
	for name, agent := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, changed(agent, func(c *acptest.Config) { c.Title, c.Resume, c.Load = true, false, false }))
			c, s := r.session()
			r.say(c, s, "alpha")
			r.killAgent()
			turn := r.say(c, s, "beta")
			m, err := c.Await(r.ctx, turn.From, func(m acptest.Received) bool { return m.Update() == "session_info_update" })
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Text(m.Find(m.Params, "update", "title")); !strings.HasPrefix(got, "alpha") {
				t.Errorf("the client received the title %q", got)
			}
			list, err := c.List(r.ctx, "")
			if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Title, "alpha") {
				t.Errorf("listed: %+v, %v", list, err)
			}
		})
	}
}
