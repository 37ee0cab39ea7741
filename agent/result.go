package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// callOutcome is what running a call led to.
type callOutcome struct {
	result   Result
	notes    []Event // durable events of the tool
	unknown  bool    // the run was cancelled during the call, or a retry failed
	failed   string  // why the retry failed
	notBegun bool    // the run was cancelled before the call
	state    *Values // of a call whose outcome is unknown: its changes are reverted
	child    *run    // of a task: its files are merged
	err      error   // ends the run
}

// runCall runs one call.
func (r *run) runCall(ctx context.Context, j job, before map[string]json.RawMessage) (o callOutcome) {
	ctx, span := r.traceTool(ctx, j)
	defer func() { endSpan(span, o.err) }()
	r.registry.setBegun(r.intentAt(j.ID))
	r.emit(Event{Kind: EventToolStart, Call: &j.Call})
	if j.Name == answerName && r.in.Output != nil {
		return callOutcome{result: Result{Text: "accepted"}}
	}
	events := &toolEvents{run: r}
	inv := &Invocation{Call: j.Call, Key: j.key, State: r.values.forCall(), run: r, before: before, Emit: events.emit}
	res, err := runTool(ctx, j.tool, inv)
	o.notes, o.child = events.close(), inv.child
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
		o.unknown, o.state, o.failed = true, inv.State, cmp.Or(timeline.Title(res.Text), "the tool gave no reason")
	}
	o.result = res
	return o
}

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
	case t.closed || !e.Kind.isForTools():
	case e.Kind.isLive():
		t.run.emit(e)
	default:
		t.notes = append(t.notes, e)
	}
}

func (t *toolEvents) close() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.notes
}

// runTool runs a tool. A panic becomes an error for the model: it happens in a goroutine of
// the agent, where the tool's owner could not recover it.
func runTool(ctx context.Context, t Tool, inv *Invocation) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", t.Name, p)
		}
	}()
	return t.Run(ctx, inv)
}

// draftToolOutcome drafts a tool's events and result.
func (r *run) draftToolOutcome(j job, o callOutcome) error {
	for _, e := range o.notes {
		if e.Kind == EventTodos {
			// A concurrent call may have changed the list after this event.
			if _, err := r.values.Get("todos", &e.Todos); err != nil {
				return err
			}
		}
		if err := r.draftNote(noteEvent, e); err != nil {
			return err
		}
	}
	if j.note != "" {
		o.result.Text = "(" + j.note + ")\n" + o.result.Text
	}
	return r.draftCallResult(j, o.result)
}

// draftCallResult drafts a call's result and closes its intent.
func (r *run) draftCallResult(j job, res Result) error {
	if r.intent(j.ID) != nil {
		body, err := segno.Encode(map[string]bool{"error": res.Error})
		if err != nil {
			return fmt.Errorf("record result: %w", err)
		}
		if err := r.draft(segno.Entry{Kind: segno.EntryResult, ID: j.ID, Name: j.Name, Body: body}); err != nil {
			return err
		}
	}
	return r.draftResult(j.Call, res)
}

// draftResult drafts the message with a call's result.
func (r *run) draftResult(c Call, res Result) error {
	res.Call, res.Name = c.ID, c.Name
	if err := r.evict(&res); err != nil {
		return err
	}
	return r.draftMessage(Message{Role: ToolRole, Parts: []Part{{Result: &res}}})
}

// evict moves long texts of a result into files of the state and leaves their ends.
func (r *run) evict(res *Result) error {
	if r.Evict < 0 || r.tools[res.Name].Pages {
		return nil
	}
	path := fmt.Sprintf("/large_tool_results/%s_%s", fileName(res.Name), fileName(res.Call))
	if err := r.evictText(&res.Text, path+".txt"); err != nil {
		return err
	}
	res.Parts = slices.Clone(res.Parts) // the tool may still use them
	for i := range res.Parts {
		if err := r.evictText(&res.Parts[i].Text, fmt.Sprintf("%s/%d.txt", path, i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) evictText(text *string, path string) error {
	if len(*text) <= r.Evict {
		return nil
	}
	if err := r.values.Set("files"+path, map[string]string{"text": *text}); err != nil {
		return err
	}
	from, to := cutText(*text, min(4<<10, r.Evict/2), min(2<<10, r.Evict/4))
	where := "file " + path
	if _, ok := r.tools["read_file"]; ok {
		where = "read_file " + path
	}
	*text = fmt.Sprintf("%s\n… %d bytes left out; %s has all of it …\n%s", from, len(*text)-len(from)-len(to), where, to)
	return nil
}

// cutText returns the beginning and the end of a text, cut between characters.
func cutText(s string, head, tail int) (string, string) {
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	from := len(s) - tail
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[:head], s[from:]
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
