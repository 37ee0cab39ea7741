package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
)

// program is the arguments of a tool that makes steps and waits in this order.
type program struct {
	ID  string   `json:"id"`
	Ops []string `json:"ops"`
}

// result returns what the tool returns if every wait gets its reply.
func (p program) result() string {
	var all []string
	for n, op := range p.Ops {
		switch op {
		case "do", "ask", "await":
			all = append(all, fmt.Sprint(op, " ", p.ID, n))
		case "fail":
			all = append(all, "no luck")
		}
	}
	return p.ID + ": " + strings.Join(all, ", ")
}

// waitWorld runs random programs of waits, kills their runs, and knows what they must do.
type waitWorld struct {
	*rig
	rt     *rapid.T
	clock  *clock
	life   *life
	onLost agent.OnLost
	killed int // runs that were killed

	mu       sync.Mutex
	effects  map[string]int // how often the function of a step ran
	returned map[string]bool
	since    map[string]time.Time // when a sleep began
	again    int                  // lost calls that a person allowed again
	signals  []string             // that no wait has received for sure
}

// TestAnyProgramOfWaits runs random programs inside tools: steps, sleeps, questions, signals and changes of
// the state, in parallel calls and in subagents. Runs are killed before or after any commit, machines
// change, and replies come in any order, before and after the program waits for them. The result
// is that of a run without waits; a step whose result is recorded does not run again; and a step runs
// twice only if a kill lost its result, and under LostAsk only if a person allowed it.
func TestAnyProgramOfWaits(t *testing.T) {
	soak.Rapid(t, 12, 3000)
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		r.TB = rt
		if rapid.IntRange(0, 3).Draw(rt, "store") == 0 {
			keys, err := kv.Open(t.Context(), kvtest.NewMap(nil), kv.Options{})
			r.ok(err)
			r.store = keys
		}
		w := &waitWorld{rig: r, rt: rt, clock: newClock(), life: &life{}, effects: map[string]int{}, returned: map[string]bool{}, since: map[string]time.Time{},
			onLost: rapid.SampledFrom([]agent.OnLost{agent.LostAsk, agent.LostRetry, agent.LostRerun}).Draw(rt, "on lost")}
		w.watched(w.life.before, w.life.made)
		w.with(func(c *agent.Config) {
			c.Now, c.StoreRetry = w.clock.Now, agent.Retry{Attempts: 2, Wait: time.Microsecond}
			c.Tools = append(c.Tools, agent.NewTool("program", "waits", w.onLost, w.program))
			c.Subagents = []agent.Subagent{{Name: "helper"}}
		})
		w.live()
	})
}

// program runs a program.
func (w *waitWorld) program(ctx context.Context, inv *agent.Invocation, p program) (string, error) {
	count := func(key string) error {
		return inv.State.Update(key+p.ID, func(old json.RawMessage) (any, error) { return len(old), nil }) // changes with each call
	}
	var all []string
	for n, op := range p.Ops {
		name := fmt.Sprint(p.ID, n)
		switch op {
		case "do":
			text, err := agent.Do(ctx, name, func(context.Context) (string, error) {
				w.effect(name)
				return op + " " + name, count("inside")
			})
			if err != nil {
				return "", err
			}
			w.returns(name)
			all = append(all, text)
		case "fail":
			_, err := agent.Do(ctx, name, func(context.Context) (string, error) {
				w.effect(name)
				return "", errors.New("no luck")
			})
			var failed *agent.StepError
			if !errors.As(err, &failed) {
				return "", fmt.Errorf("the step fails with %w", err)
			}
			w.returns(name)
			all = append(all, err.Error())
		case "sleep":
			begin := w.begins(name)
			agent.Sleep(ctx, time.Hour)
			if now := w.clock.Now(); now.Before(begin.Add(time.Hour)) {
				return "", fmt.Errorf("it slept from %s to %s", begin, now)
			}
		case "ask":
			a, err := agent.Interrupt(ctx, agent.Ask{Text: name})
			if err != nil {
				return "", err
			}
			all = append(all, a.Text)
		case "await":
			a, err := agent.Await(ctx, name)
			var text string
			if err := errors.Join(err, a.Decode(&text)); err != nil {
				return "", err
			}
			all = append(all, text)
		case "state":
			if err := count("outside"); err != nil {
				return "", err
			}
		}
	}
	return p.ID + ": " + strings.Join(all, ", "), nil
}

func (w *waitWorld) effect(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.returned[name] {
		w.effects[name] += 1000 // its result was recorded
	}
	w.effects[name]++
}

func (w *waitWorld) returns(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returned[name] = true
}

