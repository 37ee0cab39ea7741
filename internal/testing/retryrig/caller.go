package retryrig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// The reports of a caller, one per line: the task that it begins, a fault, an error, and
// the request to kill the store's server. The answer to that request is a line, too.
const (
	reportTask  = "task"
	reportFault = "fault"
	reportWrong = "wrong"
	reportKill  = "kill-server"
)

// caller stands for the program of a user of package agent.
type caller struct {
	order
	*chance
	ledger ledger
	inMu   sync.Mutex
	in     *bufio.Reader
	cancel context.CancelFunc // ends the run

	outMu sync.Mutex
	out   io.Writer
	made  int // faults
}

// tell writes a report. The report is complete before the fault that it names happens.
func (c *caller) tell(report, text string) {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	if report == reportFault {
		c.made++
	}
	fmt.Fprintln(c.out, report, text)
}

func (c *caller) madeAll() bool {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	return c.made >= c.Faults
}

// killServer asks the examiner to kill the store's server, and waits until the server is
// dead. The examiner then starts it again.
func (c *caller) killServer() error {
	c.inMu.Lock()
	defer c.inMu.Unlock()
	c.tell(reportKill, "")
	_, err := c.in.ReadString('\n')
	return err
}

// work runs tasks, one after the other, until enough faults have happened.
func (c *caller) work(ctx context.Context, open Opener) error {
	c.ledger.file = c.Ledger
	c.chance = &chance{rnd: rand.New(rand.NewPCG(c.Seed+uint64(c.Task), uint64(c.Attempt))), order: c.order, tell: c.tell}
	store, err := open(ctx, c.Where, c.disk)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	for n := c.Task; ; n++ {
		c.tell(reportTask, fmt.Sprint(n))
		c.excuses = n == c.Task && c.Attempt > 0
		if err := c.task(ctx, store, newTask(c.Seed, n)); err != nil {
			return errors.Join(err, store.Close())
		}
		if c.madeAll() {
			return store.Close()
		}
	}
}

// disk decides whether a write to a file of the store fails.
func (c *caller) disk() error {
	const rarer = 12 // a commit has several writes
	if c.number(rarer) == 0 && c.at(diskError) == diskError {
		return syscall.ENOSPC
	}
	return nil
}

// task runs a task. After any error, it passes the same input to the agent again.
func (c *caller) task(ctx context.Context, store Store, x task) error {
	c.one = 40 + c.number(200)
	a := c.agent(store)
	in := agent.Input{Thread: fmt.Sprint("thread ", x.n), Prompt: x.prompt(), Key: "key"}
	const many = 2000
	for n := 1; ; n++ {
		out, err := c.run(ctx, a, in)
		if err == nil && len(out.Interrupts) == 0 {
			break
		}
		if err == nil {
			var decisions []segno.Decision
			if decisions, err = c.answer(ctx, out.Interrupts); err == nil {
				err = a.Decide(ctx, in.Thread, decisions...)
			}
		}
		if n == many {
			return fmt.Errorf("task %d: after %d runs it ends with %w", x.n, n, err)
		}
	}
	c.one = 0
	c.left = 0
	return c.check(ctx, a, in)
}

// agent returns the agent, with or without approvals. A callback answers these at once.
func (c *caller) agent(store Store) *agent.Agent {
	config := agent.Config{Model: model{c, true}, Store: faulty{store, c}, Tools: []agent.Tool{c.tool("pay", agent.LostAsk), c.tool("transfer", agent.LostRetry), c.orderTool()},
		Subagents: []agent.Subagent{{Name: "helper", Description: "helps", Model: model{c, false}}},
		Retry:     agent.Retry{Attempts: 2, Wait: time.Microsecond}, StoreRetry: agent.Retry{Attempts: 4, Wait: time.Microsecond}}
	if c.Restart {
		config.StoreRetry = agent.Retry{Attempts: 12, Wait: time.Millisecond, MaxWait: 100 * time.Millisecond}
	}
	if c.number(2) == 0 {
		config.Approve = agent.RequireApproval("pay", "transfer")
	}
	if c.number(2) == 0 {
		config.Answer = c.answer
	}
	return agent.New(config)
}

