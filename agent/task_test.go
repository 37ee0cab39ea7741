package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

// helped gives the agent subagents that ask before they send mail.
func (r *rig) helped() *rig {
	return r.asking().with(func(c *agent.Config) {
		c.Subagents = []agent.Subagent{{Name: "helper", Description: "helps"}, {Name: "scout", Description: "looks around", System: "You are a scout."}}
	})
}

func taskApproved(r *rig) {
	all := r.helped().prompt("task helper: " + askMail)
	if last := all[len(all)-1]; last.Kind != agent.EventInterrupted || last.Agent != "" {
		r.Errorf("the run ends with %+v", last)
	}
	q := r.question()
	if q.Via == "" || q.Thread == thread || q.Tool != "send_email" {
		r.Errorf("the agent asks %+v", q)
	}
	r.sent()
	r.finish(approve(q))
	r.sent("bob")
	if res := r.results(thread); len(res) != 1 || !contains(res[0].Text, "send_email") && !contains(res[0].Text, "sent to bob") {
		r.Errorf("the task's result is %+v", res)
	}
	inside := r.results(string(q.Thread))
	if len(inside) != 1 || inside[0].Text != "sent to bob" {
		r.Errorf("inside the subagent: %+v", inside)
	}
}

func taskRejected(r *rig) {
	r.helped().prompt("task helper: " + askMail)
	q := r.question()
	r.finish(reject(q, "not today"))
	r.sent()
	if inside := r.results(string(q.Thread)); len(inside) != 1 || !inside[0].Error || !contains(inside[0].Text, "not today") {
		r.Errorf("the subagent was told %+v", inside)
	}
}

func tasksAtOnce(r *rig) {
	r.helped().prompt(`task helper: call send_email {"to":"a"} ; task scout: call send_email {"to":"b"} ; call send_email {"to":"c"}`)
	open := r.open(thread)
	if len(open) != 3 {
		r.Fatalf("waiting: %+v", open)
	}
	about := map[string]segno.Interrupt{}
	for _, q := range open {
		about[string(q.Args)] = q
	}
	r.restart()
	r.run(agent.Input{Decide: []segno.Decision{approve(about[`{"to":"b"}`])}})
	r.sent("b")
	r.run(agent.Input{Decide: []segno.Decision{approve(about[`{"to":"c"}`])}})
	r.sent("b", "c")
	r.restart()
	r.finish(edit(about[`{"to":"a"}`], `{"to":"A"}`))
	r.sent("A", "b", "c")
}

func taskAfterRestart(r *rig) {
	r.helped().prompt("task helper: write a.txt: one\\n" + `call send_email {"to":"bob"}\nwrite b.txt: two`)
	q := r.question()
	before := len(r.messages(string(q.Thread), ""))
	r.restart()
	r.finish(approve(q))
	r.sent("bob")
	messages := r.messages(string(q.Thread), "")
	prompts := 0
	for _, m := range messages {
		if m.Role == agent.User {
			prompts++
		}
	}
	if prompts != 1 || len(messages) <= before {
		r.Errorf("the subagent has %d prompts and %d messages, before the restart %d", prompts, len(messages), before)
	}
	// The files that the subagent wrote are now the agent's.
	if w, err := r.agent.Status(r.ctx, thread); err != nil || w.Files != 2 {
		r.Errorf("the agent has %d files (%v), want 2", w.Files, err)
	}
}

func TestSubagentEventsCarryItsName(t *testing.T) {
	r := newRig(t).helped()
	all := r.prompt("task scout: write a.txt: hello")
	if e := r.one(all, agent.EventSubStart); e.Text != "write a.txt: hello" {
		t.Errorf("it starts with %+v", e)
	}
	r.one(all, "subagent-finish")
	if n := len(all.of("subagent-step")); n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
	written := r.one(all, tool.EventFileWritten)
	if written.Agent != "scout" || written.Thread == thread {
		t.Errorf("the file was written by %q in %s", written.Agent, written.Thread)
	}
	if done := r.one(all, agent.EventDone); done.Agent != "" || done.Thread != thread {
		t.Errorf("done is told by %q", done.Agent)
	}
}

