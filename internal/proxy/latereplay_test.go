package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestALateReplayIsNotShown cancels a prompt while the agent loads the session. The agent then replays the conversation, which the
// client has already. The client does not receive it again, and the next turn does not record it.
func TestALateReplayIsNotShown(t *testing.T) {
	wait := filepath.Join(t.TempDir(), "wait")
	r := newRig(t, func(dir string) acptest.Config {
		return acptest.Config{Dir: dir, Name: "slow", Version: "1.0.0", Load: true, LoadWait: wait}
	})
	c, s := r.session()
	r.turn(c, s, "alpha "+acptest.Directive(acptest.Say("said-alpha")))
	r.leave(c)
	c = r.client()
	turn, err := c.Prompt(s, "beta")
	if err != nil {
		t.Fatal(err)
	}
	r.until("the load", func() bool {
		_, err := os.Stat(wait + ".waits")
		return err == nil
	})
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	r.ends(turn, "cancelled")
	r.flag(wait)
	_, _ = c.Call(r.ctx, "_test/after_the_replay", struct{}{}) // the agent does not know it, and answers in order
	third := r.turn(c, s, "gamma "+acptest.Directive(acptest.Say("said-gamma")))
	for _, m := range c.Messages() {
		if strings.Contains(m.Content(), "said-alpha") {
			t.Errorf("the client got %s", m.Line)
		}
	}
	if said := third.Said(); said != "said-gamma" {
		t.Errorf("the third turn said %q", said)
	}
}
