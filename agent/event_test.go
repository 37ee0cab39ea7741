package agent_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

// eventful is a prompt that causes most kinds of event.
const eventful = "think hm\nsay hello ; write a.txt: one ; todo x\nread a.txt ; ls ; glob * ; grep one\n" +
	`edit a.txt: one -> two ; task helper: write b.txt: three` + "\n" + `call send_email {"to":"bob"}` + "\nsay done"

// replayed returns the events that the thread yields again.
func (r *rig) replayed(id string, since int64) (all eventList) {
	r.Helper()
	for e, err := range r.agent.Events(r.ctx, id, since) {
		r.ok(err)
		all = append(all, e)
	}
	return all
}

// own returns the events of the thread itself, without those of its subagents.
func (all eventList) own() (some eventList) {
	for _, e := range all {
		if e.Agent == "" {
			some = append(some, e)
		}
	}
	return some
}

func TestDurableEventsAreNumbered(t *testing.T) {
	live := map[agent.EventKind]bool{agent.EventLoaded: true, "step-start": true, agent.EventText: true, agent.EventThinking: true,
		agent.EventRetry: true, agent.EventToolStart: true, "file-write-start": true, "execute-start": true, agent.EventSubStart: true,
		"subagent-step": true, agent.EventInterrupted: true, agent.EventError: true}
	eachStore(t, func(r *rig) {
		r.helped()
		all := append(r.prompt(eventful), r.finish(approve(r.question()))...)
		seen := map[agent.EventKind]bool{}
		for _, e := range all {
			seen[e.Kind] = true
			if (e.Seq == 0) != live[e.Kind] {
				r.Errorf("%s has the number %d", e.Kind, e.Seq)
			}
			if e.Thread == "" || e.Time.IsZero() {
				r.Errorf("%s is told of thread %q at %s", e.Kind, e.Thread, e.Time)
			}
		}
		for _, kind := range []agent.EventKind{agent.EventLoaded, agent.EventUserMessage, "step-start", agent.EventText, agent.EventThinking,
			agent.EventSegment, agent.EventToolCall, agent.EventToolStart, agent.EventToolResult, agent.EventStepFinish, agent.EventSaved,
			agent.EventApproval, agent.EventDecision, agent.EventTodos, "file-write-start", tool.EventFileWritten, tool.EventFileEdited,
			"file-read", "ls", "glob", "grep", agent.EventSubStart, "subagent-step", "subagent-finish",
			agent.EventInterrupted, agent.EventDone} {
			if !seen[kind] {
				r.Errorf("no %s among %v", kind, all.kinds())
			}
		}
	})
}

func TestEventsAreReplayedUnchanged(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped()
		live := append(r.prompt(eventful), r.finish(approve(r.question()))...).own().numbered()
		r.restart()
		live = append(live, r.prompt("write c.txt: four").numbered()...)
		again := r.replayed(thread, 0)
		if len(again) != len(live) {
			r.Fatalf("told %v, and again %v", live.kinds(), again.kinds())
		}
		for i := range live {
			if a, b := encode(r, live[i]), encode(r, again[i]); a != b {
				r.Errorf("event %d was told as %s, and again as %s", i, a, b)
			}
		}
		for i := range live {
			if rest := r.replayed(thread, live[i].Seq); len(rest) != len(live)-i-1 || len(rest) > 0 && rest[0].Seq != live[i+1].Seq {
				r.Fatalf("since %d (event %d of %d) there are %d", live[i].Seq, i+1, len(live), len(rest))
			}
		}
		if rest := r.replayed(thread, live[len(live)-1].Seq+1_000_000); len(rest) > 0 {
			r.Errorf("from the future: %v", rest.kinds())
		}
	})
}

func TestASubagentsEventsComeAgainFromItsThread(t *testing.T) {
	r := newRig(t).helped()
	all := r.prompt("task scout: write a.txt: hello")
	var live eventList
	for _, e := range all.numbered() {
		if e.Agent == "scout" {
			live = append(live, e)
		}
	}
	again := r.replayed(string(live[0].Thread), 0)
	if len(again) < len(live) {
		t.Fatalf("told %v, and again %v", live.kinds(), again.kinds())
	}
	for i := range live {
		if a, b := encode(r, live[i]), encode(r, again[i]); a != b {
			t.Errorf("event %d was told as %s, and again as %s", i, a, b)
		}
	}
}

