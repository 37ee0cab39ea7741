package agentrig_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

func newACP(t *testing.T, agent agentrig.ACPAgent) (context.Context, *agentrig.ACP, *fakemodel.Server) {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	model := fakemodel.New()
	url, stop, err := model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	rig, err := agentrig.NewACP(ctx, agentrig.TempDir(t), url, agent)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, rig, model
}

func script(t *testing.T, text string, steps ...any) string {
	t.Helper()
	raw, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	return text + " <<fake " + string(raw) + ">>"
}

func turn(t *testing.T, ctx context.Context, c *acptest.Client, session, text string) string {
	t.Helper()
	turn, err := c.Prompt(session, text)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := turn.Stop(ctx)
	if err != nil || stop.Reason != "end_turn" {
		t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
	return turn.Said()
}

// Every agent opens a session and answers two prompts; an agent with a model runs the
// command that the model requests. The scenarios in e2e/acp begin in the same way, so this
// test is drawn.
func TestACP(t *testing.T) {
	if short(t) || !soak.IsDrawn(t) {
		return
	}
	for _, agent := range agentrig.ACPAgents() {
		t.Run(string(agent), func(t *testing.T) {
			ctx, rig, model := newACP(t, agent)
			c, err := acptest.Start(ctx, rig.Start(ctx), acptest.ClientOptions{Permit: allow})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Initialize(ctx, nil); err != nil {
				t.Fatal(err)
			}
			session, err := c.Open(ctx, "new", "", rig.Project)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(rig.Project, "a.txt")
			first := turn(t, ctx, c, session, script(t, "alpha", rig.Shell("echo hello > '"+file+"'"), "answer one"))
			second := "ok"
			if agent != agentrig.GoExample { // each of its turns takes five seconds
				second = turn(t, ctx, c, session, "and now?")
			}
			if err := c.CloseStdin(); err != nil {
				t.Fatal(err)
			}
			if code, err := c.Wait(ctx); code != 0 || err != nil {
				t.Errorf("exited with %d, %v: %s", code, err, c.Stderr())
			}
			if p := c.Problems(); len(p) > 0 {
				t.Errorf("the agent did what it must not: %q", p)
			}
			if agent == agentrig.GoExample {
				if first == "" {
					t.Error("it said nothing")
				}
				return
			}
			if data, err := os.ReadFile(file); err != nil || string(data) != "hello\n" {
				t.Errorf("the command left %q, %v", data, err)
			}
			if !strings.HasSuffix(first, "answer one") || !strings.HasSuffix(second, "ok") {
				t.Errorf("it said %q and %q", first, second)
			}
			if calls := model.Calls(); len(calls) != 3 || len(calls[2].Results()) != 1 || !calls[2].HasText("alpha") {
				t.Errorf("%d model calls, want 3, the last with one tool result", len(calls))
			}
			if files, err := rig.Transcripts(); err != nil || len(files) != 1 {
				t.Errorf("transcripts %q, %v", files, err)
			}
		})
	}
}

// allow chooses the option that allows one call.
func allow(r acptest.Received) string { return agentrig.Option(r.Params.Of(r.Line), "allow_once") }

func TestACPX(t *testing.T) {
	if short(t) || !soak.IsDrawn(t) {
		return
	}
	ctx, rig, model := newACP(t, agentrig.ClaudeACPNewest)
	cmd, err := rig.ACPX(ctx, strings.Join(rig.Command, " "), "exec", script(t, "alpha", rig.Shell("echo hello > a.txt"), "answer one"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "answer one") {
		t.Errorf("acpx: %v\n%s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(rig.Project, "a.txt")); err != nil || string(data) != "hello\n" {
		t.Errorf("the command left %q, %v", data, err)
	}
	if n := len(model.Calls()); n != 2 {
		t.Errorf("%d model calls, want 2", n)
	}
}
