package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestChaos runs conversations with every kind of fault, with one schedule for each seed.
func TestChaos(t *testing.T) {
	schedules := 6
	if testing.Short() {
		schedules = 2
	}
	for _, seed := range soak.Seeds(t, schedules, 1000) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			runChaos(t, planned(seed))
		})
	}
}

func runChaos(t *testing.T, s schedule) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	c := newChaos(t, ctx, s)
	defer c.cleanUp()
	if err := c.run(); err != nil {
		t.Error(err)
		return
	}
	c.check()
}

// cleanUp kills the processes that still run, and logs the events if the run failed.
func (c *chaos) cleanUp() {
	for _, client := range c.clients {
		client.Kill()
		<-client.Exited()
	}
	for _, pid := range c.alive("agent", "tool") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	if !c.t.Failed() {
		return
	}
	c.t.Logf("repeat it with SEGNO_COUNT=1 SEGNO_SEED=%d\n%s%s", c.plan.seed, c.plan, strings.Join(c.story, "\n"))
	for i, r := range c.requests() {
		c.t.Logf("request %d: process %d, session %.8s, said %d, prompt %.100q", i, r.Process, r.Session, len(r.Said), r.Prompt())
	}
	if out, err := c.segno("threads", "--all", "--json").CombinedOutput(); err == nil {
		c.t.Logf("threads: %s", out)
	}
	for i, client := range c.clients {
		c.t.Logf("segno %d said on stderr:\n%s", i, client.Stderr())
	}
}

// check checks the conditions that every schedule must satisfy.
func (c *chaos) check() {
	c.nothingTwice()
	c.everyEffectNamed()
	c.everyChoiceKept()
	c.everyPromptRecorded()
	for _, client := range c.clients {
		for _, p := range client.Problems() {
			if c.killed && strings.HasPrefix(p, "Parse error") {
				continue // segno was killed while it wrote the line
			}
			c.t.Errorf("the client was sent %s", p)
		}
		c.ownSessionsOnly(client)
	}
	c.everyEffectShown()
	if out, err := c.segno("check").CombinedOutput(); err != nil {
		c.t.Errorf("segno check: %v\n%s", err, out)
	}
}

func (c *chaos) nothingTwice() {
	count := map[string]int{}
	for _, line := range c.ledger() {
		if count[line]++; count[line] == 2 {
			c.t.Errorf("done twice: %s", line)
		}
	}
	planned := slices.Concat(slices.Concat(c.plan.talks, c.plan.forks[:len(c.talks)-len(c.plan.talks)])...)
	for _, turn := range planned {
		for _, s := range turn.steps {
			if s.Tool != "" && (count[s.Line] == 0) != strings.Contains(s.Line, refused) {
				c.t.Errorf("done %d times: %s", count[s.Line], s.Line)
			}
		}
	}
}

// everyEffectNamed checks that each request to a model names all effects of its conversation,
// except those that were undone.
func (c *chaos) everyEffectNamed() {
	for i, r := range c.requests() {
		k := c.talkOf(r)
		if k == nil {
			c.t.Errorf("model request %d is of no conversation:\n%s", i, r.Text())
			return
		}
		theirs := slices.DeleteFunc(slices.Clone(r.Unnamed), func(line string) bool { return !k.mine(line) })
		if len(theirs) > 0 {
			c.t.Errorf("model request %d does not name %v; it says\n%s", i, theirs, r.Text())
			return
		}
		for n, name := range k.undone {
			if i >= k.since[n] && strings.Contains(r.Text(), name+":") {
				c.t.Errorf("model request %d tells of %s, which was undone before; it says\n%s", i, name, r.Text())
				return
			}
		}
	}
}

// talkOf returns the conversation of a request, by the prompts that the request contains.
func (c *chaos) talkOf(r acptest.Request) *talk {
	for _, k := range slices.Backward(c.talks) { // a fork has its source's prompts, too
		for _, kind := range []string{"prompt-", "go-on-", "last-", "intruder-", "edit-"} {
			if strings.Contains(r.Text(), kind+k.name+"-") {
				return k
			}
		}
	}
	return nil
}

// everyChoiceKept checks that the agent had the mode that the client chose in every turn.
func (c *chaos) everyChoiceKept() {
	for i, r := range c.requests() {
		if i >= c.foreign && c.plan.plan && !strings.Contains(r.Settings, `mode="plan"`) {
			c.t.Errorf("model request %d is made with the settings %q", i, r.Settings)
			return
		}
	}
}

// ownSessionsOnly checks that a client receives only updates of its own sessions.
func (c *chaos) ownSessionsOnly(client *acptest.Client) {
	others := map[string]bool{}
	for _, r := range c.requests() {
		others[r.Session] = true
	}
	for _, k := range c.talks {
		delete(others, k.id)
	}
	for _, m := range client.Messages() {
		for id := range others {
			if strings.Contains(string(m.Line), id) {
				c.t.Errorf("the client was sent the agent's own session id %s: %.300s", id, m.Line)
				return
			}
		}
	}
}

// everyEffectShown checks that the client received every tool call, unless the process that
// would have sent it was killed.
func (c *chaos) everyEffectShown() {
	var shown strings.Builder
	for _, client := range c.clients {
		for _, m := range client.Messages() {
			if m.Update() == "tool_call" {
				shown.Write(m.Line)
			}
		}
	}
	for _, line := range c.ledger() {
		if !c.killed && !strings.Contains(line, "-before") && !strings.Contains(shown.String(), line) {
			c.t.Errorf("the client was never shown the call that appended %s", line)
		}
	}
}

// item is a checkpoint in a log.
type item struct {
	ID, Thread, Prompt string
	Turn               int
}

// logs returns all checkpoints.
func (c *chaos) logs() ([]item, error) {
	all := map[string]item{} // a fork's log begins with its source's
	for _, k := range c.talks {
		var threads []struct{ ID string }
		if err := c.json(&threads, "-C", k.cwd, "threads", "--all", "--json"); err != nil {
			return nil, err
		}
		for _, thread := range threads {
			var items []item
			if err := c.json(&items, "-C", k.cwd, "--thread", thread.ID, "log", "--json"); err != nil {
				return nil, err
			}
			for _, it := range items {
				all[it.ID] = it
			}
		}
	}
	return slices.Collect(maps.Values(all)), nil
}

// everyPromptRecorded checks that each accepted prompt, even an undone one, is one turn of
// its conversation's thread.
func (c *chaos) everyPromptRecorded() {
	items, err := c.logs()
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, k := range c.talks {
		threads := map[string]bool{}
		for _, name := range slices.Concat(k.accepted, k.undone) {
			n := 0
			for _, it := range items {
				if strings.Contains(it.Prompt, name+":") {
					threads[it.Thread] = true
					n++
				}
			}
			if n != 1 {
				c.t.Errorf("%s is %d times in the log: %v", name, n, items)
			}
		}
		if len(threads) > 1 {
			c.t.Errorf("conversation %s is recorded in %d threads: %v", k.name, len(threads), items)
		}
	}
}

// json runs a command and decodes its result.
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