// begins returns the time when a program first reached a sleep.
func (w *waitWorld) begins(name string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since[name].IsZero() {
		w.since[name] = w.clock.Now()
	}
	return w.since[name]
}

// live runs a turn of random programs to its end and checks it.
func (w *waitWorld) live() {
	var programs []program
	var lines []string
	for n := range rapid.IntRange(1, 3).Draw(w.rt, "programs") {
		p := program{string(rune('a' + n)), rapid.SliceOfN(rapid.SampledFrom([]string{"do", "do", "fail", "sleep", "ask", "await", "state"}), 1, 6).Draw(w.rt, "program")}
		for i, op := range p.Ops {
			if op == "await" {
				w.signals = append(w.signals, fmt.Sprint(p.ID, i))
			}
		}
		args, err := json.Marshal(p)
		w.ok(err)
		line := "call program " + string(args)
		if rapid.IntRange(0, 3).Draw(w.rt, "in a task") == 0 {
			line = "task helper: " + line
		}
		programs, lines = append(programs, p), append(lines, line)
	}
	prompt := strings.Join(lines, rapid.SampledFrom([]string{"\n", " ; "}).Draw(w.rt, "steps"))
	for round := 0; !w.round(prompt, round); round++ {
		if round > 300 {
			w.rt.Fatalf("the turn does not end: %+v", w.open(thread))
		}
	}
	w.judge(programs)
}

// round changes something, runs the thread, and reports whether the turn has ended.
func (w *waitWorld) round(prompt string, round int) bool {
	in := agent.Input{Thread: thread, Prompt: prompt, Key: "go"}
	w.life.begin(0, false)
	if status, err := w.agent.Status(w.ctx, thread); err == nil {
		w.reply(&in, status.Interrupts)
		w.signal()
	}
	if rapid.Bool().Draw(w.rt, "time passes") {
		w.clock.advance(time.Duration(rapid.IntRange(1, 120).Draw(w.rt, "minutes")) * time.Minute)
	}
	if round < 40 && rapid.IntRange(0, 2).Draw(w.rt, "is killed") == 0 {
		w.life.begin(rapid.IntRange(1, 8).Draw(w.rt, "at commit"), rapid.Bool().Draw(w.rt, "after it"))
	}
	out, err := w.agent.Run(w.ctx, in)
	dead := w.life.over()
	w.life.begin(0, false)
	if dead {
		w.killed++
		w.with(func(*agent.Config) {}) // another process
		return false
	}
	w.ok(err)
	if rapid.Bool().Draw(w.rt, "another machine") {
		w.with(func(*agent.Config) {})
	}
	return len(out.Interrupts) == 0
}

// reply answers some of the open questions.
func (w *waitWorld) reply(in *agent.Input, open []segno.Interrupt) {
	for _, i := range open {
		if !i.Reason.IsQuestion() || !rapid.Bool().Draw(w.rt, "answer") {
			continue
		}
		d := respond(i, "ask "+i.Question)
		if i.Reason == segno.ReasonUnknown {
			d = approve(i)
			w.again++
		}
		if rapid.Bool().Draw(w.rt, "with the run") {
			in.Decide = append(in.Decide, d)
			continue
		}
		w.ok(w.agent.Decide(w.ctx, thread, d))
	}
}

// signal sends some of the signals, perhaps again.
func (w *waitWorld) signal() {
	for _, name := range slices.Clone(w.signals) {
		if rapid.IntRange(0, 2).Draw(w.rt, "signal") == 0 {
			w.ok(w.agent.Signal(w.ctx, thread, name, "key "+name, "await "+name))
		}
	}
}

// judge checks the results and the effects of programs that have ended.
func (w *waitWorld) judge(programs []program) {
	var got []string
	for _, x := range w.results(thread) {
		got = append(got, strings.TrimPrefix(x.Text, "program: "))
	}
	slices.Sort(got)
	var want []string
	for _, p := range programs {
		want = append(want, p.result())
	}
	if !slices.Equal(got, want) {
		w.rt.Errorf("the results are %q, want %q", got, want)
	}
	most := 1 + w.killed + w.again // a retry that fails is asked about
	if w.onLost == agent.LostAsk {
		most = 1 + min(w.killed, w.again)
	}
	for name, n := range w.effects {
		if n > most {
			w.rt.Errorf("the step %s ran %d times, after %d kills and %d permissions to run again", name, n, w.killed, w.again)
		}
	}
	snapshot, err := w.agent.Saver().Load(w.ctx, saver.ThreadKey{Thread: thread})
	w.ok(err)
	for key := range snapshot.State {
		if strings.HasPrefix(key, ".steps/") {
			w.rt.Errorf("the turn has ended, and the state has %s", key)
		}
	}
}
