package saver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// base is the state of a checkpoint that the next save compares with.
type base struct {
	at         segno.CommitID
	head       segno.CommitID // of the thread when the base was read; writes of branches may be between at and head
	epoch      uint64
	step, turn int
	log        *messageLog                // begins with the messages of the checkpoint
	messages   int                        // their number
	values     map[string]json.RawMessage // copies
	interrupts []segno.Interrupt          // copies
	decided    map[string]bool            // closed interrupts
	created    time.Time
}

// messageLog contains copies of a line's messages. The checkpoints of the line share it, so a save
// adds only its new messages.
type messageLog struct {
	mu  sync.Mutex
	all []json.RawMessage
	// given is the last result of extend. Its array has room for more messages, which the callers do not see.
	given []json.RawMessage
}

// extend returns the messages of a caller with more behind them. It does not change messages, and copies it only if it is not
// the last result of extend, so that the time of an append does not grow with the conversation.
func (l *messageLog) extend(messages, more []json.RawMessage) []json.RawMessage {
	if l == nil || len(messages) == 0 {
		return slices.Concat(messages, more)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.given) != len(messages) || &l.given[0] != &messages[0] {
		l.given = slices.Clone(messages)
	}
	l.given = append(l.given, more...)
	return slices.Clip(l.given)
}

func (l *messageLog) first(n int) []json.RawMessage {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[:n:n]
}

// with returns a log that has the first n messages and then more. It returns l itself unless
// another save continued from the same checkpoint.
func (l *messageLog) with(n int, more []json.RawMessage) *messageLog {
	more = copyMessages(more)
	if l == nil {
		return &messageLog{all: more}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) > n {
		return &messageLog{all: append(l.all[:n:n], more...)}
	}
	l.all = append(l.all, more...)
	return l
}

// unchanged returns how many of the first messages are equal to those of b. It compares
// the bytes, because the caller may have replaced a message or written into its buffer.
func (b *base) unchanged(messages []json.RawMessage) (n int) {
	had := b.log.first(b.messages)
	for n < min(len(had), len(messages)) && bytes.Equal(had[n], messages[n]) {
		n++
	}
	return n
}

func copyMessages(messages []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		all[i] = bytes.Clone(m)
	}
	return all
}

// changes returns the entries that change b into s. The first kept messages stay.
func (b *base) changes(s Snapshot, kept int, now time.Time) (entries []segno.Entry, err error) {
	add := func(e segno.Entry) { e.Time = now; entries = append(entries, e) }
	if s.Step < 0 {
		return nil, segno.Errorf(segno.KindInvalid, "save", s.Thread, "the step is negative")
	}
	if kept < b.messages {
		add(segno.Entry{Kind: segno.EntryKeep, Body: fmt.Append(nil, kept)})
	}
	for n, m := range s.Messages[kept:] {
		if len(m) == 0 { // the store refuses all else that is not JSON
			return nil, errNotJSON(s, kept+n)
		}
		add(segno.Entry{Kind: segno.EntryMessage, Body: m})
	}
	for _, key := range slices.Sorted(maps.Keys(s.State)) {
		body := s.State[key]
		if value, had := b.values[key]; had && bytes.Equal(value, body) {
			continue
		}
		if len(body) == 0 {
			body = json.RawMessage("null") // an entry without a body deletes the value
		}
		add(segno.Entry{Kind: segno.EntryState, Name: key, Body: body})
	}
	for _, key := range slices.Sorted(maps.Keys(b.values)) {
		if _, has := s.State[key]; !has {
			add(segno.Entry{Kind: segno.EntryState, Name: key})
		}
	}
	asked, err := b.newInterrupts(s, now)
	if err != nil {
		return nil, err
	}
	decided, err := b.newDecisions(s, now)
	return slices.Concat(entries, asked, decided), err
}

func errNotJSON(s Snapshot, message int) error {
	return segno.Errorf(segno.KindInvalid, "save", s.Thread, "message %d is not JSON", message+1)
}

