package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// steps are the durable steps of one call: its waits, and the functions of [Do]. They have numbers,
// in the order in which the call makes them. If the call runs again, a step with a recorded result
// returns it.
//
// A step that must wait ends the tool's goroutine with [runtime.Goexit]: the tool's deferred
// functions run, and no code after the wait does, also if the tool recovers panics.
type steps struct {
	run    *run
	job    *job
	ctx    context.Context // of the run: it does not end when the call waits
	state  *Values
	events *toolEvents
	cancel context.CancelCauseFunc // ends the context of the call

	past map[int]pastStep // by number
	last int              // the greatest number in past

	mu       sync.Mutex
	active   sync.WaitGroup // steps that run
	n        int            // steps so far
	busy     bool           // a step runs
	closed   bool           // the tool has returned
	waits    *segno.Interrupt
	failed   error
	diverged bool          // the call differs from the recorded steps, and did nothing new
	repeated string        // why a step failed that an earlier attempt may have made
	advanced bool          // this attempt has recorded a step
	unsaved  stoppedAtStep // the step at which the call stopped, because the store failed
}

// pastStep is a step that an earlier run of the call made.
type pastStep struct {
	reason segno.Reason // of a wait; "" is a step of Do
	name   string
	answer segno.Decision
	record stepRecord
}

// stepRecord is the recorded result of a step of [Do].
type stepRecord struct {
	Name   string          `json:"name"`
	Result json.RawMessage `json:"result,omitempty"`
	Failed *string         `json:"failed,omitempty"` // the text of the error
	State  []valueRecord   `json:"state,omitempty"`
	Events []Event         `json:"events,omitempty"`
}

// valueRecord is a value of the state that a step changed. Without a value it deletes the key.
type valueRecord struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

type stepsKey struct{}

// insideStep replaces the steps in the context of a function of [Do].
type insideStep struct{}

// callSteps returns the steps of the call that has the context ctx.
func callSteps(ctx context.Context, function string) *steps {
	switch s := ctx.Value(stepsKey{}).(type) {
	case *steps:
		if s != nil {
			return s
		}
	case insideStep:
		panic("segno: agent." + function + " is called inside a step of agent.Do")
	}
	panic("segno: agent." + function + " needs the context of a tool's call")
}

// withoutSteps returns a context in which no call waits.
func withoutSteps(ctx context.Context) context.Context {
	return context.WithValue(ctx, stepsKey{}, (*steps)(nil))
}

// stepPrefix returns the prefix of the state's keys for the steps of a call.
func stepPrefix(call string) string { return ".steps/" + fileName(call) + "/" }

// pastSteps returns the recorded steps of a call.
func (r *run) pastSteps(call string) (past map[int]pastStep, last int, err error) {
	past = map[int]pastStep{}
	for id, a := range r.state.Answers {
		i := &a.Interrupt
		if _, replaced := r.state.Replaced[id]; i.Call == call && i.Via == "" && i.Wait > 0 && !replaced {
			past[i.Wait] = pastStep{reason: i.Reason, name: nameOfWait(i), answer: a.Decision}
		}
	}
	prefix := stepPrefix(call)
	for _, key := range r.values.Keys(prefix) {
		p := pastStep{}
		if _, err := r.values.Get(key, &p.record); err != nil {
			return nil, 0, err
		}
		p.name = p.record.Name
		n, err := strconv.Atoi(strings.TrimPrefix(key, prefix))
		if err != nil {
			return nil, 0, segno.NewError(segno.KindCorrupt, "read state", key, err)
		}
		past[n] = p
	}
	for n := range past {
		last = max(last, n)
	}
	return past, last, nil
}

// nameOfWait returns the part of a wait that must be equal when its call runs again. The text of a
// question and the length of a sleep may differ.
func nameOfWait(i *segno.Interrupt) string {
	if i.Child != nil {
		return i.Child.Agent
	}
	return i.Signal
}

// begin begins the next step, and returns its record if an earlier run made it. The caller calls end.
func (s *steps) begin(reason segno.Reason, name string) (past pastStep, known bool) {
	if stored, err := segno.AsStored(name); err == nil {
		name = stored // to compare it with that of the record
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.waits != nil || s.failed != nil {
		runtime.Goexit()
	}
	if s.busy {
		s.stop(segno.Errorf(segno.KindInvalid, "run tool", s.job.Name, "two steps of a call run at the same time").
			WithHint("make the steps and waits of a call one after the other: their order identifies them"))
	}
	s.n++
	past, known = s.past[s.n]
	if known && (past.reason != reason || past.name != name) {
		s.divergeLocked(fmt.Errorf("step %d of the call was %s and is now %s", s.n, describeStep(past.reason, past.name), describeStep(reason, name)))
	}
	s.busy = true
	s.active.Add(1)
	return past, known
}

func (s *steps) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.active.Done()
}

func describeStep(reason segno.Reason, name string) string {
	text := "a " + cmp.Or(string(reason), "function of Do")
	if name != "" {
		text += fmt.Sprintf(" %q", name)
	}
	return text
}

// beginNew checks that a step without a record comes after those with one.
func (s *steps) beginNew(reason segno.Reason, name string) {
	if s.n < s.last {
		s.diverge(fmt.Errorf("step %d of the call, %s, is new, but step %d was made before", s.n, describeStep(reason, name), s.last))
	}
}

// diverge ends the run, because the tool does not make the steps that its call made before.
func (s *steps) diverge(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divergeLocked(err)
}

func (s *steps) divergeLocked(err error) {
	s.diverged = s.n <= s.last
	s.stop(segno.NewError(segno.KindRefused, "run tool", s.job.Name, err).
		WithHint("run the thread with the code that began the call, or undo the turn"))
}

