package segnogenkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/adapters/internal/encodable"
	"github.com/dalsegno/segno/adapters/internal/threadlease"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
	"github.com/firebase/genkit/go/core"
)

// Options are the options of [Durable]. Only Store and Thread are needed.
type Options[In any] struct {
	Store segno.Store
	// Thread returns the id of a run for an input. A run that is complete returns its output again.
	Thread func(In) string
	// Repeat reports whether a step may run again after a crash or a cancellation lost its result. If it is nil, none may, and the flow
	// returns a [LostError].
	Repeat func(step string) bool
}

// LostError reports a step that had begun when the process crashed or its context ended: its effect may have happened.
type LostError struct{ Step string }

func (e *LostError) Error() string {
	return "the result of the step " + e.Step + " was lost in a crash or a cancellation"
}

// WaitingError is the error of a flow that waits for an answer; see [Ask] and [Answer].
type WaitingError struct{ Question, Text string }

func (e *WaitingError) Error() string { return "the flow waits for an answer: " + e.Text }

// flow is one run of a durable flow.
type flow struct {
	saver  *saver.StoreSaver
	lease  *threadlease.Lease
	repeat func(string) bool

	mu    sync.Mutex
	at    saver.Snapshot
	steps map[string]int // how often this process has reached a step, by name
}

type flowKey struct{}

const opFlow = "run flow"

// The names of state values. The last two end with the key of a step and of a question.
const (
	valueOutput   = "genkit.output"
	valueStep     = "genkit.step/"
	valueAnswer   = "genkit.answer/"
	valueQuestion = "genkit.question/"
)

// step is the state of a step. If neither Ended nor Failed is set, it has begun.
type step struct {
	Ended     bool            `json:"ended"`
	Result    json.RawMessage `json:"result,omitempty"`
	Failed    *string         `json:"failed,omitempty"`    // the text of its error
	Cancelled bool            `json:"cancelled,omitempty"` // it failed after the end of its context, and may have had its effect
}

// Durable returns a function of a flow that is saved after each of its steps, for genkit.DefineFlow. What fn does outside
// of [Run] and [Ask] runs again when the flow continues.
func Durable[In, Out any](o Options[In], fn core.Func[In, Out]) core.Func[In, Out] {
	return func(ctx context.Context, in In) (out Out, err error) {
		thread := o.Thread(in)
		f, lease, err := begin(ctx, o.Store, thread, o.Repeat, in)
		if err != nil {
			return out, err
		}
		defer lease.Release(ctx)
		if done, ok := f.at.State[valueOutput]; ok {
			return out, decode(thread, done, &out)
		}
		if out, err = fn(context.WithValue(ctx, flowKey{}, f), in); err != nil {
			return out, err
		}
		value, err := encode(thread, out)
		if err != nil {
			return out, err
		}
		return out, f.save(ctx, map[string]string{"genkit": "end"}, valueOutput, value, agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Text: textOf(value)}}})
	}
}

// begin acquires the thread of a flow, and saves its input if the thread is new.
func begin(ctx context.Context, store segno.Store, thread string, repeat func(string) bool, in any) (*flow, *threadlease.Lease, error) {
	f := &flow{saver: saver.New(store), repeat: repeat, steps: map[string]int{}}
	key := saver.ThreadKey{Thread: thread}
	var err error
	if f.at, err = f.saver.Load(ctx, key); segno.KindOf(err) == segno.KindNotFound && err != nil {
		input, encodeErr := encode(thread, in)
		if encodeErr != nil {
			return nil, nil, encodeErr
		}
		err = f.save(ctx, map[string]string{"genkit": "begin"}, "genkit.input", input, agent.Text(textOf(input)))
	}
	if err != nil && segno.KindOf(err) != segno.KindConflict { // another process began it
		return nil, nil, err
	}
	lease, err := threadlease.Acquire(ctx, store, segno.ThreadID(thread))
	if err != nil {
		return nil, nil, err
	}
	f.lease = lease
	if f.at, err = f.saver.Load(ctx, key); err != nil {
		lease.Release(ctx)
		return nil, nil, err
	}
	return f, lease, nil
}

// maxTries limits the tries to save while the store fails; a store that is busy has already waited each time.
const maxTries = 3

// save saves a version with another value and messages that show what happened. If answers were recorded meanwhile, the version
// follows them. The caller has f.mu, or is alone.
func (f *flow) save(ctx context.Context, meta map[string]string, name string, value json.RawMessage, messages ...agent.Message) error {
	ctx = context.WithoutCancel(ctx)
	for tries := 1; ; tries++ {
		from := f.at
		err := f.saveOnce(ctx, meta, name, value, messages...)
		if err == nil {
			return nil
		}
		isTransient := segno.KindOf(err) == segno.KindIO || segno.KindOf(err) == segno.KindBusy
		if !isTransient && segno.KindOf(err) != segno.KindConflict || isTransient && tries >= maxTries {
			return err
		}
		// The store may have applied a try that failed.
		isSaved, loadErr := f.adopt(ctx, name, value)
		switch {
		case loadErr != nil && !isTransient:
			return loadErr
		case isSaved:
			return nil
		case !isTransient && f.at.ID == from.ID:
			return err
		}
	}
}