// run runs the input once. It returns a panic of the model as an error.
func (c *caller) run(ctx context.Context, a *agent.Agent, in agent.Input) (out agent.Outcome, err error) {
	ctx, c.cancel = context.WithCancel(ctx)
	defer c.cancel()
	if c.at(deadline) == deadline {
		c.excuses = true
		short, cancel := context.WithTimeout(ctx, time.Duration(c.number(20))*time.Millisecond)
		defer cancel()
		ctx = short
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return a.Run(ctx, in)
}

// answer decides as a person would: it gives approvals, and looks in the ledger whether a
// call with a lost result happened.
func (c *caller) answer(_ context.Context, open []segno.Interrupt) (decisions []segno.Decision, err error) {
	for _, i := range open {
		d := segno.Decision{Interrupt: i.ID, Kind: segno.Approve}
		switch i.Reason {
		case segno.ReasonQuestion:
			d.Kind, d.Text = segno.Respond, "pay "+i.Question
		case segno.ReasonUnknown:
			if !c.mayBeUnknown() {
				c.tell(reportWrong, "a person is asked about a call whose result the process holds: "+string(i.Args))
			}
			var b bill
			if err := json.Unmarshal(i.Args, &b); err != nil {
				return nil, err
			}
			paid, err := c.ledger.isPaid(b.Bill)
			if err != nil {
				return nil, err
			}
			if paid {
				d.Kind, d.Text = segno.Respond, "it was paid"
			}
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}

// tool returns a tool with an effect. Its result is reliable: if it fails, it had no
// effect.
func (c *caller) tool(name string, onLost agent.OnLost) agent.Tool {
	return agent.NewTool(name, "pays a bill", onLost, func(_ context.Context, inv *agent.Invocation, b bill) (string, error) {
		return c.pay(inv.Key, b.Bill, onLost == agent.LostRetry)
	})
}

// orderTool returns a tool that asks a person and then pays, as steps of the call.
func (c *caller) orderTool() agent.Tool {
	return agent.NewTool("order", "asks and pays a bill", agent.LostRetry, func(ctx context.Context, inv *agent.Invocation, b bill) (string, error) {
		text, err := agent.Do(ctx, "reserve", func(context.Context) (string, error) { return "pay " + b.Bill, nil })
		if err != nil {
			return "", err
		}
		if a, err := agent.Interrupt(ctx, agent.Ask{Text: b.Bill}); err != nil || a.Text != text {
			return "", fmt.Errorf("the reply to %q is %q %w", b.Bill, a.Text, err)
		}
		paid, err := agent.Do(ctx, "pay", func(context.Context) (string, error) { return c.pay(inv.Key, b.Bill, true) })
		if _, err := agent.Interrupt(ctx, agent.Ask{Text: b.Bill}); err != nil {
			return "", err
		}
		return paid, err
	})
}

// pay pays a bill. If it fails, it had no effect.
func (c *caller) pay(key, bill string, knowsKeys bool) (string, error) {
	f := c.at(toolFails, toolPanics, toolCancelled, killInTool, killAtEffect)
	switch f {
	case toolFails:
		return "", errors.New("the bank is closed")
	case toolPanics:
		panic("a bug of the tool")
	case killInTool:
		die()
	}
	if err := c.ledger.add(key, bill, knowsKeys); err != nil {
		return "", err
	}
	switch f {
	case killAtEffect:
		die()
	case toolCancelled:
		c.cancel()
		return "", context.Canceled
	}
	return "paid " + bill, nil
}

// isOutage reports whether the cause of an error may end without the caller, because the
// server is starting.
func isOutage(err error) bool {
	kind := segno.KindOf(err)
	return err != nil && (kind == segno.KindIO || kind == segno.KindBusy)
}

// check compares the entries of the thread with the calls that the tools recorded.
func (c *caller) check(ctx context.Context, a *agent.Agent, in agent.Input) error {
	s, err := a.Status(ctx, in.Thread)
	for reachable := time.Now().Add(time.Minute); isOutage(err) && time.Now().Before(reachable); { // the server was killed at the last operation
		s, err = a.Status(ctx, in.Thread)
	}
	if err != nil {
		return err
	}
	if s.Phase != agent.PhaseDone || s.Turn != 1 || s.Outcome.Text != "all is paid" {
		c.tell(reportWrong, fmt.Sprintf("the status is %+v", s))
	}
	said, err := a.Messages(ctx, in.Thread, "")
	if err != nil {
		return err
	}
	for i, m := range said {
		if isPrompt := m.Role == agent.User; isPrompt != (i == 0) || isPrompt && m.Text() != in.Prompt {
			c.tell(reportWrong, fmt.Sprintf("message %d is %s's %q", i, m.Role, m.Text()))
		}
	}
	return nil
}
