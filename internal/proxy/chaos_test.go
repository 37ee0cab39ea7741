package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/acp/acptest"
)

// TestChaos runs conversations in which everything goes wrong: one schedule a seed.
// A seed that failed is replayed with SEGNO_CHAOS_SEED; SEGNO_SOAK=1 runs a
// thousand, SEGNO_CHAOS_COUNT another number.
func TestChaos(t *testing.T) {
	first, count := chaosSeeds(t)
	t.Logf("%d schedules", count)
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			runChaos(t, plan(seed))
		})
	}
}

func chaosSeeds(t *testing.T) (first, count uint64) {
	t.Helper()
	first, count = 1, 24
	if os.Getenv("SEGNO_SOAK") != "" {
		count = 1000
	}
	for name, into := range map[string]*uint64{"SEGNO_CHAOS_COUNT": &count, "SEGNO_CHAOS_SEED": &first} {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*into = n
		}
	}
	if os.Getenv("SEGNO_CHAOS_SEED") != "" && os.Getenv("SEGNO_CHAOS_COUNT") == "" {
		count = 1
	}
	return first, count
}

func runChaos(t *testing.T, s schedule) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	c := newChaos(t, ctx, s)
	defer c.end()
	if err := c.run(); err != nil {
		t.Error(err)
	}
	c.judge()
}

// end kills what still runs, and tells what happened if the run failed.
func (c *chaos) end() {
	for _, client := range c.clients {
		client.Kill()
		<-client.Exited()
	}
	for _, pid := range c.alive("agent", "tool") {
		p, err := os.FindProcess(pid)
		if err == nil {
			_ = p.Kill() // it may have ended
		}
	}
	if !c.t.Failed() {
		return
	}
	c.t.Logf("replay with SEGNO_CHAOS_SEED=%d\n%s%s", c.plan.seed, c.plan, strings.Join(c.story, "\n"))
	for i, client := range c.clients {
		c.t.Logf("segno %d said on stderr:\n%s", i, client.Stderr())
	}
}

// judge says what must be true of every schedule.
func (c *chaos) judge() {
	c.nothingTwice()
	c.everyEffectNamed()
	c.everyPromptRecorded()
	for _, client := range c.clients {
		for _, p := range client.Problems() {
			c.t.Errorf("the client was sent %s", p)
		}
		c.oneSession(client)
	}
	c.everyEffectShown()
	if out, err := c.segno("check").CombinedOutput(); err != nil {
		c.t.Errorf("segno check: %v\n%s", err, out)
	}
}

func (c *chaos) nothingTwice() {
	lines, err := acptest.ReadLedger(c.agent.LedgerFile())
	if err != nil {
		c.t.Fatal(err)
	}
	count := map[string]int{}
	for _, line := range lines {
		if count[line]++; count[line] == 2 {
			c.t.Errorf("done twice: %s", line)
		}
	}
	for i, turn := range c.plan.turns {
		for _, s := range turn.steps {
			if s.Tool != "" && count[s.Line] == 0 {
				c.t.Errorf("turn %d: never done: %s", i, s.Line)
			}
		}
	}
}

// everyEffectNamed checks that no model was asked for the next step without being
// told of everything that was done.
func (c *chaos) everyEffectNamed() {
	requests, err := acptest.ReadRequests(c.agent.RequestsFile())
	if err != nil {
		c.t.Fatal(err)
	}
	for i, r := range requests {
		if len(r.Unnamed) > 0 {
			c.t.Errorf("model request %d does not name %v; it says\n%s", i, r.Unnamed, r.Text())
			return
		}
	}
}

// oneSession checks that the client hears of no session but its own.
func (c *chaos) oneSession(client *acptest.Client) {
	requests, err := acptest.ReadRequests(c.agent.RequestsFile())
	if err != nil {
		c.t.Fatal(err)
	}
	others := map[string]bool{}
	for _, r := range requests {
		others[r.Session] = r.Session != c.id
	}
	for _, m := range client.Messages() {
		for id, other := range others {
			if other && strings.Contains(string(m.Line), id) {
				c.t.Errorf("the client was sent the agent's own session id %s: %.300s", id, m.Line)
				return
			}
		}
	}
}

// everyEffectShown checks that the client saw every tool call, unless the process
// that would have shown it was killed.
func (c *chaos) everyEffectShown() {
	lines, err := acptest.ReadLedger(c.agent.LedgerFile())
	if err != nil {
		c.t.Fatal(err)
	}
	var shown strings.Builder
	for _, client := range c.clients {
		for _, m := range client.Messages() {
			if m.Update() == "tool_call" {
				shown.Write(m.Line)
			}
		}
	}
	for _, line := range lines {
		if !c.killed && !strings.Contains(shown.String(), line) {
			c.t.Errorf("the client was never shown the call that appended %s", line)
		}
	}
}

// everyPromptRecorded checks that each accepted prompt is a turn of one thread.
func (c *chaos) everyPromptRecorded() {
	var items []struct {
		Thread, Prompt string
		Turn           int
	}
	if err := c.json(&items, "log", "--json"); err != nil {
		c.t.Error(err)
		return
	}
	recorded := ""
	for _, it := range items {
		recorded += it.Prompt + "\n"
	}
	for _, name := range c.accepted {
		if n := strings.Count(recorded, name+":"); n != 1 {
			c.t.Errorf("%s is %d times in the thread's log:\n%s", name, n, recorded)
		}
	}
}

// json decodes the result of a command.
func (c *chaos) json(v any, args ...string) error {
	out, err := c.segno(args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("segno %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}
