package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
)

// Ask is a question from inside a tool to a person.
type Ask struct {
	Text    string
	Choices []string        // the replies that are allowed; empty allows any text
	Schema  json.RawMessage // the JSON Schema of the reply, which is then JSON; nil allows any text
}

// Answer is the reply to a wait.
type Answer struct {
	Text  string // for a signal, its value as JSON
	Actor string // the person or program that replied, if it is known
	Time  time.Time
}

// Decode decodes a reply that is JSON into v.
func (r Answer) Decode(v any) error {
	if err := json.Unmarshal([]byte(r.Text), v); err != nil {
		return segno.NewError(segno.KindInvalid, "decode reply", "", err)
	}
	return nil
}

// RejectedError is the error of a wait that ended without a reply: a person rejected the
// question, or the turn of another thread failed.
type RejectedError struct{ Actor, Text string }

func (e *RejectedError) Error() string {
	text := "rejected by " + cmp.Or(e.Actor, "the user")
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// WaitOption changes a wait.
type WaitOption func(w *segno.Interrupt)

// Within limits a wait: without a reply in this time, it ends with [ErrNoReply].
func Within(d time.Duration) WaitOption {
	return func(w *segno.Interrupt) { w.Wake = w.Asked.Add(d) }
}

// Sleep makes a tool wait for a time. The run ends interrupted and nothing stays in memory. A run of
// the thread at or after the end of the sleep, in any process, runs the tool again from its start,
// and there Sleep returns at once; see the package comment. ctx must be the context of the tool's
// call, or derived from it; a tool that waits in another goroutine must return when its context ends.
// Sleep does not return before the sleep has ended, and it panics in another context.
func Sleep(ctx context.Context, d time.Duration) {
	c := callSteps(ctx, "Sleep")
	c.wait(segno.Interrupt{Reason: segno.ReasonSleep, Allowed: []segno.DecisionKind{}}, "", []WaitOption{Within(d)})
}

// Interrupt makes a tool ask a person, and returns the reply. It waits as [Sleep] does. The question
// is an item of [Agent.Inbox], [Config.Answer] receives it, and [Agent.Decide] answers it with
// [segno.Respond] or [segno.Reject]. The error is a [RejectedError] or [ErrNoReply].
func Interrupt(ctx context.Context, q Ask, options ...WaitOption) (Answer, error) {
	c := callSteps(ctx, "Interrupt")
	if err := checkSchema(q.Schema); err != nil {
		return Answer{}, segno.NewError(segno.KindInvalid, "ask", c.job.Name, err).WithHint("give a JSON Schema of draft 2020-12")
	}
	w := segno.Interrupt{Reason: segno.ReasonQuestion, Question: q.Text, Choices: q.Choices, Schema: q.Schema, Allowed: replies}
	return answerOf(c.wait(w, "", options))
}

// Await makes a tool wait for a signal with a name, and returns the signal; see [Agent.Signal]. It
// waits as [Sleep] does, unless the signal has arrived before: then it returns at once. Each signal
// ends one wait, in the order in which they arrived. The error is [ErrNoReply], or has
// [segno.KindInvalid] if the name is empty.
func Await(ctx context.Context, name string, options ...WaitOption) (Answer, error) {
	c := callSteps(ctx, "Await")
	if name == "" {
		return Answer{}, segno.Errorf(segno.KindInvalid, "wait for signal", c.job.Name, "the signal has no name")
	}
	name, err := segno.AsStored(name)
	if err != nil {
		return Answer{}, err
	}
	w := segno.Interrupt{Reason: segno.ReasonSignal, Signal: name, Allowed: []segno.DecisionKind{segno.Respond}}
	return answerOf(c.wait(w, name, options))
}

// Child makes a tool prompt another thread, and returns the answer of its turn. It waits as [Sleep]
// does. The thread runs in the same process if [Config.Agents] has the agent p.Agent; otherwise it is
// for another program to run the prompt and to answer the interrupt with [segno.Respond], or with
// [segno.Reject] if the turn failed. Without p.Thread the prompt begins a new thread; p.Key may be
// empty. Unlike the thread of a [Subagent], that thread does not move with this one. The error is a
// [RejectedError] or [ErrNoReply], or it has [segno.KindInvalid]. It is a RejectedError, too, if the other thread runs in this
// process and waits for this one.
func Child(ctx context.Context, p segno.Child, options ...WaitOption) (Answer, error) {
	c := callSteps(ctx, "Child")
	w := segno.Interrupt{Reason: segno.ReasonThread, Child: &p, Allowed: replies}
	return answerOf(c.wait(w, p.Agent, options))
}

// replies are the decisions that answer a wait.
var replies = []segno.DecisionKind{segno.Respond, segno.Reject}

// answerOf returns the reply in the decision that ended a wait.
func answerOf(d segno.Decision, err error) (Answer, error) {
	switch {
	case err != nil:
		return Answer{}, err
	case d.Kind == segno.Wake:
		return Answer{}, ErrNoReply
	case d.Kind == segno.Reject:
		return Answer{}, &RejectedError{d.Actor, d.Text}
	}
	return Answer{Text: d.Text, Actor: d.Actor, Time: d.Time}, nil
}

// StepError is the error of a step of [Do]. It has only the text of the step's own error, because
// the log records nothing else of it.
type StepError struct{ Name, Text string }

func (e *StepError) Error() string { return e.Text }

// Do runs f as a durable step of a tool. Its result is committed before Do returns. If the tool runs
// again, after a wait or after a crash, Do returns the recorded result and does not run f. The
// result is recorded as JSON, and Do returns it as it is decoded from there. A failure or panic of f is
// recorded, too, and is a [StepError]. If the run is cancelled meanwhile, a failure is not recorded.
//
// If a crash loses the result of f, the tool's [OnLost] decides about the whole call, as for a call
// without steps. f may change the state and send events: they are recorded with the result. f must
// not wait, and must not contain another step.
func Do[T any](ctx context.Context, name string, f func(ctx context.Context) (T, error)) (T, error) {
	c := callSteps(ctx, "Do")
	var out T
	raw, err := c.do(ctx, name, func(ctx context.Context) (json.RawMessage, error) {
		v, err := f(ctx)
		if err != nil {
			return nil, err
		}
		return segno.Encode(v)
	})
	if err == nil {
		if err := json.Unmarshal(raw, &out); err != nil {
			c.diverge(fmt.Errorf("the recorded result of the step %q does not fit its type: %w", name, err))
		}
	}
	return out, err
}

// checkReply returns an error for a reply that does not match the schema of its question, or that is no
// value of a signal. The wait goes on.
func checkReply(i *segno.Interrupt, d *segno.Decision) error {
	switch {
	case d.Kind == segno.Respond && i.Reason == segno.ReasonSignal && !json.Valid([]byte(d.Text)):
		return segno.Errorf(segno.KindInvalid, "decide", i.ID, "the value of a signal is JSON").WithHint("reply with JSON; nothing was decided")
	case d.Kind != segno.Respond || i.Schema == nil:
		return nil
	}
	if err := parseSchema(i.Schema).check([]byte(d.Text)); err != nil {
		return segno.Errorf(segno.KindInvalid, "decide", i.ID, "the reply does not match the schema of the question: %w", err).
			WithHint("reply with JSON that matches the schema; nothing was decided")
	}
	return nil
}

// endWaits drafts decisions for the waits whose time has come, and for those whose signal has
// arrived. It reports whether it ended any.
func (r *run) endWaits() (ended bool) {
	if r.parent != nil {
		return false // the run at the top ends the waits of its tasks
	}
	now, open := r.Now(), append([]segno.Interrupt(nil), r.state.Interrupts...)
	for _, i := range open {
		d := segno.Decision{Interrupt: i.ID, Kind: segno.Wake, Actor: r.Name, Time: now}
		if s := unusedSignal(r.state, i.Signal); s != nil {
			d = s.decide(i.ID, now)
		} else if i.Wake.IsZero() || now.Before(i.Wake) {
			continue
		}
		r.draftDecision(d)
		r.fromAnswer, ended = true, true
	}
	return ended
}

// nextWake returns the earliest time at which a wait ends without a reply, or zero.
func nextWake(open []segno.Interrupt) (next time.Time) {
	for _, i := range open {
		if !i.Wake.IsZero() && (next.IsZero() || i.Wake.Before(next)) {
			next = i.Wake
		}
	}
	return next
}

// questionsOf returns the interrupts that a person answers.
func questionsOf(open []segno.Interrupt) (questions []segno.Interrupt) {
	for _, i := range open {
		if i.Reason.IsQuestion() {
			questions = append(questions, i)
		}
	}
	return questions
}

// describeWait describes what a thread with open interrupts waits for.
func describeWait(open []segno.Interrupt) string {
	switch n := len(questionsOf(open)); {
	case n == 1:
		return "a decision"
	case n > 1:
		return fmt.Sprintf("%d decisions", n)
	}
	switch i := open[0]; i.Reason {
	case segno.ReasonSignal:
		return fmt.Sprintf("the signal %q", i.Signal)
	case segno.ReasonThread:
		return "the answer of the thread " + string(i.Child.Thread)
	default:
		return "the end of a sleep, at " + i.Wake.Format(time.RFC3339)
	}
}

var errWaits = errors.New("the call waits")
