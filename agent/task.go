package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// Subagent is an agent that the agent can give a task to. It works in a thread of
// its own, part of the agent's, that is saved step by step like the agent's; its
// head is a member of the agent's step. Tasks of one step are done at once.
type Subagent struct {
	Name        string
	Description string // when to use it; the model reads it
	System      string
	Tools       []Tool   // nil is the agent's own
	Model       Model    // nil is the agent's own
	Approve     Approver // nil is the agent's own
	MaxSteps    int      // 0 is the agent's own
}

type taskArgs struct {
	Agent  string `json:"agent" jsonschema:"which subagent"`
	Prompt string `json:"prompt" jsonschema:"the whole task: the subagent sees nothing else"`
}

// task is the tool that gives tasks to subagents.
func (a *Agent) task() Tool {
	text := "Give a task to a subagent. It works on its own and answers once. The subagents:"
	for _, s := range a.Subagents {
		text += "\n- " + s.Name + ": " + s.Description
	}
	t := NewTool("task", text, LostRetry, func(ctx context.Context, inv *Invocation, args taskArgs) (Result, error) {
		i := slices.IndexFunc(a.Subagents, func(s Subagent) bool { return s.Name == args.Agent })
		if i < 0 {
			return Result{Text: fmt.Sprintf("there is no subagent %q", args.Agent), Error: true}, nil
		}
		if args.Prompt == "" {
			return Result{Text: "the task is empty: say in prompt what is to be done", Error: true}, nil
		}
		return inv.run.delegate(ctx, inv, a.Subagents[i], args.Prompt)
	})
	t.isTask = true
	return t
}

// waitError says that a subagent waits for decisions.
type waitError struct {
	open     []segno.Interrupt
	replaced map[string]string // what was asked before, and what is instead
}

// newest is what a question became.
func (e *waitError) newest(id string) string {
	for range e.replaced { // a log from elsewhere may go round in circles
		next, ok := e.replaced[id]
		if !ok {
			break
		}
		id = next
	}
	return id
}

func (e *waitError) Error() string { return fmt.Sprintf("it waits for %d decisions", len(e.open)) }

// stoppedError says that a subagent stopped in mid-turn, and can go on there.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// ends reports whether a subagent's failure is the end of its task: it would fail
// again. The agent is told, and goes on without.
func ends(err error) bool {
	var model *ModelError
	if errors.As(err, &model) {
		return !model.Retry && model.Status != http.StatusUnauthorized && model.Status != http.StatusForbidden
	}
	var steps stepLimit
	return errors.As(err, &steps)
}

// delegate runs a subagent until its turn is over or waits.
func (r *run) delegate(ctx context.Context, inv *Invocation, s Subagent, prompt string) (Result, error) {
	child := &run{Agent: r.subagent(s), sub: s.Name, parent: r, out: r.out, stop: r.stop,
		in: Input{Thread: taskThread(inv.Key), Prompt: prompt, Actor: r.in.Actor}}
	r.tell(Event{Kind: EventSubStart, Text: prompt, Path: s.Name})
	text, err := child.asTask(ctx, inv)
	if child.head.Head != "" {
		r.member(inv.ID, child.head.Head)
	}
	var waits *waitError
	switch {
	case err == nil || errors.As(err, &waits):
	case ctx.Err() == nil && ends(err):
		return Result{Text: "the subagent failed: " + err.Error(), Error: true}, nil
	default:
		err = &stoppedError{err}
	}
	if err != nil {
		return Result{}, err
	}
	inv.Emit(Event{Kind: EventSubFinish, Text: text, Path: s.Name})
	inv.child = child
	return Result{Text: text}, nil
}

// takeFiles gives the agent the files of a task, in the order of the calls, whichever
// was done first.
func (r *run) takeFiles(o *outcome) error {
	if o.child == nil {
		return nil
	}
	changed, err := o.child.handBack(r.values)
	if len(changed) > 0 {
		o.result.Text += "\n(files: " + strings.Join(changed, ", ") + ")"
	}
	return err
}