// stop ends the tool's goroutine and the run. s is locked.
func (s *steps) stop(err error) {
	s.failed = err
	s.cancel(err)
	runtime.Goexit()
}

// fail ends the tool's goroutine and the run.
func (s *steps) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(err)
}

// unknown ends the tool's goroutine: a person is asked about the call.
func (s *steps) unknown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeated = cmp.Or(timeline.Title(err.Error()), noReason)
	s.stop(err)
}

// close waits until no step runs, and ends the steps of goroutines that outlive the tool.
func (s *steps) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.active.Wait()
}

// wait returns the decision that ended a wait, or ends the tool's goroutine.
func (s *steps) wait(w segno.Interrupt, name string, options []WaitOption) (segno.Decision, error) {
	past, known := s.begin(w.Reason, name)
	defer s.end()
	if known {
		return past.answer, nil
	}
	r := s.run
	w.ID, w.Thread, w.Call, w.Tool, w.Asked = segno.NewID(), r.thread, s.job.ID, s.job.Name, r.Now()
	w.Args, w.ArgsHash, w.CallKey, w.Wait = s.job.Args, segno.HashArgs(s.job.Args), s.job.key, s.n
	for _, change := range options {
		change(&w)
	}
	if w.Reason == segno.ReasonSleep && !w.Wake.After(w.Asked) {
		return segno.Decision{}, nil
	}
	s.beginNew(w.Reason, name)
	if w.Child != nil {
		if err := r.completeChild(&w); err != nil {
			return segno.Decision{}, err
		}
	}
	if w.Reason == segno.ReasonSignal {
		if d, ok := s.receive(w); ok {
			return d, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = &w
	s.cancel(errWaits)
	runtime.Goexit()
	return segno.Decision{}, nil
}

// receive ends a wait for a signal that arrived before, and records that the wait has it.
func (s *steps) receive(w segno.Interrupt) (d segno.Decision, ok bool) {
	r := s.run
	err := r.inLoop(func() error {
		signal := unusedSignal(r.state, w.Signal)
		if ok = signal != nil; !ok {
			return nil
		}
		d = signal.decide(w.ID, r.Now())
		r.draftRecord(w)
		r.draftRecord(d)
		again := *s.job
		r.draftIntent(&again, true) // the call continues now: after a crash its result is lost
		return r.commitDuringCalls(s.ctx)
	})
	if err != nil {
		s.unsaved = stoppedAtStep{s.n, true}
		s.fail(err)
	}
	return d, ok
}

// do runs a function as a step, or returns its recorded result.
func (s *steps) do(ctx context.Context, name string, f func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	past, known := s.begin("", name)
	defer s.end()
	if known {
		s.state.replay(past.record.State)
		s.events.add(past.record.Events)
		return past.record.outcome()
	}
	s.beginNew("", name)
	if err := s.ctx.Err(); err != nil {
		s.fail(err)
	}
	record := stepRecord{Name: name}
	s.state.startRecording()
	sent := s.events.count()
	raw, err := runStep(context.WithValue(ctx, stepsKey{}, insideStep{}), name, f)
	record.State, record.Events = s.state.stopRecording(), s.events.since(sent)
	if err != nil && s.ctx.Err() != nil {
		s.fail(err) // the run was cancelled: f may have had its effect
	}
	if err != nil && s.job.isRetry && !s.advanced && (s.job.stopped.n == 0 || s.n <= s.job.stopped.n) {
		s.unknown(err) // the failure does not tell whether the lost attempt made the step
	}
	if record.Result = raw; err != nil {
		text := err.Error()
		record.Result, record.Failed = nil, &text
	}
	if err := s.record(record); err != nil {
		s.unsaved = stoppedAtStep{n: s.n}
		s.fail(err)
	}
	s.advanced = true
	return record.outcome()
}

// runStep runs the function of a step. A panic is a failure like any other: without a record, a tool
// that recovers it and makes more steps could not repeat them.
func runStep(ctx context.Context, name string, f func(context.Context) (json.RawMessage, error)) (raw json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", name, p)
		}
	}()
	return f(ctx)
}

func (x *stepRecord) outcome() (json.RawMessage, error) {
	if x.Failed != nil {
		return nil, &StepError{x.Name, *x.Failed}
	}
	return x.Result, nil
}

// record commits the result of a step.
func (s *steps) record(x stepRecord) error {
	r, key := s.run, stepPrefix(s.job.ID)+strconv.Itoa(s.n)
	body, err := segno.Encode(x)
	if err != nil {
		return segno.NewError(segno.KindInvalid, "record step", x.Name, err)
	}
	return r.inLoop(func() error {
		r.values.load(key, body)
		r.draft(segno.Entry{Kind: segno.EntryState, Name: key, Body: body})
		return r.commitDuringCalls(s.ctx)
	})
}

// deleteSteps drafts the deletion of the steps of a call that has a result.
func (r *run) deleteSteps(call string) {
	for _, key := range r.values.Keys(stepPrefix(call)) {
		r.values.delete(key)
	}
}

// endedWait returns the last wait of a call that has ended and after which the call did not run,
// or nil.
func (r *run) endedWait(call string) *segno.Answer {
	var last *segno.Answer
	for id, a := range r.state.Answers {
		i := &a.Interrupt
		if _, replaced := r.state.Replaced[id]; i.Call == call && i.Via == "" && i.Wait > 0 && !a.Used && !replaced && (last == nil || i.Wait > last.Interrupt.Wait) {
			last = &a
		}
	}
	return last
}