func TestASubagentsHeadIsAMemberOfTheStep(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().prompt("task helper: say hi ; task scout: say ho\nsay done")
		members := map[segno.CommitID]bool{}
		for _, c := range r.heads(thread) {
			for _, at := range c.Members {
				members[at] = true
			}
		}
		parts := 0
		for p, err := range r.store.Threads(r.ctx, segno.ThreadQuery{ParentThread: thread}) {
			r.ok(err)
			parts++
			head, err := r.store.Head(r.ctx, p.ID)
			r.ok(err)
			if !members[head.Head] {
				r.Errorf("the head of %s, %s, is in no step of the agent", p.ID, p.Name)
			}
		}
		if parts != 2 {
			r.Errorf("%d parts, want 2", parts)
		}
		r.prompt("say more")
		if m := r.heads(thread)[0].Members; len(m) > 0 {
			r.Errorf("a turn without tasks has the members %v", m)
		}
		for p, err := range r.store.Threads(r.ctx, segno.ThreadQuery{TopLevel: true}) {
			r.ok(err)
			if p.ID != thread {
				r.Errorf("%s is listed beside the agent's own thread", p.ID)
			}
		}
	})
}

func TestTasksOfOneStepRunAtOnce(t *testing.T) {
	r := newRig(t)
	other := make(chan struct{})
	meet := agent.NewTool("meet", "waits for the other", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		select {
		case other <- struct{}{}:
		case <-other:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return "met", nil
	})
	r.with(func(c *agent.Config) {
		c.Subagents = []agent.Subagent{{Name: "a", Tools: []agent.Tool{meet}}, {Name: "b", Tools: []agent.Tool{meet}}}
	})
	r.one(r.prompt("task a: call meet {} ; task b: call meet {}"), agent.EventDone)
}

func TestFilesOfSubagentsDoNotOverwriteEachOther(t *testing.T) {
	r := newRig(t).helped()
	r.prompt("write a.txt: mine\nwrite b.txt: mine")
	r.prompt("task helper: write a.txt: the helper's\\nwrite c.txt: new ; task scout: write a.txt: the scout's")
	r.prompt("read a.txt ; read b.txt ; read c.txt")
	res := r.results(thread)
	all := ""
	for _, x := range res[len(res)-3:] {
		all += x.Text + "\n"
	}
	if !contains(all, "mine", "new") {
		t.Errorf("the files are now\n%s", all)
	}
	// One of the two is a.txt; the other is not lost.
	w, err := r.agent.Status(r.ctx, thread)
	r.ok(err)
	if w.Files != 4 {
		t.Errorf("%d files, want a.txt, b.txt, c.txt and what the other made of a.txt", w.Files)
	}
}

func TestASubagentHasItsOwnToolsModelAndSteps(t *testing.T) {
	model := replies(calls("1", "write_file", `{"path":"x","content":"y"}`), calls("2", "nothing", `{}`))
	r := newRig(t).with(func(c *agent.Config) {
		c.Subagents = []agent.Subagent{{Name: "own", System: "be brief", Model: model, Tools: tool.Standard(), MaxSteps: 3}}
	})
	all, err := r.try(agent.Input{Prompt: "task own: go"})
	if err == nil && !r.results(thread)[0].Error {
		t.Errorf("a subagent without an end: %v", all.kinds())
	}
	asked := model.requests()
	if len(asked) != 3 || asked[0].System != "be brief" || len(asked[0].Tools) != len(tool.Standard()) {
		t.Errorf("its model was asked %d times, first with %q and %d tools", len(asked), asked[0].System, len(asked[0].Tools))
	}
}

func TestModelReceivesErrorOfUnknownSubagent(t *testing.T) {
	r := newRig(t).helped()
	r.prompt("task nobody: say hi")
	if res := r.results(thread)[0]; !res.Error || !contains(res.Text, "nobody") {
		t.Errorf("the model was told %+v", res)
	}
}

func TestASubagentsTwoQuestionsAreAnsweredOneByOne(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().with(func(c *agent.Config) {
			c.Subagents[0].Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("done"))
		})
		r.prompt("task helper: go")
		open := r.open(thread)
		if len(open) != 2 || open[0].Thread != open[1].Thread || open[0].ID == open[1].ID {
			r.Fatalf("waiting: %+v", open)
		}
		r.run(decisions(approve(open[1])))
		r.sent("b")
		r.restart()
		if q := r.question(); q.ID != open[0].ID {
			r.Errorf("left is %+v", q)
		}
		r.recorded(approve(open[1]))
		r.finish(approve(open[0]))
		r.sent("a", "b")
	})
}

