package proxy_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proxy"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// hasty runs segno acp with a shorter wait for cancelled turns.
func hasty(ctx context.Context, command []string) int {
	place, err := local.FindPlace(os.Getenv, "")
	if err == nil {
		c := proxy.Config{Command: command, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Place: place}
		err = proxy.Run(ctx, c.Hasty(300*time.Millisecond))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestUnansweredCancel uses an agent that ignores a cancel. The proxy kills the agent and
// cancels the turn and the waiting prompts. The conversation continues.
func TestUnansweredCancel(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		cmd := r.command()
		cmd.Args = append([]string{os.Args[0], "hasty"}, r.agentCommand()...)
		c := r.started(cmd, acptest.ClientOptions{}, "")
		if _, err := c.Initialize(r.ctx, nil); err != nil {
			t.Fatal(err)
		}
		s := r.open(c, "new", "")
		r.write(c, s, "alpha")
		turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Do("beta-line"), acptest.Say("on it"), acptest.Step{Deaf: true}))
		r.says(turn, "on it")
		queued := r.prompt(c, s, "gamma "+acptest.Directive(acptest.Do("gamma-line")))
		if err := c.Cancel(s); err != nil {
			t.Fatal(err)
		}
		r.ends(turn, "cancelled")
		r.ends(queued, "cancelled")
		r.say(c, s, "delta")
		r.wantSeen([]string{"alpha", "beta-line", "delta"}, "gamma")
		if got := r.log(); len(got) != 3 || !got[1].Interrupted || got[0].Interrupted {
			t.Errorf("the log has %+v", got)
		}
		if got := r.ledger(); got != "alpha-line beta-line" {
			t.Errorf("the ledger has %q", got)
		}
	})
}
