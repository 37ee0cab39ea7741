package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// outcome is what came of a call: a result, what the tool told meanwhile, or an
// error that ends the run.
type outcome struct {
	result  Result
	notes   []Event
	unknown bool   // there is none: the run was cancelled under it, or a retry failed
	failed  string // why the retry failed
	unbegun bool   // the run was cancelled before it
	state   *Values
	child   *run // a subagent's, whose files are to be handed back
	err     error
}

// call makes one call.
func (r *run) call(ctx context.Context, j job, before map[string]json.RawMessage) (o outcome) {
	ctx, span := r.traceTool(ctx, j)
	defer func() { endSpan(span, o.err) }()
	r.registry.setBegun(r.intentAt(j.ID))
	r.tell(Event{Kind: EventToolStart, Call: &j.Call})
	if j.Name == answerName && r.in.Output != nil {
		return outcome{result: Result{Text: "taken"}}
	}
	said := &sayings{run: r}
	inv := &Invocation{Call: j.Call, Key: j.key, State: r.values.forCall(), run: r, before: before, Emit: said.emit}
	res, err := guarded(ctx, j.tool, inv)
	o.notes, o.child = said.end(), inv.child
	var waits *waitError
	var stopped *stoppedError
	switch {
	case errors.As(err, &waits):
		o.err = err
	case errors.As(err, &stopped):
		o.err = fmt.Errorf("%s: %w", j.Name, stopped.err)
	case err != nil && ctx.Err() != nil:
		o.unknown, o.state = true, inv.State // it may have happened: the tool's policy says what then
	case err != nil:
		res = Result{Text: err.Error(), Error: true}
	}
	if j.retried && res.Error {
		// That this attempt failed does not tell what came of the first one.
		o.unknown, o.state, o.failed = true, inv.State, cmp.Or(timeline.Title(res.Text), "the tool gave no reason")
	}
	o.result = res
	return o
}

// sayings are what a tool tells while it runs. What comes later, from something it
// left behind, is not heard.
type sayings struct {
	run   *run
	mu    sync.Mutex
	over  bool
	notes []Event
}

func (s *sayings) emit(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over || !e.Kind.tools():
	case e.Kind.live():
		s.run.tell(e)
	default:
		s.notes = append(s.notes, e)
	}
}

func (s *sayings) end() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.notes
}

// guarded runs a tool. One that panics has failed, and the model is told: it runs in
// a goroutine of ours, where its owner could not recover.
func guarded(ctx context.Context, t Tool, inv *Invocation) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", t.Name, p)
		}
	}()
	return t.Run(ctx, inv)
}

// outcome drafts what came of a call.
func (r *run) outcome(j job, o outcome) error {
	for _, e := range o.notes {
		if e.Kind == EventTodos {
			// Calls made at once may have told of a list that another has changed.
			if _, err := r.values.Get("todos", &e.Todos); err != nil {
				return err
			}
		}
		if err := r.note(e); err != nil {
			return err
		}
	}
	if j.note != "" {
		o.result.Text = "(" + j.note + ")\n" + o.result.Text
	}
	return r.resultOf(j, o.result)
}

// resultOf drafts a call's result and closes its intent.
func (r *run) resultOf(j job, res Result) error {
	if r.intent(j.ID) != nil {
		body, err := segno.Encode(map[string]bool{"error": res.Error})
		if err != nil {
			return fmt.Errorf("record result: %w", err)
		}
		if err := r.draft(segno.Entry{Kind: segno.EntryResult, ID: j.ID, Name: j.Name, Body: body}); err != nil {
			return err
		}
	}
	return r.result(j.Call, res)
}

// result drafts what the model is told of a call.
func (r *run) result(c Call, res Result) error {
	res.Call, res.Name = c.ID, c.Name
	if err := r.evict(&res); err != nil {
		return err
	}
	return r.say(Message{Role: ToolRole, Parts: []Part{{Result: &res}}})
}

// evict puts long texts of a result into files of the state and leaves their ends.
func (r *run) evict(res *Result) error {
	if r.Evict < 0 || r.tools[res.Name].Pages {
		return nil
	}
	path := fmt.Sprintf("/large_tool_results/%s_%s", fileName(res.Name), fileName(res.Call))
	if err := r.evictText(&res.Text, path+".txt"); err != nil {
		return err
	}
	res.Parts = slices.Clone(res.Parts) // the tool may have them still
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
	head, tail := min(4<<10, r.Evict/2), min(2<<10, r.Evict/4)
	if err := r.values.Set("files"+path, map[string]string{"text": *text}); err != nil {
		return err
	}
	from, to := cutText(*text, head, tail)
	where := "file " + path
	if _, ok := r.tools["read_file"]; ok {
		where = "read_file " + path
	}
	*text = fmt.Sprintf("%s\n… %d bytes left out; %s has all of it …\n%s", from, len(*text)-len(from)-len(to), where, to)
	return nil
}