func TestTaskAndItsCallsAreApprovedSeparately(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().with(func(c *agent.Config) { c.Approve = agent.RequireApproval("task", "send_email") })
		r.prompt("task helper: say nothing")
		first := r.question()
		if first.Tool != "task" || first.Via != "" {
			r.Fatalf("it asks %+v", first)
		}
		r.restart()
		r.run(decisions(edit(first, `{"agent":"helper","prompt":"call send_email {\"to\":\"bob\"}"}`)))
		inside := r.question()
		if inside.Tool != "send_email" || inside.Via != first.Call {
			r.Fatalf("then it asks %+v", inside)
		}
		r.restart()
		r.finish(approve(inside))
		r.sent("bob")
	})
}

func TestAnswerDecidesSubagentQuestions(t *testing.T) {
	r := newRig(t).helped()
	o, err := r.agent.Run(r.ctx, agent.Input{Thread: "other", Prompt: "task helper: " + askMail})
	r.ok(err)
	if len(o.Interrupts) != 1 || o.Text != "" {
		t.Errorf("it came to %+v", o)
	}
	r.with(func(c *agent.Config) {
		c.Answer = func(_ context.Context, open []segno.Interrupt) ([]segno.Decision, error) {
			return []segno.Decision{edit(open[0], `{"to":"eve"}`)}, nil
		}
	})
	r.one(r.prompt("task helper: "+askMail), agent.EventDone)
	r.sent("eve")
}

func TestALateAnswerToASubagentIsRefusedAndTheQuestionAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).helped().with(func(c *agent.Config) {
			c.Approve = func(_ context.Context, call agent.Call) *agent.Approval {
				if call.Name != "send_email" {
					return nil
				}
				return &agent.Approval{Within: time.Hour}
			}
		})
		r.prompt("task helper: " + askMail)
		old := r.question()
		time.Sleep(2 * time.Hour)
		if _, err := r.try(decisions(approve(old))); err == nil {
			t.Fatal("a late answer counts")
		}
		r.sent()
		r.run(agent.Input{})
		fresh := r.question()
		if fresh.ID == old.ID || !fresh.Expires.After(time.Now()) {
			t.Fatalf("asked anew: %+v", fresh)
		}
		r.finish(approve(fresh))
		r.sent("bob")
	})
}

// TestATaskThatWasDoneIsNotDoneAgain has the store fail between the last commit of a subagent
// and that of the agent.
func TestATaskThatWasDoneIsNotDoneAgain(t *testing.T) {
	eachStore(t, func(r *rig) {
		model := replies(calls("1", "send_email", `{"to":"a"}`), says("all sent"))
		r.with(func(c *agent.Config) { c.Subagents = []agent.Subagent{{Name: "own", Model: model}} })
		r.watched(func(_ int, c segno.Commit) error {
			for _, e := range c.Entries {
				if c.Thread == thread && e.Kind == segno.EntryResult {
					return errDisk
				}
			}
			return nil
		}, nil)
		if _, err := r.try(agent.Input{Prompt: "task own: go"}); !errors.Is(err, errDisk) {
			r.Fatalf("the run ends with %v", err)
		}
		r.restart()
		r.finish()
		r.sent("a")
		r.answers("all sent")
		if n := len(model.requests()); n != 2 {
			r.Errorf("its model was asked %d times, want 2", n)
		}
	})
}

// TestModelReceivesPermanentErrorOfTask has a subagent whose task always fails. The agent
// continues without the task.
func TestModelReceivesPermanentErrorOfTask(t *testing.T) {
	broken := &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) {
		return agent.Reply{}, &agent.ModelError{Status: 400, Err: errTooLong}
	}}
	for name, c := range map[string]struct {
		prompt string
		sub    agent.Subagent
		want   string
	}{
		"its model refuses":    {"x", agent.Subagent{Model: broken}, "too long"},
		"it has too few steps": {"x", agent.Subagent{Model: replies(calls("1", "ls", `{}`)), MaxSteps: 2}, "2 steps"},
		"it has nothing to do": {"", agent.Subagent{}, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			c.sub.Name = "w"
			r := newRig(t).with(func(conf *agent.Config) {
				conf.Model = replies(calls("1", "task", `{"agent":"w","prompt":"`+c.prompt+`"}`), says("without it"))
				conf.Subagents = []agent.Subagent{c.sub}
			})
			if done := r.one(r.prompt("go"), agent.EventDone); done.Text != "without it" {
				t.Errorf("it says %q", done.Text)
			}
			if res := r.results(thread)[0]; !res.Error || !strings.Contains(res.Text, c.want) {
				t.Errorf("the model was told %+v", res)
			}
			r.prompt("again")
		})
	}
}