func (r *run) subagent(s Subagent) *Agent {
	c := r.Config
	c.System, c.Subagents, c.Answer, c.Timeline = s.System, nil, nil, nil
	if s.Tools != nil {
		c.Tools = s.Tools
	}
	if s.Model != nil {
		c.Model = s.Model
	}
	if s.Approve != nil {
		c.Approve = s.Approve
	}
	if s.MaxSteps > 0 {
		c.MaxSteps = s.MaxSteps
	}
	sub := New(c)
	sub.registry = r.registry
	return sub
}

// taskThread is the thread of a task. It follows from the call's key, so that a call
// made again after a crash finds it.
func taskThread(key string) string { return segno.DerivedID("task", key) }

// asTask is a subagent's run. One that was begun before goes on where it stands.
func (r *run) asTask(ctx context.Context, inv *Invocation) (text string, err error) {
	ctx, span := r.traceRun(ctx)
	defer func() { endSpan(span, err) }()
	ctx, r.abort = context.WithCancelCause(ctx)
	defer r.abort(nil)
	_, err = r.headOf(ctx, segno.ThreadID(r.in.Thread))
	fresh := segno.KindOf(err) == segno.KindNotFound
	if err != nil && !fresh {
		return "", err
	}
	err = r.begin(ctx)
	defer func() { r.lease.giveUp(context.WithoutCancel(ctx)) }()
	if err != nil {
		return "", err
	}
	switch {
	case len(r.msgs) == 0:
		if err := r.handOver(inv.before); err != nil {
			return "", err
		}
		if err := r.prompted(ctx); err != nil {
			return "", err
		}
	case !r.open:
		return r.lastWords(), nil
	default:
		// What was decided in time counts, though it comes here late.
		if err := r.decide(r.passed(inv.ID)); err != nil {
			return "", err
		}
		if err := r.reopen(ctx); err != nil {
			return "", err
		}
	}
	if err := r.toEnd(ctx); err != nil {
		return "", err
	}
	if r.open {
		return "", &waitError{slices.Clone(r.state.Interrupts), r.state.Replaced}
	}
	return r.lastWords(), nil
}

// passed are the decisions its parent was told that a subagent waits for.
func (r *run) passed(call string) (decisions []segno.Decision) {
	for id, a := range r.parent.state.Answers {
		if a.Interrupt.Via == call && slices.ContainsFunc(r.state.Interrupts, func(i segno.Interrupt) bool { return i.ID == id }) {
			decisions = append(decisions, a.Decision)
		}
	}
	slices.SortFunc(decisions, func(a, b segno.Decision) int { return strings.Compare(a.Interrupt, b.Interrupt) })
	return decisions
}

// lastWords is the newest text the model said.
func (r *run) lastWords() string {
	for i := len(r.msgs) - 1; i >= 0; i-- {
		if r.msgs[i].Role == Assistant {
			return r.msgs[i].Text()
		}
	}
	return ""
}

// bubble drafts the questions of a subagent as questions of this thread: who runs
// it answers them here. Those that it asks no more are replaced by what it asks instead,
// or dismissed: a run that was broken off may not have heard of every change.
func (r *run) bubble(j job, w *waitError) error {
	var stale []string
	for _, x := range r.state.Interrupts {
		if x.Via == j.ID && !slices.ContainsFunc(w.open, func(i segno.Interrupt) bool { return i.ID == x.ID }) {
			stale = append(stale, x.ID)
		}
	}
	for _, i := range w.open {
		if r.knows(i.ID) {
			continue
		}
		i.Via = j.ID
		if n := slices.IndexFunc(stale, func(id string) bool { return w.newest(id) == i.ID }); n >= 0 {
			i.Replaces = stale[n]
			stale = slices.Delete(stale, n, n+1)
		}
		if err := r.question(i); err != nil {
			return err
		}
	}
	for _, id := range stale {
		e, err := segno.Decision{Interrupt: id, Kind: segno.Reject, Text: "its task asks it no more", Actor: r.Name, Time: r.Now()}.Entry()
		if err != nil {
			return err
		}
		if err := r.draft(e); err != nil {
			return err
		}
	}
	return nil
}

