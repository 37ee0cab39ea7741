package segno

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrAnswered is the cause of a [KindConflict] for a decision on a question that already has a
// different answer.
const ErrAnswered = errText("it was answered before")

// Interrupt is what a Go agent's run waits for: an answer to a question, the end of a sleep, a
// signal, or the answer of another thread. It is committed before the run ends, so that it
// survives the process. [Reason.IsQuestion] reports whether a person answers it.
type Interrupt struct {
	ID       string          `json:"id"`
	Thread   ThreadID        `json:"thread"`        // the thread of the call: the run's own, or a subagent's
	Call     string          `json:"call"`          // the tool call's id
	Via      string          `json:"via,omitempty"` // for a subagent's call: the call of this thread that started the subagent
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args"`
	ArgsHash Hash            `json:"args_hash"` // see [HashArgs]; an approval is valid for these arguments only
	Reason   Reason          `json:"reason"`
	Question string          `json:"question,omitempty"`
	Allowed  []DecisionKind  `json:"allowed"`
	Asked    time.Time       `json:"asked"`
	Expires  time.Time       `json:"expires,omitzero"`   // the deadline; the run refuses later decisions and asks again
	Replaces string          `json:"replaces,omitempty"` // the id of the earlier interrupt with the same question

	// The fields below belong to waits inside a tool. After the wait ends, the tool runs again from
	// its start, and each of its earlier waits returns its recorded decision.
	Wait    int             `json:"wait,omitempty"`     // the number of the wait among the steps of its call, from 1; 0 is a question about the call
	CallKey string          `json:"call_key,omitempty"` // the idempotency key of the call
	Choices []string        `json:"choices,omitempty"`  // ReasonQuestion: the replies that are allowed; empty allows any text
	Schema  json.RawMessage `json:"schema,omitempty"`   // ReasonQuestion: the JSON Schema of the reply, which is then JSON
	Wake    time.Time       `json:"wake,omitzero"`      // the run continues at this time: the end of a sleep, or the limit of another wait
	Signal  string          `json:"signal,omitempty"`   // ReasonSignal: its name
	Child   *Child          `json:"child,omitempty"`    // ReasonThread: the prompt whose answer the call waits for
}

// Child is a prompt to another thread. A [Respond] decision with the answer of its turn ends the
// wait, and a [Reject] decision with the reason of its failure.
type Child struct {
	Thread ThreadID `json:"thread"`
	Agent  string   `json:"agent,omitempty"` // the agent that runs the thread
	Prompt string   `json:"prompt"`
	Key    string   `json:"key"` // the prompt's idempotency key in its thread
}

// Reason is why a run waits.
type Reason string

// The reasons.
const (
	ReasonApproval Reason = "approval" // the tool needs approval
	ReasonUnknown  Reason = "unknown"  // the call began and its result was lost: it may have had its effect
	ReasonQuestion Reason = "question" // the tool asks a person: Choices and Schema limit the reply
	ReasonSleep    Reason = "sleep"    // the tool sleeps until Wake
	ReasonSignal   Reason = "signal"   // the tool waits for the signal Signal
	ReasonThread   Reason = "thread"   // the tool waits for the answer of another thread, Child
)

// IsQuestion reports whether a person answers an interrupt with the reason r. A program or a
// clock ends the other waits.
func (r Reason) IsQuestion() bool {
	return r != ReasonSleep && r != ReasonSignal && r != ReasonThread
}

// Decision answers an [Interrupt]. It counts once: the first one recorded wins.
type Decision struct {
	Interrupt string          `json:"interrupt"`
	Kind      DecisionKind    `json:"kind"`
	Args      json.RawMessage `json:"args,omitempty"`   // edit: the arguments to use instead
	Text      string          `json:"text,omitempty"`   // reject: the reason; respond: the reply to the model in place of the tool's, or the reply to a wait
	Signal    string          `json:"signal,omitempty"` // respond: the key of the signal that ended a wait; Text is then its value
	Actor     string          `json:"actor,omitempty"`
	Time      time.Time       `json:"time,omitzero"`
}

// DecisionKind is the effect of a [Decision] on the call.
type DecisionKind string

// The decisions.
const (
	Approve DecisionKind = "approve" // call the tool with the arguments that were asked about
	Edit    DecisionKind = "edit"    // call the tool with the arguments of the decision
	Reject  DecisionKind = "reject"  // do not call it, and tell the model so
	Respond DecisionKind = "respond" // do not call it; the decision's text is its result, or the reply to a wait
	Wake    DecisionKind = "wake"    // the time Interrupt.Wake has come; the run records it
)