// newInterrupts returns the entries of interrupts that were not saved before.
func (b *base) newInterrupts(s Snapshot, now time.Time) (entries []segno.Entry, err error) {
	seen := map[string]bool{}
	for _, given := range s.Interrupts {
		i, err := segno.AsStored(given)
		if err != nil {
			return nil, segno.NewError(segno.KindInvalid, "save", given.ID, err)
		}
		if i.ID == "" || seen[i.ID] {
			return nil, segno.Errorf(segno.KindInvalid, "save", i.ID, "each interrupt needs a unique id")
		}
		seen[i.ID] = true
		if at := b.interrupt(i.ID); at >= 0 && !sameQuestion(i, b.interrupts[at]) {
			return nil, segno.Errorf(segno.KindRefused, "save", i.ID, "the interrupt was saved with other contents").
				WithHint("ask the changed question under a new id, with Replaces naming the old one")
		} else if at >= 0 || b.decided[i.ID] {
			continue
		}
		i.ArgsHash = segno.HashArgs(i.Args)
		if len(i.Allowed) == 0 {
			i.Allowed = []segno.DecisionKind{segno.Approve, segno.Edit, segno.Reject, segno.Respond}
		}
		i.Asked = cmp.Or(i.Asked, now)
		e, err := i.Entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// newDecisions returns the entries of decisions, each about an open interrupt.
func (b *base) newDecisions(s Snapshot, now time.Time) (entries []segno.Entry, err error) {
	done := map[string]bool{}
	for _, given := range s.Decisions {
		d, err := segno.AsStored(given)
		if err != nil {
			d = given // Check reports arguments that are not JSON
		}
		at := b.interrupt(d.Interrupt)
		switch {
		case at < 0 && b.decided[d.Interrupt] || done[d.Interrupt]:
			return nil, segno.NewError(segno.KindConflict, "decide", d.Interrupt, segno.ErrAnswered)
		case at < 0:
			return nil, segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "it is not waiting for a decision")
		}
		done[d.Interrupt] = true
		if err := b.interrupts[at].Check(d, now); err != nil {
			return nil, err
		}
		d.Time = cmp.Or(d.Time, now)
		e, err := d.Entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// interrupt returns the index of the open interrupt with an id, or -1.
func (b *base) interrupt(id string) int {
	return slices.IndexFunc(b.interrupts, func(x segno.Interrupt) bool { return x.ID == id })
}

// next returns the base for the save after s, or nil if that save must load it.
func (b *base) next(s Snapshot, kept int, epoch uint64, entries []segno.Entry) *base {
	fold := segno.State{Values: maps.Clone(b.values), Interrupts: copyInterrupts(b.interrupts), Answers: map[string]segno.Answer{}}
	if fold.Values == nil {
		fold.Values = map[string]json.RawMessage{}
	}
	for _, e := range entries {
		if e.Kind == segno.EntryState || e.Kind == segno.EntryInterrupt || e.Kind == segno.EntryDecision {
			e.Body = bytes.Clone(e.Body)
			if err := fold.Apply(&e); err != nil {
				return nil
			}
		}
	}
	n := &base{at: s.ID, epoch: epoch, step: s.Step, turn: b.turn, log: b.log.with(kept, s.Messages[kept:]), messages: len(s.Messages), values: fold.Values,
		interrupts: fold.Interrupts, decided: maps.Clone(b.decided), created: s.Created}
	n.decide(&fold)
	return n
}

// decide records the interrupts that a state has closed.
func (b *base) decide(s *segno.State) {
	if b.decided == nil {
		b.decided = map[string]bool{}
	}
	for id := range s.Answers {
		b.decided[id] = true
	}
	for id := range s.Replaced {
		b.decided[id] = true
	}
}

func copyInterrupts(all []segno.Interrupt) []segno.Interrupt {
	all = slices.Clone(all)
	for i := range all {
		x := &all[i]
		x.Args, x.Allowed, x.Choices, x.Schema = bytes.Clone(x.Args), slices.Clone(x.Allowed), slices.Clone(x.Choices), bytes.Clone(x.Schema)
		if x.Child != nil {
			child := *x.Child
			x.Child = &child
		}
	}
	return all
}

// sameQuestion reports whether i is the question known. Fields that Save fills in may be
// missing from i.
func sameQuestion(i, known segno.Interrupt) bool {
	allowed := i.Allowed
	if len(allowed) == 0 {
		allowed = known.Allowed
	}
	return segno.HashArgs(i.Args) == known.ArgsHash && slices.Equal(allowed, known.Allowed) && i.Expires.Equal(known.Expires) &&
		i.Thread == known.Thread && i.Call == known.Call && i.Via == known.Via && i.Tool == known.Tool && i.Reason == known.Reason &&
		i.Question == known.Question && i.Replaces == known.Replaces && sameWait(i, known)
}

// sameWait reports whether two interrupts have the same fields of a wait inside a tool.
func sameWait(i, known segno.Interrupt) bool {
	sameChild := i.Child == nil && known.Child == nil || i.Child != nil && known.Child != nil && *i.Child == *known.Child
	return sameChild && i.Wait == known.Wait && i.CallKey == known.CallKey && slices.Equal(i.Choices, known.Choices) &&
		segno.HashArgs(i.Schema) == segno.HashArgs(known.Schema) && i.Wake.Equal(known.Wake) && i.Signal == known.Signal
}
