package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Subagent is an agent that the agent can give tasks to. A task has a separate thread, which is
// part of the agent's thread and is saved step by step. The head of the task's thread is a member
// of the agent's step. The tasks of one step run concurrently.
type Subagent struct {
	Name        string
	Description string // when to use it; the model reads it
	System      string
	Tools       []Tool   // nil is the agent's
	Model       Model    // nil is the agent's
	Approve     Approver // nil is the agent's
	MaxSteps    int      // 0 is the agent's
}

type taskArgs struct {
	Agent  string `json:"agent" jsonschema:"which subagent"`
	Prompt string `json:"prompt" jsonschema:"the whole task: the subagent sees nothing else"`
}

// taskTool returns the tool that gives tasks to subagents.
func (a *Agent) taskTool() Tool {
	text := "Give a task to a subagent. It works independently and answers once. The subagents:"
	for _, s := range a.Subagents {
		text += "\n- " + s.Name + ": " + s.Description
	}
	t := NewTool("task", text, LostRetry, func(ctx context.Context, inv *Invocation, args taskArgs) (Result, error) {
		i := slices.IndexFunc(a.Subagents, func(s Subagent) bool { return s.Name == args.Agent })
		if i < 0 {
			return Result{Text: fmt.Sprintf("unknown subagent %q", args.Agent), Error: true}, nil
		}
		if args.Prompt == "" {
			return Result{Text: "the prompt is empty: describe the task in it", Error: true}, nil
		}
		return inv.run.runSubagent(ctx, inv, a.Subagents[i], args.Prompt)
	})
	t.isTask = true
	return t
}

// waitError is the error of a task that waits for decisions.
type waitError struct {
	open     []segno.Interrupt
	replaced map[string]string // ids of earlier questions, and of those that replaced them
}

// newest returns the question that replaced a question, after any number of replacements.
func (e *waitError) newest(id string) string {
	for range e.replaced { // bounds the loop: a log from elsewhere may contain a cycle
		next, ok := e.replaced[id]
		if !ok {
			break
		}
		id = next
	}
	return id
}

func (e *waitError) Error() string { return fmt.Sprintf("it waits for %d decisions", len(e.open)) }

// stoppedError is the error of a task that stopped during a turn and can continue there.
type stoppedError struct{ err error }

func (e *stoppedError) Error() string { return e.err.Error() }

// isFinal reports whether a subagent's failure ends its task because it would recur. The agent
// continues without the task.
func isFinal(err error) bool {
	var model *ModelError
	if errors.As(err, &model) {
		return !model.Retry && model.Status != http.StatusUnauthorized && model.Status != http.StatusForbidden
	}
	var steps stepLimitError
	return errors.As(err, &steps)
}

// runSubagent runs a subagent until its turn ends or waits.
func (r *run) runSubagent(ctx context.Context, inv *Invocation, s Subagent, prompt string) (Result, error) {
	child := r.subagent(s).newRun(Input{Thread: taskThread(inv.Key), Prompt: prompt, Actor: r.in.Actor})
	child.sub, child.parent, child.send = s.Name, r, r.send
	r.emit(Event{Kind: EventSubStart, Text: prompt, Path: s.Name})
	err := child.execute(ctx, func(ctx context.Context) (bool, error) { return child.beginTask(ctx, inv) })
	inv.child = child
	switch {
	case err == nil && child.open:
		return Result{}, &waitError{slices.Clone(child.state.Interrupts), child.state.Replaced}
	case err == nil:
		text := child.lastText()
		inv.Emit(Event{Kind: eventSubFinish, Text: text, Path: s.Name})
		return Result{Text: text}, nil
	case ctx.Err() == nil && isFinal(err):
		return Result{Text: "the subagent failed: " + err.Error(), Error: true}, nil
	}
	return Result{}, &stoppedError{err}
}

// subagent returns the agent that runs a subagent's tasks.
func (a *Agent) subagent(s Subagent) *Agent {
	c := a.Config
	c.System, c.Subagents, c.Answer, c.Timeline, c.FilesAt = s.System, nil, nil, nil, ""
	if s.Tools != nil {
		c.Tools = s.Tools
	}
	if s.Model != nil {
		c.Model = s.Model
	}
	if s.Approve != nil {
		c.Approve = s.Approve
	}
	c.MaxSteps = cmp.Or(s.MaxSteps, c.MaxSteps)
	sub := New(c)
	sub.registry = a.registry
	return sub
}

// taskThread returns the thread of a task. The name depends only on the call's key, so a retry
// after a crash finds the thread.
func taskThread(key string) string { return segno.DerivedID("task", key) }