// adopt moves the flow to the newest version, if nothing but answers, and the value with this name, was recorded since f.at, and
// no other process has the thread now. It reports whether the value is recorded.
func (f *flow) adopt(ctx context.Context, name string, value json.RawMessage) (isSaved bool, err error) {
	now, err := f.saver.Load(ctx, f.at.ThreadKey)
	if err != nil {
		return false, err
	}
	head, err := f.saver.Store.Head(ctx, f.at.ThreadKey.ID())
	if err != nil || f.at.ID == "" || now.ID == f.at.ID || f.lease.Epoch(head) != head.Epoch {
		return false, err
	}
	for key := range f.at.State {
		if _, isThere := now.State[key]; !isThere {
			return false, nil // the thread was moved
		}
	}
	isSaved = bytes.Equal(now.State[name], value)
	for key, x := range now.State {
		had, isOld := f.at.State[key]
		if !bytes.Equal(had, x) && (key != name || !isSaved) && (isOld || !strings.HasPrefix(key, valueAnswer)) {
			return false, nil
		}
	}
	f.at = now
	return isSaved, nil
}

// saveOnce is save for a version that follows f.at or is a conflict.
func (f *flow) saveOnce(ctx context.Context, meta map[string]string, name string, value json.RawMessage, messages ...agent.Message) error {
	next := f.at
	next.Meta, next.State = meta, maps.Clone(f.at.State)
	if next.State == nil {
		next.State = map[string]json.RawMessage{}
	}
	next.State[name] = value
	for _, m := range messages {
		m.Time = time.Now()
		body, err := segno.Encode(m)
		if err != nil {
			return segno.NewError(segno.KindInvalid, opFlow, f.at.Thread, err)
		}
		next.Messages = append(next.Messages, body)
	}
	saved, err := f.saver.Save(ctx, next)
	if err == nil {
		f.at = saved
	}
	return err
}

// key returns the key of the next use of a step or a question: its name, and a number if it is not the first.
func (f *flow) key(name string) string {
	f.steps[name]++
	return keyOf(name, f.steps[name])
}

// keyOf returns the key of the n-th use of a name. Different uses, also of different names, have different keys.
func keyOf(name string, n int) string {
	at := strings.LastIndexByte(name, '#')
	if _, err := strconv.Atoi(name[at+1:]); n == 1 && (at < 0 || err != nil) {
		return name
	}
	return name + "#" + strconv.Itoa(n)
}

// Run is core.Run for a step of a durable flow. If the step ended in an earlier call of the flow, Run returns its
// recorded result and does not call fn. If the step failed and the flow then ran another one with the same name, as a loop of
// retries does, Run returns an error with the recorded text: the flow takes the same course again. Otherwise a failed step runs
// again in the next call of the flow, unless ctx had ended: then it may have had its effect, as after a crash.
// In another flow it is core.Run. Steps with the same name must not run at the same time.
func Run[Out any](ctx context.Context, name string, fn func() (Out, error)) (out Out, err error) {
	f, ok := ctx.Value(flowKey{}).(*flow)
	if !ok {
		return core.Run(ctx, name, fn)
	}
	key, recorded, err := f.beginStep(ctx, name)
	if err != nil {
		return out, err
	}
	if recorded != nil {
		return out, decode(key, recorded, &out)
	}
	out, err = core.Run(ctx, name, fn)
	if recorded, err = f.endStep(ctx, name, key, out, err); err != nil {
		return out, err
	}
	var again Out // as a later call of the flow gets it
	return again, decode(key, recorded, &again)
}

// beginStep records that a step begins, or returns its recorded result.
func (f *flow) beginStep(ctx context.Context, name string) (key string, recorded json.RawMessage, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key = f.key(name)
	value, isKnown := f.at.State[valueStep+key]
	_, isPast := f.at.State[valueStep+keyOf(name, f.steps[name]+1)] // the flow went on to the next use of the name
	s := step{Failed: new(string)}
	if isKnown {
		s.Failed = nil
		if err := decode(key, value, &s); err != nil {
			return key, nil, err
		}
	}
	switch isLost := s.Failed == nil || s.Cancelled; {
	case s.Ended:
		return key, s.Result, nil
	case s.Failed != nil && isPast:
		return key, nil, errors.New(cmp.Or(*s.Failed, "the step "+key+" failed in an earlier call of the flow"))
	case isLost && (f.repeat == nil || !f.repeat(name)):
		return key, nil, segno.NewError(segno.KindRefused, opFlow, f.at.Thread, &LostError{Step: key}).
			WithHint("look whether it had its effect; Options.Repeat allows it to run again")
	case isLost:
		return key, nil, nil
	}
	call := agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Call: &agent.Call{ID: key, Name: name, Args: json.RawMessage("null")}}}}
	return key, nil, f.save(ctx, map[string]string{"genkit": "step begins", "step": key}, valueStep+key, json.RawMessage(`{"ended":false}`), call)
}

