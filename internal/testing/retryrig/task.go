package retryrig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno/agent"
)

// task is the input of a caller: steps of calls. A call is the name of a tool and a bill to
// pay with it, such as "pay 3/1.2". If it begins with "task ", a subagent makes it.
type task struct {
	n     int
	steps [][]string
}

const byTask = "task "

// newTask returns the n-th task of a seed.
func newTask(seed uint64, n int) task {
	rnd := rand.New(rand.NewPCG(seed, uint64(n)))
	x := task{n: n}
	for i := range 1 + rnd.IntN(4) {
		var calls []string
		for j := range 1 + rnd.IntN(3) {
			call := fmt.Sprintf("%s %d/%d.%d", [...]string{"pay", "transfer", "order"}[rnd.IntN(3)], n, i, j)
			if rnd.IntN(6) == 0 {
				call = byTask + call
			}
			calls = append(calls, call)
		}
		x.steps = append(x.steps, calls)
	}
	return x
}

// prompt is the task in the form that [model] parses.
func (x task) prompt() string {
	var lines []string
	for _, calls := range x.steps {
		lines = append(lines, strings.Join(calls, "; "))
	}
	return strings.Join(lines, "\n")
}

// bills returns the bills that the task pays, sorted.
func (x task) bills() (all []string) {
	for _, calls := range x.steps {
		for _, call := range calls {
			all = append(all, call[strings.LastIndex(call, " ")+1:])
		}
	}
	slices.Sort(all)
	return all
}

// bill has the arguments of the tools.
type bill struct {
	Bill string `json:"bill"`
}

// model is a model that makes the calls of a prompt, a step at a time, and repeats a call that
// failed. A subagent's model has only faults from which the agent can recover without the
// caller.
type model struct {
	*caller
	isTop bool // it belongs to the caller's agent, not to a subagent
}

func (model) Name() string { return "test/task" }

// Generate implements [agent.Model].
func (m model) Generate(ctx context.Context, q agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		kinds := []fault{modelRetry, modelBroken, modelTruncated}
		if m.isTop {
			kinds = append(kinds, modelArgs, modelHangs, modelFails, modelPanics)
		}
		reply := m.reply(q)
		switch m.at(kinds...) {
		case modelRetry:
			yield(agent.Chunk{}, &agent.ModelError{Retry: true, Status: 529, Err: errors.New("it is overloaded")})
			return
		case modelBroken:
			if yield(agent.Chunk{Text: "I am go"}, nil) {
				yield(agent.Chunk{}, &agent.ModelError{Retry: true, Err: errors.New("the server was silent for too long")})
			}
			return
		case modelTruncated:
			yield(agent.Chunk{Text: "I am go"}, nil)
			return
		case modelFails:
			yield(agent.Chunk{}, &agent.ModelError{Status: 500, Err: errors.New("it does not work")})
			return
		case modelHangs:
			m.cancel()
			<-ctx.Done()
			yield(agent.Chunk{}, ctx.Err())
			return
		case modelPanics:
			panic("a bug of the model's adapter")
		case modelArgs:
			for _, p := range reply.Message.Parts {
				if p.Call != nil {
					p.Call.Args = p.Call.Args[:len(p.Call.Args)/2]
				}
			}
		}
		yield(agent.Chunk{Reply: &reply}, nil)
	}
}

// reply returns the missing calls of the first step that is not done.
func (m model) reply(q agent.Request) (r agent.Reply) {
	r.Message.Role = agent.Assistant
	done := doneCalls(q.Messages)
	for line := range strings.Lines(q.Messages[0].Text()) {
		for call := range strings.SplitSeq(strings.TrimSpace(line), "; ") {
			c := m.call(call)
			if done[key(c)] {
				continue
			}
			c.ID = fmt.Sprintf("%d-%d", len(q.Messages), len(r.Message.Parts))
			r.Message.Parts = append(r.Message.Parts, agent.Part{Call: &c})
		}
		if len(r.Message.Parts) > 0 {
			r.Stop = agent.StopTools
			return r
		}
	}
	r.Stop, r.Message.Parts = agent.StopEnd, []agent.Part{{Text: "all is paid"}}
	return r
}

// call converts a call in a prompt to a call of a tool.
func (m model) call(text string) agent.Call {
	name, args := "task", map[string]string{"agent": "helper", "prompt": strings.TrimPrefix(text, byTask)}
	if !strings.HasPrefix(text, byTask) {
		var number string
		name, number, _ = strings.Cut(text, " ")
		args = map[string]string{"bill": number}
	}
	data, err := json.Marshal(args)
	if err != nil {
		m.tell(reportWrong, err.Error())
	}
	return agent.Call{Name: name, Args: data}
}

func key(c agent.Call) string {
	var small bytes.Buffer
	if json.Compact(&small, c.Args) != nil {
		return "" // the call's arguments were truncated
	}
	return c.Name + small.String()
}

// doneCalls returns the calls that succeeded.
func doneCalls(all []agent.Message) map[string]bool {
	calls, done := map[string]string{}, map[string]bool{}
	for _, m := range all {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				calls[p.Call.ID] = key(*p.Call)
			case p.Result != nil && !p.Result.Error:
				done[calls[p.Result.Call]] = true
			}
		}
	}
	return done
}

// ledger is the file of effects. A line has the idempotency key of a payment and the bill.
type ledger struct {
	file string
	mu   sync.Mutex
}

// add pays a bill. If knowsKeys is set, it ignores a second payment with the same key.
func (l *ledger) add(key, bill string, knowsKeys bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if knowsKeys {
		if has, err := l.contains(key + " "); has || err != nil {
			return err
		}
	}
	f, err := os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, key, bill)
	return errors.Join(err, f.Close())
}

func (l *ledger) isPaid(bill string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.contains(" " + bill + "\n")
}

func (l *ledger) contains(text string) (bool, error) {
	data, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.Contains(string(data), text), err
}

// readLedger returns the bills that were paid, by task.
func readLedger(file string) (map[int][]string, error) {
	data, err := os.ReadFile(file)
	paid := map[int][]string{}
	for line := range strings.Lines(string(data)) {
		_, bill, _ := strings.Cut(strings.TrimSpace(line), " ")
		var n int
		if _, err := fmt.Sscanf(bill, "%d/", &n); err != nil {
			return nil, fmt.Errorf("the ledger has %q: %w", line, err)
		}
		paid[n] = append(paid[n], bill)
	}
	return paid, err
}