func TestEventNumbersIncreaseAcrossLines(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking()
		var newest int64
		grows := func(what string, all eventList) {
			r.Helper()
			for _, e := range all.numbered() {
				if e.Seq <= newest {
					r.Errorf("%s: %s has the number %d after %d", what, e.Kind, e.Seq, newest)
				}
				newest = e.Seq
			}
		}
		grows("a turn", r.prompt("write a.txt: one"))
		grows("a question", r.prompt(askMail))
		at := r.heads(thread)[0].ID
		grows("its answer", r.finish(approve(r.question())))
		_, err := r.agent.Undo(r.ctx, thread, 1)
		r.ok(err)
		grows("after undo", r.prompt("write b.txt: two"))
		_, err = r.agent.Restore(r.ctx, thread, at)
		r.ok(err)
		grows("after restore", r.run(agent.Input{}))
		grows("the answer there", r.finish(approve(r.question())))
		var last int64
		for _, e := range r.replayed(thread, 0) {
			if e.Seq <= last {
				r.Errorf("told again: %d after %d", e.Seq, last)
			}
			last = e.Seq
			if e.Call != nil && contains(string(e.Call.Args), "two") {
				r.Error("a line that was left is told again")
			}
		}
		if last != newest {
			r.Errorf("the newest is %d, told again %d", newest, last)
		}
	})
}

func TestEventsAreDurableBeforeTheyAreYielded(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped()
		var durable sync.Map // of commits
		seqs := map[segno.ThreadID]int64{}
		g := r.watched(nil, func(_ int, c segno.Commit) error {
			durable.Store(c.ID, true)
			return nil
		})
		check := func(e agent.Event) {
			if e.Seq == 0 {
				return
			}
			if e.Kind == agent.EventSaved {
				if _, ok := durable.Load(e.Saved); !ok {
					r.Errorf("%s is told before the commit", e.Saved)
				}
				if _, err := g.lessor.Load(r.ctx, e.Saved, segno.Window{Last: 1}); err != nil {
					r.Errorf("%s is told and the store says %v", e.Saved, err)
				}
			}
			if seqs[e.Thread] >= e.Seq {
				r.Errorf("%s: %d comes after %d", e.Thread, e.Seq, seqs[e.Thread])
			}
			seqs[e.Thread] = e.Seq
			for x, err := range agent.New(r.config).Events(r.ctx, string(e.Thread), e.Seq-1) {
				if err != nil || x.Seq != e.Seq || x.Kind != e.Kind {
					r.Errorf("%s %d is told, and the store has %s %d, %v", e.Kind, e.Seq, x.Kind, x.Seq, err)
				}
				break
			}
		}
		for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: eventful}) {
			r.ok(err)
			check(e)
		}
		for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Decide: []segno.Decision{approve(r.question())}}) {
			r.ok(err)
			check(e)
		}
	})
}

func TestUnsavedStepYieldsNoEvents(t *testing.T) {
	whole := newRig(t)
	g := whole.watched(nil, nil)
	whole.prompt("write a.txt: one\n" + askMail + "\nwrite b.txt: two")
	for n := 1; n <= g.n; n++ {
		t.Run(fmt.Sprint("commit ", n, " of ", g.n), func(t *testing.T) {
			r := newRig(t)
			g := r.watched(func(i int, c segno.Commit) error {
				if i >= n {
					return errDisk
				}
				return nil
			}, nil)
			all, err := r.try(agent.Input{Prompt: "write a.txt: one\n" + askMail + "\nwrite b.txt: two"})
			if !errors.Is(err, errDisk) || segno.KindOf(err) != segno.KindIO {
				t.Errorf("the run ends with %v", err)
			}
			if last := all[len(all)-1]; last.Kind != agent.EventError {
				t.Errorf("the last event is %s", last.Kind)
			}
			g.before = nil
			if n == 1 {
				if len(all.numbered()) > 0 {
					t.Errorf("told without a thread: %v", all.numbered().kinds())
				}
				return
			}
			stored := r.replayed(thread, 0)
			if received := all.numbered(); len(received) != len(stored) || len(received) > 0 && !reflect.DeepEqual(received.kinds(), stored.kinds()) {
				t.Errorf("told %v, stored %v", received.kinds(), stored.kinds())
			}
		})
	}
}