// endStep records the result of a step, or its failure.
func (f *flow) endStep(ctx context.Context, name, key string, out any, failed error) (result json.RawMessage, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := &agent.Result{Call: key, Name: name}
	message := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: shown}}}
	if failed != nil {
		text := failed.Error()
		shown.Text, shown.Error = text, true
		value, err := segno.Encode(step{Failed: &text, Cancelled: ctx.Err() != nil})
		if err != nil {
			return nil, segno.NewError(segno.KindInternal, opFlow, key, err)
		}
		if err := f.save(ctx, map[string]string{"genkit": "step fails", "step": key}, valueStep+key, value, message); err != nil {
			return nil, err
		}
		return nil, failed
	}
	if result, err = encode(key, out); err != nil {
		return nil, err
	}
	value, err := segno.Encode(step{Ended: true, Result: result})
	if err != nil {
		return nil, segno.NewError(segno.KindInternal, opFlow, key, err)
	}
	shown.Text = textOf(result)
	return result, f.save(ctx, map[string]string{"genkit": "step ends", "step": key}, valueStep+key, value, message)
}

// Ask asks a question of a durable flow. If it has an answer, Ask returns it. Otherwise it saves the question and returns
// a [WaitingError], which the flow returns. The next call of the flow after [Answer] continues here.
func Ask[T any](ctx context.Context, name, question string) (answer T, err error) {
	f, ok := ctx.Value(flowKey{}).(*flow)
	if !ok {
		return answer, segno.Errorf(segno.KindInvalid, "ask", name, "the flow is not durable").WithHint("make it with Durable")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := f.key(name)
	if value, ok := f.at.State[valueAnswer+key]; ok {
		return answer, decode(key, value, &answer)
	}
	if _, asked := f.at.State[valueQuestion+key]; !asked {
		text, err := encode(key, question)
		if err != nil {
			return answer, err
		}
		if err := f.save(ctx, map[string]string{"genkit": "asks", "question": key}, valueQuestion+key, text,
			agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Text: question}}}); err != nil {
			return answer, err
		}
	}
	return answer, &WaitingError{Question: key, Text: question}
}

// Answer answers a question of the flow with that thread. The first answer counts: another one is [segno.KindConflict].
func Answer(ctx context.Context, store segno.Store, thread, question string, answer any) error {
	for {
		err := answerOnce(ctx, store, thread, question, answer)
		var late *segno.ConflictError // the flow runs, and recorded a step
		if !errors.As(err, &late) || ctx.Err() != nil {
			return err
		}
	}
}

func answerOnce(ctx context.Context, store segno.Store, thread, question string, answer any) error {
	f := &flow{saver: saver.New(store)}
	var err error
	if f.at, err = f.saver.Load(ctx, saver.ThreadKey{Thread: thread}); err != nil {
		return err
	}
	if _, asked := f.at.State[valueQuestion+question]; !asked {
		return segno.Errorf(segno.KindNotFound, "answer", question, "the flow %s does not ask that", thread)
	}
	value, err := encode(question, answer)
	if err != nil {
		return err
	}
	if had, answered := f.at.State[valueAnswer+question]; answered {
		if string(had) == string(value) {
			return nil
		}
		return segno.NewError(segno.KindConflict, "answer", question, segno.ErrAnswered)
	}
	// Another answer may be recorded meanwhile, so a conflict is not followed.
	return f.saveOnce(ctx, map[string]string{"genkit": "answer", "question": question}, valueAnswer+question, value, agent.Text(textOf(value)))
}

// encode returns a value as JSON. If it has none, or loses a part in it, the error names its type.
func encode(what string, v any) (json.RawMessage, error) {
	if lost := encodable.Lost(v, false); lost != "" {
		return nil, segno.Errorf(segno.KindInvalid, opFlow, what, "a %T cannot be saved: %s", v, lost).
			WithHint("export the fields, or give the type the methods MarshalJSON and UnmarshalJSON")
	}
	data, err := segno.Encode(v)
	if err != nil {
		return nil, segno.Errorf(segno.KindInvalid, opFlow, what, "a %T cannot be saved: %w", v, err)
	}
	return data, nil
}

func decode(what string, data json.RawMessage, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return segno.NewError(segno.KindCorrupt, opFlow, what, fmt.Errorf("read a %T: %w", v, err))
	}
	return nil
}

// textOf returns JSON for a reader: the text of a string.
func textOf(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return cmp.Or(strings.TrimSpace(text), "(no text)")
	}
	return string(data)
}
