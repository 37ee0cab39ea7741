package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// callOutcome is the outcome of a call that a run made.
type callOutcome struct {
	result   Result
	notes    []Event          // durable events of the tool
	unknown  bool             // the run was cancelled during the call, or a retry failed
	failed   string           // why the retry failed
	notBegun bool             // the run was cancelled before the call
	state    *Values          // of a call with an unknown outcome: its changes are reverted
	child    *run             // of a task
	waits    *segno.Interrupt // what the call waits for
	recorded bool             // the log has the wait
	err      error            // ends the run
}

func (r *run) runCall(ctx context.Context, j job, before map[string]json.RawMessage) (o callOutcome) {
	ctx, span := r.traceTool(ctx, j)
	defer func() { endSpan(span, o.err) }()
	r.registry.notBegun.Delete(j.at)
	r.registry.begin(r.thread, j.key)
	r.emit(Event{Kind: EventToolStart, Call: &j.Call})
	if j.Name == answerName && r.in.Output != nil {
		return callOutcome{result: Result{Text: "accepted"}}
	}
	events := &toolEvents{run: r}
	inv := &Invocation{Call: j.Call, Key: j.key, State: r.values.forCall(), run: r, before: before, Emit: events.emit}
	inv.Args = bytes.Clone(inv.Args) // a tool may write into it, and the message keeps what the model sent
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &steps{run: r, job: &j, ctx: ctx, state: inv.State, events: events, cancel: cancel, past: j.past, last: j.last}
	res, err := runTool(context.WithValue(callCtx, stepsKey{}, s), j.tool, inv)
	s.close()
	o.notes, o.child = events.close(), inv.child
	if s.waits != nil || s.failed != nil {
		o.waits, o.state, o.notes = s.waits, inv.State, nil // the tool makes its changes again when it runs again
		o.failed = s.repeated
		if o.unknown = o.failed != "" || s.failed != nil && ctx.Err() != nil; !o.unknown {
			o.err, o.notBegun = s.failed, s.diverged
		}
		if s.unsaved.n > 0 && !o.unknown && r.lease != nil {
			r.registry.stop(r.thread, r.epoch(), j.key, s.unsaved)
		}
		return o
	}
	var waits *waitError
	var stopped *stoppedError
	switch {
	case errors.As(err, &waits):
		o.err = err
	case errors.As(err, &stopped):
		o.err = fmt.Errorf("%s: %w", j.Name, stopped.err)
	case err != nil && ctx.Err() != nil:
		o.unknown, o.state = true, inv.State // the call may have happened: the next run applies the tool's policy
	case err != nil:
		res = Result{Text: err.Error(), Error: true}
	}
	if j.isRetry && res.Error {
		// The failure of this attempt does not tell whether the first one succeeded.
		o.unknown, o.state, o.failed = true, inv.State, cmp.Or(timeline.Title(res.Text), noReason)
	}
	o.result = res
	return o
}

// noReason replaces the text of a failure that has none.
const noReason = "the tool gave no reason"

// toolEvents collects the events of a tool until the tool returns. It drops events of
// goroutines that outlive the tool.
type toolEvents struct {
	run    *run
	mu     sync.Mutex
	closed bool
	notes  []Event
}

func (t *toolEvents) emit(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed || e.Kind.isOwn():
	case e.Kind.isLive():
		t.run.emit(e)
	default:
		t.notes = append(t.notes, e)
	}
}

// count returns the number of durable events so far.
func (t *toolEvents) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.notes)
}

// since returns the durable events after the first n.
func (t *toolEvents) since(n int) []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes[n:])
}

// add adds events of a step that ran before.
func (t *toolEvents) add(events []Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, events...)
}

func (t *toolEvents) close() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.notes
}

// runTool runs a tool in a goroutine, which a wait ends. A panic becomes an error for the model: it
// happens in a goroutine of the agent, where the tool's owner could not recover it.
func runTool(ctx context.Context, t Tool, inv *Invocation) (res Result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = fmt.Errorf("%s ended its goroutine", t.Name)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%s panicked: %v", t.Name, p)
			}
		}()
		res, err = t.Run(ctx, inv)
	}()
	<-done
	return res, err
}

// draftToolOutcome merges the files of a finished task and drafts a tool's events and result.
func (r *run) draftToolOutcome(j *job, o *callOutcome) error {
	if err := r.mergeTaskFiles(o); err != nil {
		return err
	}
	for _, e := range o.notes {
		if e.Kind == EventTodos {
			// A concurrent call may have changed the list after this event.
			if _, err := r.values.Get("todos", &e.Todos); err != nil {
				return err
			}
		}
		r.draftNote(noteEvent, e)
	}
	if j.note != "" {
		o.result.Text = "(" + j.note + ")\n" + o.result.Text
	}
	r.draftCallResult(j, o.result)
	return nil
}

// draftCallResult drafts a call's result and closes its intent.
func (r *run) draftCallResult(j *job, res Result) {
	if r.intent(j.ID) != nil {
		r.draftBody(segno.Entry{Kind: segno.EntryResult, ID: j.ID, Name: j.Name}, map[string]bool{"error": res.Error})
	}
	r.draftResult(j.Call, res)
}

// draftResult drafts the message with a call's result. It moves long texts into files of the
// state and leaves their ends.
func (r *run) draftResult(c Call, res Result) {
	r.deleteSteps(c.ID)
	res.Call, res.Name = c.ID, c.Name
	if r.Evict >= 0 && !r.tools[res.Name].Pages {
		path := fmt.Sprintf("/large_tool_results/%s_%s", fileName(res.Name), fileName(res.Call))
		r.evict(&res.Text, path+".txt")
		res.Parts = slices.Clone(res.Parts) // the tool may still use them
		for i := range res.Parts {
			r.evict(&res.Parts[i].Text, fmt.Sprintf("%s/%d.txt", path, i+1))
		}
	}
	r.draftMessage(Message{Role: ToolRole, Parts: []Part{{Result: &res}}})
}

func (r *run) evict(text *string, path string) {
	if len(*text) <= r.Evict {
		return
	}
	if err := r.values.Set("files"+path, map[string]string{"text": *text}); err != nil {
		r.failDraft(err)
		return
	}
	head, tail := min(4<<10, r.Evict/2), min(2<<10, r.Evict/4)
	from, to := strings.ToValidUTF8((*text)[:head], ""), strings.ToValidUTF8((*text)[len(*text)-tail:], "")
	where := "file " + path
	if _, ok := r.tools["read_file"]; ok {
		where = "read_file " + path
	}
	*text = fmt.Sprintf("%s\n… %d bytes left out; %s has all of it …\n%s", from, len(*text)-len(from)-len(to), where, to)
}

// fileName returns a file name for any text. Different texts have different names.
func fileName(s string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, s)
	const limit = 64
	if name == s && len(s) <= limit {
		return name
	}
	return name[:min(len(name), limit)] + "-" + segno.DerivedID(s)[:8]
}