// Signal is a message of a program to a thread. It ends a wait for its name, or stays in the
// thread until a call waits for it.
type Signal struct {
	Name  string
	Key   string // its idempotency key, unique in the thread's line
	Value json.RawMessage
	Time  time.Time
	Used  bool // a wait has received it
}

// Check returns an error if d may not answer i at the time now. The error has [KindRefused] if
// d came too late or i does not allow it, and [KindInvalid] if d lacks a field or is for other
// arguments.
func (i *Interrupt) Check(d Decision, now time.Time) error {
	kind, why, hint := KindInvalid, "", ""
	switch {
	case i.Late(now):
		kind, why, hint = KindRefused, "it expired", "run the thread again, and it is asked again"
	case d.Kind == Wake && !i.Wake.IsZero() && now.Before(i.Wake):
		kind, why = KindRefused, "it waits until "+i.Wake.Format(time.RFC3339)
	case d.Kind == Wake && !i.Wake.IsZero():
		return nil
	case !slices.Contains(i.Allowed, d.Kind):
		kind, why = KindRefused, fmt.Sprintf("it cannot be answered with %q", d.Kind)
	case d.Kind == Respond && len(i.Choices) > 0 && !slices.Contains(i.Choices, d.Text):
		why, hint = fmt.Sprintf("%q is not one of its choices", d.Text), "reply with one of: "+strings.Join(i.Choices, ", ")
	case d.Kind == Edit && !json.Valid(d.Args):
		why, hint = "an edit needs the new arguments, as JSON", "give Args"
	case d.Kind != Edit && d.Args != nil:
		why, hint = "only an edit has arguments", "use edit to change them"
	case HashArgs(i.Args) != i.ArgsHash:
		kind, why = KindCorrupt, "its arguments are not those it was asked about"
	default:
		return nil
	}
	return Errorf(kind, "decide", i.ID, "%s", why).WithHint(hint)
}

// Text returns the question with its choices, for a person.
func (i *Interrupt) Text() string {
	if len(i.Choices) == 0 {
		return i.Question
	}
	return i.Question + " (" + strings.Join(i.Choices, ", ") + ")"
}

// Late reports whether it is too late to answer i at the time now.
func (i *Interrupt) Late(now time.Time) bool { return !i.Expires.IsZero() && now.After(i.Expires) }

// Entry returns i as a record of the log.
func (i Interrupt) Entry() (Entry, error) {
	return bodied(Entry{Kind: EntryInterrupt, ID: i.ID, Name: i.Tool, Time: i.Asked}, i)
}

// Entry returns s as a record of the log.
func (s Signal) Entry() (Entry, error) {
	return Entry{Kind: EntrySignal, ID: s.Key, Name: s.Name, Time: s.Time, Body: s.Value}, nil
}

// Entry returns d as a record of the log.
func (d Decision) Entry() (Entry, error) {
	return bodied(Entry{Kind: EntryDecision, ID: d.Interrupt, Name: d.Actor, Time: d.Time}, d)
}

func bodied(e Entry, v any) (Entry, error) {
	body, err := Encode(v)
	if err != nil {
		return e, NewError(KindInvalid, "record "+string(e.Kind), e.ID, err)
	}
	e.Body = body
	return e, nil
}

// Encode returns v as compact JSON, without escapes for < and > and &, so that JSON of
// other programs changes only in its white space.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// AsStored returns v as a store returns it: encoded and decoded. Bytes that are not UTF-8 are replacement characters then, so a
// program compares a repeated value with the stored one in this form.
func AsStored[T any](v T) (T, error) {
	body, err := Encode(v)
	if err != nil {
		return v, err
	}
	var stored T
	return stored, json.Unmarshal(body, &stored)
}

// HashArgs returns the hash of a call's arguments without their white space.
func HashArgs(args json.RawMessage) Hash {
	if len(args) == 0 {
		args = json.RawMessage("null") // the log stores missing arguments as null
	}
	var b bytes.Buffer
	if json.Compact(&b, args) != nil {
		return HashOf(args)
	}
	return HashOf(b.Bytes())
}

// Answer is an interrupt and its decision.
type Answer struct {
	Interrupt Interrupt
	Decision  Decision
	Used      bool // the allowed call has begun; the decision does not allow another one
}