// leaving is a prompt with most kinds of commands, but no subagent.
const leaving = "say hello ; write a.txt: one\n" + askMail + " ; todo x\nread a.txt"

func TestBreakAtAnyEventLosesAtMostOneStep(t *testing.T) {
	whole := newRig(t)
	n := len(whole.prompt(leaving))
	want := outline(whole.messages(thread, ""))
	for i := range n {
		t.Run(fmt.Sprint("event ", i+1, " of ", n), func(t *testing.T) {
			r := newRig(t)
			seen := 0
			for _, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: leaving}) {
				r.ok(err)
				if seen++; seen > i {
					break
				}
			}
			r.restart()
			w, err := r.agent.Status(r.ctx, thread)
			r.ok(err)
			switch {
			case w.Turn == 0:
				r.prompt(leaving)
			case !isOver(r):
				r.finish()
			}
			r.sent("bob")
			if got := outline(r.messages(thread, "")); !reflect.DeepEqual(got, want) {
				t.Errorf("the thread is\n%q\nwant\n%q", got, want)
			}
		})
	}
}

// outline returns the messages without ids and times.
func outline(messages []agent.Message) (lines []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				lines = append(lines, "call "+p.Call.Name+string(p.Call.Args))
			case p.Result != nil:
				lines = append(lines, "result "+p.Result.Text)
			default:
				lines = append(lines, string(m.Role)+" "+p.Text)
			}
		}
	}
	return lines
}

func TestBreakEndsRun(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	slow := agent.NewTool("slow", "waits", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	})
	r := newRig(t).with(func(c *agent.Config) { c.Tools = []agent.Tool{slow} })
	for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: "call slow {}"}) {
		r.ok(err)
		if e.Kind == agent.EventToolStart {
			<-began
			break
		}
	}
	select {
	case <-ended:
	default:
		t.Error("the tool still runs")
	}
	// The thread is free immediately.
	_, err := r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
}

func TestForkYieldsItsBase(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	at := r.heads(thread)[0].ID
	_, err := r.agent.Fork(r.ctx, at, "fork")
	r.ok(err)
	r.run(agent.Input{Thread: "fork", Prompt: "say two"})
	again := r.replayed("fork", 0)
	if e := r.one(again, "fork"); e.Saved != at || e.Seq == 0 {
		t.Errorf("the fork is told as %+v", e)
	}
	for _, e := range again {
		if e.Thread != "fork" {
			t.Errorf("%s %d is of thread %s", e.Kind, e.Seq, e.Thread)
		}
	}
}

func TestAToolMayTellAsMuchAsItLikes(t *testing.T) {
	const many = 10_050
	chatty := agent.NewTool("chatty", "tells a lot", agent.LostRerun, func(_ context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
		for i := range many {
			inv.Emit(agent.Event{Kind: "file-read", Path: "a", Count: i})
		}
		return "told", nil
	})
	r := newRig(t).with(func(c *agent.Config) { c.Tools = append(c.Tools, chatty) })
	all := r.prompt("call chatty {}").numbered()
	if n := len(all.of("file-read")); n != many {
		t.Errorf("%d are told, want %d", n, many)
	}
	var last int64
	for _, e := range all {
		if e.Seq <= last {
			t.Fatalf("%s has the number %d after %d", e.Kind, e.Seq, last)
		}
		last = e.Seq
	}
	middle := all[len(all)/2].Seq
	if again := r.replayed(thread, middle); len(again) != len(all)-len(all)/2-1 {
		t.Errorf("since %d there are %d, want %d", middle, len(again), len(all)-len(all)/2-1)
	}
}

func TestNewEventsAreReadFromTheEndOfALongThread(t *testing.T) {
	r := newRig(t)
	var all eventList
	for i := range 60 {
		all = append(all, r.prompt(fmt.Sprint("write a.txt: ", i)).numbered()...)
	}
	for _, back := range []int{0, 1, 30, 100, 200, len(all) - 1} {
		at := len(all) - 1 - back
		rest := r.replayed(thread, all[at].Seq)
		if len(rest) != back || back > 0 && (rest[0].Seq != all[at+1].Seq || rest[back-1].Seq != all[len(all)-1].Seq) {
			t.Errorf("%d from the end: %d events", back, len(rest))
		}
	}
}
