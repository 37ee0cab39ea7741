package segno

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// savedBase is what a checkpoint holds, as far as the next save must know it.
type savedBase struct {
	at         CommitID
	epoch      uint64
	step, turn int
	log        *savedLog                  // its first messages are those of the checkpoint
	messages   int                        // how many of them
	values     map[string]json.RawMessage // copies
	interrupts []Interrupt                // copies
	decided    map[string]bool            // interrupts that wait no more
	created    time.Time
}

// savedLog has copies of a line's messages. The checkpoints of the line share it, so a save
// adds its own messages only.
type savedLog struct {
	mu  sync.Mutex
	all []json.RawMessage
}

// first returns the first n messages.
func (l *savedLog) first(n int) []json.RawMessage {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[:n:n]
}

// with returns a log that has the first n messages and then more. It is l itself unless
// another save continued from the same checkpoint.
func (l *savedLog) with(n int, more []json.RawMessage) *savedLog {
	more = copyMessages(more)
	if l == nil {
		return &savedLog{all: more}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) > n {
		return &savedLog{all: append(l.all[:n:n], more...)}
	}
	l.all = append(l.all, more...)
	return l
}

// unchanged returns how many messages, from the first, are those that b holds. It compares
// the bytes: the caller may have replaced a message or written into its buffer.
func (b *savedBase) unchanged(messages []json.RawMessage) (n int) {
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

// changes are the entries that lead from b to s, and how many messages stay.
func (b *savedBase) changes(s Saved, now time.Time) (entries []Entry, kept int, err error) {
	add := func(e Entry) { e.Time = now; entries = append(entries, e) }
	if s.Step < 0 {
		return nil, 0, Errorf(KindInvalid, "save", s.Thread, "the step is negative")
	}
	kept = b.unchanged(s.Messages)
	if kept < b.messages {
		add(Entry{Kind: EntryKeep, Body: fmt.Append(nil, kept)})
	}
	for n, m := range s.Messages[kept:] {
		if !json.Valid(m) {
			return nil, 0, Errorf(KindInvalid, "save", s.Thread, "message %d is not JSON", kept+n+1)
		}
		add(Entry{Kind: EntryMessage, Body: m})
	}
	for _, key := range slices.Sorted(maps.Keys(s.State)) {
		if value, had := b.values[key]; !had || !bytes.Equal(value, s.State[key]) {
			add(Entry{Kind: EntryState, Name: key, Body: orNull(s.State[key])})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.values)) {
		if _, has := s.State[key]; !has {
			add(Entry{Kind: EntryState, Name: key})
		}
	}
	asked, err := b.questions(s, now)
	return append(entries, asked...), kept, err
}

// orNull makes a value that is nothing one that is null: an entry without a body
// takes a value away.
func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}

// questions are the entries of new interrupts and of decisions.
func (b *savedBase) questions(s Saved, now time.Time) (entries []Entry, err error) {
	seen := map[string]bool{}
	for _, i := range s.Interrupts {
		if i.ID == "" || seen[i.ID] {
			return nil, Errorf(KindInvalid, "save", i.ID, "each interrupt needs an id of its own")
		}
		seen[i.ID] = true
		if at := slices.IndexFunc(b.interrupts, func(x Interrupt) bool { return x.ID == i.ID }); at >= 0 {
			if !i.sameQuestion(b.interrupts[at]) {
				return nil, Errorf(KindRefused, "save", i.ID, "the interrupt was saved with other contents").WithHint("ask the changed question under a new id, with Replaces naming the old one")
			}
			continue
		}
		if b.decided[i.ID] {
			continue
		}
		i.ArgsHash = HashArgs(i.Args)
		if len(i.Allowed) == 0 {
			i.Allowed = []DecisionKind{Approve, Edit, Reject, Respond}
		}
		if i.Asked.IsZero() {
			i.Asked = now
		}
		e, err := i.Entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	done := map[string]bool{}
	for _, d := range s.Decisions {
		at := slices.IndexFunc(b.interrupts, func(x Interrupt) bool { return x.ID == d.Interrupt })
		if at < 0 && b.decided[d.Interrupt] || done[d.Interrupt] {
			return nil, NewError(KindConflict, "decide", d.Interrupt, ErrAnswered)
		}
		if at < 0 {
			return nil, Errorf(KindConflict, "decide", d.Interrupt, "it is not waiting for a decision")
		}
		done[d.Interrupt] = true
		if err := b.interrupts[at].Check(d, now); err != nil {
			return nil, err
		}
		if d.Time.IsZero() {
			d.Time = now
		}
		e, err := d.Entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// next is the base for the save after s; nil has that load what it needs.
func (b *savedBase) next(s Saved, kept int, epoch uint64, entries []Entry) *savedBase {
	fold := State{Values: maps.Clone(b.values), Interrupts: copyInterrupts(b.interrupts), Answers: map[string]Answer{}}
	if fold.Values == nil {
		fold.Values = map[string]json.RawMessage{}
	}
	for _, e := range entries {
		if e.Kind == EntryState || e.Kind == EntryInterrupt || e.Kind == EntryDecision {
			e.Body = bytes.Clone(e.Body)
			if err := fold.Apply(&e); err != nil {
				return nil
			}
		}
	}
	n := &savedBase{at: s.ID, epoch: epoch, step: s.Step, turn: b.turn, log: b.log.with(kept, s.Messages[kept:]), messages: len(s.Messages), values: fold.Values,
		interrupts: fold.Interrupts, decided: maps.Clone(b.decided), created: s.Created}
	n.decide(&fold)
	return n
}

func (b *savedBase) decide(s *State) {
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

func copyInterrupts(all []Interrupt) []Interrupt {
	all = slices.Clone(all)
	for i := range all {
		all[i].Args, all[i].Allowed = bytes.Clone(all[i].Args), slices.Clone(all[i].Allowed)
	}
	return all
}
