package worldagent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/worlds/worldagent"
)

// acpRig is a rig with the scripted agent.
type acpRig struct {
	*rig
	agent acptest.Config
}

func newACPRig(t *testing.T, agent acptest.Config) *acpRig {
	r := newRig(t)
	agent.Dir = filepath.Join(filepath.Dir(r.Dir), "agent")
	return &acpRig{r, agent}
}

// turn runs one turn of the agent in a new process.
func (r *acpRig) turn(ctx context.Context, prompt string) error {
	r.Prompt = prompt
	_, err := worldagent.TurnACP(ctx, r.Config, "", append([]string{os.Args[0]}, r.agent.Args()...))
	return err
}

func (r *acpRig) mustTurn(prompt string) {
	r.Helper()
	if err := r.turn(r.Context(), prompt); err != nil {
		r.Fatal(err)
	}
}

// requests returns the complete input of the agent's model so far.
func (r *acpRig) requests() string {
	found, err := filepath.Glob(filepath.Join(r.agent.Dir, "requests*"))
	if err != nil || len(found) != 1 {
		r.Fatal(found, err)
	}
	return r.read(found[0])
}

// TestACPTurns runs turns of agents with different abilities. Each continues its session, or gets a preamble.
func TestACPTurns(t *testing.T) {
	for name, test := range map[string]struct {
		agent    acptest.Config
		preamble bool
	}{
		"resume":     {acptest.Config{Resume: true}, false},
		"load":       {acptest.Config{Load: true}, false},
		"both":       {acptest.Config{Resume: true, Load: true, Ask: true}, false},
		"neither":    {acptest.Config{}, true},
		"other line": {acptest.Config{Load: true, CRLF: true, Chunk: 7, NullResults: true, Greeting: "hello\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newACPRig(t, test.agent)
			r.System = "Always be kind."
			r.mustTurn("You are Ada. " + acptest.Directive(acptest.Do("one"), acptest.Say("I did it.")))
			r.mustTurn("Go on. " + acptest.Directive(acptest.Do("two")))
			r.mustTurn("Go on. " + acptest.Directive(acptest.Do("three")))
			lines, err := acptest.ReadLedger(r.agent.LedgerFile())
			if diff := cmp.Diff([]string{"one", "two", "three"}, lines); diff != "" || err != nil {
				t.Errorf("%s %v", diff, err)
			}
			sent := r.requests()
			if got := strings.Contains(sent, "record of the conversation so far"); got != test.preamble {
				t.Errorf("a preamble: %v in %s", got, sent)
			}
			if !strings.Contains(sent, "Always be kind.") {
				t.Errorf("the model does not see the system prompt in %s", sent)
			}
			if strings.Contains(strings.ToLower(strings.ReplaceAll(sent, filepath.Dir(r.Dir), "")), "segno") {
				t.Errorf("the model sees segno in %s", sent)
			}
		})
	}
}

// TestACPFailures checks the errors of turns that fail.
func TestACPFailures(t *testing.T) {
	exit := 3
	for name, step := range map[string]acptest.Step{
		"exit":         {Exit: &exit},
		"kill":         {Kill: true},
		"rate limit":   {Fail: "claude.rate_limit"},
		"as a success": {Fail: "codex.rate_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newACPRig(t, acptest.Config{Resume: true, Name: "@agentclientprotocol/codex-acp", Version: "2.6.0"})
			if err := r.turn(t.Context(), acptest.Directive(step)); err == nil {
				t.Error("the turn succeeded")
			}
		})
	}
}

// TestACPCancel cancels a turn that does not end. The agent receives the cancel; one that ignores it is
// killed.
func TestACPCancel(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, step := range map[string]acptest.Step{"hang": {Hang: true}, "deaf": {Deaf: true}} {
		t.Run(name, func(t *testing.T) {
			r := newACPRig(t, acptest.Config{Resume: true})
			ctx, cancel := context.WithCancel(t.Context())
			started := filepath.Join(r.Dir, "started")
			go func() {
				for {
					if _, err := os.Stat(started); err == nil || t.Context().Err() != nil {
						cancel()
						return
					}
					<-time.After(time.Millisecond)
				}
			}()
			first := acptest.Do("one")
			first.File = "started"
			if err := r.turn(ctx, acptest.Directive(first, step)); err == nil {
				t.Error("the turn succeeded")
			}
		})
	}
}

// TestACPMissing checks that the error names the command of an agent that is not installed.
func TestACPMissing(t *testing.T) {
	r := newRig(t)
	_, err := worldagent.TurnACP(t.Context(), r.Config, "", []string{"/nowhere/agent"})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/agent") {
		t.Errorf("the error is %v", err)
	}
}
