package chaostest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
)

// check checks what holds after every schedule.
func (c *chaos) check() {
	c.everyPromptAnsweredOnce()
	c.everyEffectOnce()
	c.noLeaseKept()
	c.nothingLost()
	c.nothingLeft()
}

// everyPromptAnsweredOnce checks that each thread has its prompts in order, each with one answer.
func (c *chaos) everyPromptAnsweredOnce() {
	reader := agent.New(agent.Config{Store: c.store, Model: clerk{}})
	for _, t := range c.plan.threads {
		var want, got []string
		for _, p := range t.prompts {
			want = append(want, p.text, answerTo(p.name))
		}
		messages, err := reader.Messages(c.ctx, t.id, "")
		if err != nil {
			c.Error(err)
			continue
		}
		for _, m := range messages {
			if m.Role == agent.User || m.Role == agent.Assistant && strings.HasPrefix(m.Text(), "done ") {
				got = append(got, m.Text())
			}
		}
		if !slices.Equal(got, want) {
			c.Errorf("%s has\n%s\nand not\n%s", t.id, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		n := 0
		for p, err := range c.fleets[t.tenant].Prompts(c.ctx, fleet.PromptQuery{Thread: t.id}) {
			if err != nil {
				c.Error(err)
				break
			}
			n++
			if p.State != fleet.StateDone || p.Outcome != answerTo(p.Key) {
				c.Errorf("the prompt is %+v", p)
			}
		}
		if n != len(t.prompts) {
			c.Errorf("%s has %d prompts, of %d", t.id, n, len(t.prompts))
		}
	}
}

// everyEffectOnce checks that each effect happened once. A mail may have been sent again only after the operator said so.
func (c *chaos) everyEffectOnce() {
	for _, t := range c.plan.threads {
		for _, p := range t.prompts {
			_, calls, _ := strings.Cut(p.text, ": ")
			for call := range strings.SplitSeq(calls, "; ") {
				tool, id, _ := strings.Cut(call, " ")
				switch n := len(c.world.charges[id]); {
				case tool == "charge" && n != 1:
					c.Errorf("%s was charged under %d keys", id, n)
				case tool == "mail" && (c.world.mails[id] < 1 || c.world.mails[id] > 1+c.approved[id]):
					c.Errorf("mail %s was sent %d times, and the operator said %d times that it was not sent", id, c.world.mails[id], c.approved[id])
				}
			}
		}
	}
}

// noLeaseKept checks that the leases end. A worker that was killed keeps one for the time of its lease.
func (c *chaos) noLeaseKept() {
	for _, t := range c.plan.threads {
		l, err := c.store.(segno.Leaser).LeaseOf(c.ctx, segno.ThreadID(t.id))
		if rest := time.Until(l.Expires); err != nil || l.Owner != "" && rest > leaseTime {
			c.Errorf("%s has the lease %+v for %v, %v", t.id, l, rest, err)
		}
	}
}

// nothingLost reads all threads with all their entries.
func (c *chaos) nothingLost() {
	threads := 0
	for t, err := range c.store.Threads(c.ctx, segno.ThreadQuery{}) {
		if err != nil {
			c.Error(err)
			break
		}
		threads++
		head, err := c.store.Head(c.ctx, t.ID)
		if err == nil {
			_, err = c.store.Load(c.ctx, head.Head, segno.Window{Entries: true})
		}
		if err != nil {
			c.Error(err)
		}
		for _, err := range agent.New(agent.Config{Store: c.store, Model: clerk{}}).Events(c.ctx, string(t.ID), 0) {
			if err != nil {
				c.Error(err)
			}
		}
	}
	if threads != len(c.plan.threads) {
		c.Errorf("the store has %d threads, of %d", threads, len(c.plan.threads))
	}
}

// nothingLeft checks that no connection of a worker is left.
func (c *chaos) nothingLeft() {
	c.retry(func() error { // the server ends the session of a killed process when it notices
		var n int
		err := c.pool.QueryRow(c.ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", c.schema).Scan(&n)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d connections are open", n)
		}
		return err
	})
}