// knows reports whether the thread asks a question, or has its answer.
func (r *run) knows(id string) bool {
	_, answered := r.state.Answers[id]
	return answered || slices.ContainsFunc(r.state.Interrupts, func(x segno.Interrupt) bool { return x.ID == id })
}

// renewTasks has tasks ask anew what nobody answered in time.
func (r *run) renewTasks(ctx context.Context) error {
	now := r.Now()
	for _, c := range r.undone() {
		intent := r.intent(c.ID)
		late := func(x segno.Interrupt) bool { return x.Via == c.ID && x.Late(now) }
		if intent == nil || !r.tools[c.Name].isTask || !slices.ContainsFunc(r.state.Interrupts, late) {
			continue
		}
		if err := r.askTask(ctx, job{Call: c, tool: r.tools[c.Name], key: r.keyOf(intent)}); err != nil {
			return fmt.Errorf("ask anew: %w", err)
		}
	}
	return nil
}

// startFiles is where a subagent's state has what files it was given.
const startFiles = ".files"

// handOver gives a subagent the agent's files.
func (r *run) handOver(from map[string]json.RawMessage) error {
	given := map[string]segno.Hash{}
	for key, raw := range from {
		if strings.HasPrefix(key, "files/") {
			given[key] = segno.HashOf(raw)
			if err := r.values.Set(key, raw); err != nil {
				return err
			}
		}
	}
	if len(given) == 0 {
		return nil
	}
	return r.values.set(startFiles, given)
}

// handBack gives the agent the files a subagent changed, and names them. One that
// somebody else changed meanwhile stays; the subagent's is put beside it.
func (r *run) handBack(to *Values) (changed []string, err error) {
	given := map[string]segno.Hash{}
	if _, err := r.values.Get(startFiles, &given); err != nil {
		return nil, err
	}
	mine := r.values.snapshot()
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(mine)) {
		if !strings.HasPrefix(key, "files/") || strings.HasPrefix(key, "files/large_tool_results/") || given[key] == segno.HashOf(mine[key]) {
			continue
		}
		name, at := strings.TrimPrefix(key, "files/"), key
		if raw, there := to.all[key]; there && segno.HashOf(raw) != given[key] && string(raw) != string(mine[key]) {
			at = free(to.all, key+"."+r.sub)
			name = strings.TrimPrefix(at, "files/") + " (" + name + " was changed meanwhile and stays)"
		}
		to.put(at, mine[key])
		changed = append(changed, name)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		raw, there := to.all[key]
		if _, kept := mine[key]; !kept && there && segno.HashOf(raw) == given[key] {
			to.remove(key)
			changed = append(changed, strings.TrimPrefix(key, "files/")+" deleted")
		}
	}
	return changed, nil
}

// free returns a key that nothing has, the one asked for if it can be.
func free(all map[string]json.RawMessage, key string) string {
	at := key
	for n := 2; all[at] != nil; n++ {
		at = fmt.Sprintf("%s.%d", key, n)
	}
	return at
}

// membership guards a run's members while tasks are done at once.
type membership struct {
	mu  sync.Mutex
	all map[string]segno.CommitID
}

// member makes a subagent's head a member of the step.
func (r *run) member(call string, at segno.CommitID) {
	r.members.mu.Lock()
	defer r.members.mu.Unlock()
	if r.members.all == nil {
		r.members.all = map[string]segno.CommitID{}
	}
	r.members.all[call] = at
}

func (m *membership) set(all map[string]segno.CommitID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = maps.Clone(all)
}

func (m *membership) get() map[string]segno.CommitID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.all)
}