// beginTask begins the task of a subagent, or continues it where it stopped.
func (r *run) beginTask(ctx context.Context, inv *Invocation) (over bool, err error) {
	switch {
	case len(r.msgs) == 0:
		if err := r.copyFilesFrom(inv.before); err != nil {
			return false, err
		}
		return false, r.beginTurn(ctx)
	case !r.open:
		return true, nil
	}
	var decisions []segno.Decision
	if err := r.parent.inLoop(func() error {
		decisions = r.parentDecisions(inv.ID)
		return nil
	}); err != nil {
		return false, err
	}
	// A decision that was made before the question expired counts.
	if err := r.decide(decisions); err != nil {
		return false, err
	}
	return false, r.reaskQuestions(ctx)
}

// setMember makes the head of a call's task a member of the next checkpoint.
func (r *run) setMember(call string, task *run) {
	if r.members == nil {
		r.members = map[string]segno.CommitID{}
	}
	r.members[call] = task.head.Head
}

// parentDecisions returns the decisions of the parent's thread on this task's open questions.
func (r *run) parentDecisions(call string) (decisions []segno.Decision) {
	for id, a := range r.parent.state.Answers {
		if a.Interrupt.Via == call && hasInterrupt(r.state.Interrupts, id) {
			decisions = append(decisions, a.Decision)
		}
	}
	slices.SortFunc(decisions, func(a, b segno.Decision) int { return strings.Compare(a.Interrupt, b.Interrupt) })
	return decisions
}

func hasInterrupt(open []segno.Interrupt, id string) bool {
	return slices.ContainsFunc(open, func(i segno.Interrupt) bool { return i.ID == id })
}

// adoptQuestions drafts the questions of a task as questions of this thread, where the caller
// answers them. It replaces or rejects questions that the task no longer asks, because a run that
// crashed may have missed changes.
func (r *run) adoptQuestions(call string, w *waitError) {
	var stale []string
	for _, x := range r.state.Interrupts {
		if x.Via == call && !hasInterrupt(w.open, x.ID) {
			stale = append(stale, x.ID)
		}
	}
	for _, i := range w.open {
		if _, answered := r.state.Answers[i.ID]; answered || hasInterrupt(r.state.Interrupts, i.ID) {
			continue
		}
		i.Via = call
		if n := slices.IndexFunc(stale, func(id string) bool { return w.newest(id) == i.ID }); n >= 0 {
			i.Replaces = stale[n]
			stale = slices.Delete(stale, n, n+1)
		}
		r.draftRecord(i)
	}
	for _, id := range stale {
		r.draftRecord(segno.Decision{Interrupt: id, Kind: segno.Reject, Text: "the task no longer contains the question", Actor: r.Name, Time: r.Now()})
	}
}

// givenFilesKey is the state's key for the files that a task received from its agent, with their hashes.
const givenFilesKey = ".files"

// copyFilesFrom gives a task the agent's files.
func (r *run) copyFilesFrom(values map[string]json.RawMessage) error {
	given := map[string]segno.Hash{}
	for key, raw := range values {
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
	return r.values.set(givenFilesKey, given)
}

// mergeTaskFiles merges the files of a finished task into the agent's. runCalls calls it in
// the order of the calls, whichever task ended first.
func (r *run) mergeTaskFiles(o *callOutcome) error {
	if o.child == nil || o.result.Error {
		return nil
	}
	changed, err := o.child.copyFilesTo(r.values)
	if len(changed) > 0 {
		o.result.Text += "\n(files: " + strings.Join(changed, ", ") + ")"
	}
	return err
}

// copyFilesTo copies the files that a task changed, and returns their names. If the agent's
// file was changed meanwhile, the copy gets another name.
func (r *run) copyFilesTo(to *Values) (changed []string, err error) {
	given := map[string]segno.Hash{}
	if _, err := r.values.Get(givenFilesKey, &given); err != nil {
		return nil, err
	}
	files := r.values.snapshot()
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(key, "files/") || strings.HasPrefix(key, "files/large_tool_results/") || given[key] == segno.HashOf(files[key]) {
			continue
		}
		name, at := strings.TrimPrefix(key, "files/"), key
		if raw, ok := to.all[key]; ok && segno.HashOf(raw) != given[key] && string(raw) != string(files[key]) {
			at = unusedKey(to.all, key+"."+r.sub)
			name = strings.TrimPrefix(at, "files/") + " (" + name + " was changed in the meantime and is kept)"
		}
		to.put(at, files[key])
		changed = append(changed, name)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		raw, ok := to.all[key]
		if _, kept := files[key]; !kept && ok && segno.HashOf(raw) == given[key] {
			to.put(key, nil)
			changed = append(changed, strings.TrimPrefix(key, "files/")+" deleted")
		}
	}
	return changed, nil
}

// unusedKey returns key, or key with a number if it is used.
func unusedKey(all map[string]json.RawMessage, key string) string {
	at := key
	for n := 2; all[at] != nil; n++ {
		at = fmt.Sprintf("%s.%d", key, n)
	}
	return at
}