// TestTaskContinuesAfterModelOutage has a subagent's model fail transiently. The run
// ends, and the next one continues in the task.
func TestTaskContinuesAfterModelOutage(t *testing.T) {
	away := true
	model := &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) {
		if away {
			return agent.Reply{}, &agent.ModelError{Status: 401, Err: errBusy}
		}
		return says("done"), nil
	}}
	r := newRig(t).with(func(conf *agent.Config) {
		conf.Model = replies(calls("1", "task", `{"agent":"w","prompt":"x"}`), says("with it"))
		conf.Subagents = []agent.Subagent{{Name: "w", Model: model}}
	})
	if _, err := r.try(agent.Input{Prompt: "go"}); err == nil {
		t.Fatal("it succeeds")
	}
	err := r.refused(agent.Input{Prompt: "over it"}, segno.KindRefused, "not finished")
	if hint := segno.HintOf(err); !strings.Contains(hint, "undo") {
		t.Errorf("the hint is %q", hint)
	}
	away = false
	r.finish()
	r.answers("done")
}

func TestModelReceivesErrorOfResumedTool(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Model = replies(calls("1", "job", `{}`), says("ok"))
		c.Tools = []agent.Tool{agent.NewTool("job", "", agent.LostRetry, func(context.Context, *agent.Invocation, struct{}) (string, error) {
			return "", errBusy
		})}
	})
	r.one(r.prompt("go"), agent.EventDone)
	if res := r.results(thread)[0]; !res.Error || !strings.Contains(res.Text, errBusy.Error()) {
		t.Errorf("the model was told %+v", res)
	}
}

func TestSubagentsHaveNamesAndToolsOfTheirOwn(t *testing.T) {
	twice := []agent.Tool{agent.NewTool("x", "", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) { return "", nil })}
	twice = append(twice, twice[0])
	for want, subs := range map[string][]agent.Subagent{
		"two subagents": {{Name: "a"}, {Name: "a"}},
		"two tools":     {{Name: "a", Tools: twice}},
	} {
		r := newRig(t).with(func(c *agent.Config) { c.Subagents = subs })
		r.refused(agent.Input{Prompt: "go"}, segno.KindInvalid, want)
	}
}

// TestATaskThatIsOverWaitsForNothing renames a subagent while two of its questions are open.
// The task fails, and no question waits for an answer that no run could use.
func TestATaskThatIsOverWaitsForNothing(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Model = replies(calls("1", "task", `{"agent":"w","prompt":"x"}`), says("done"))
		c.Subagents = []agent.Subagent{{Name: "w", Model: replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("sub"))}}
		c.Approve = agent.RequireApproval("send_email")
	})
	r.prompt("go")
	open := r.open(thread)
	r.with(func(c *agent.Config) { c.Subagents[0].Name = "v" })
	r.finish(approve(open[0]))
	if left := r.open(thread); len(left) > 0 {
		t.Errorf("%d questions wait", len(left))
	}
	r.prompt("again")
	r.sent()
}

func TestEditedArgumentsForASubagentsToolMustFit(t *testing.T) {
	r := newRig(t)
	r.with(func(c *agent.Config) {
		c.Model, c.Tools = replies(calls("1", "task", `{"agent":"w","prompt":"x"}`), says("done")), nil
		c.Subagents = []agent.Subagent{{Name: "w", Model: replies(calls("1", "send_email", `{"to":"a"}`), says("sub")), Tools: []agent.Tool{r.mails.tool(agent.LostAsk)}}}
		c.Approve = agent.RequireApproval("send_email")
	})
	r.prompt("go")
	q := r.question()
	r.refused(decisions(edit(q, `{"to":7}`)), segno.KindInvalid, "do not match")
	r.sent()
	r.finish(edit(r.question(), `{"to":"eve"}`))
	r.sent("eve")
}
