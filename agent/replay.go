package agent

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/dalsegno/segno"
)

// perCommit is how many events a commit can have numbers for. Numbers follow the
// commits' own, so that they grow whatever line a thread is on, and nothing but the
// log is needed to tell them again.
const perCommit = 1 << 20

// Events yields the durable events of the thread's line with a number above since,
// oldest first: what a run told, for who was not there. Events of lines that were
// undone are not told again; those that a fork began with are told by the thread they
// happened in, and a subagent's by its own.
func (a *Agent) Events(ctx context.Context, thread string, since int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		head, err := a.Store.Head(ctx, segno.ThreadID(thread))
		var line *segno.Line
		if err == nil {
			line, err = a.since(ctx, head, since/perCommit)
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		sub, err := a.partName(ctx, head.Thread)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for i := range line.Commits {
			n := &line.Commits[i]
			if n.Thread != head.Thread || n.Seq < since/perCommit {
				continue
			}
			for _, e := range eventsOf(n, sub) {
				if e.Seq > since && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// partName is what a subagent's thread is called, "" for one that is no part of
// another.
func (a *Agent) partName(ctx context.Context, thread segno.ThreadID) (string, error) {
	for t, err := range a.Store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(thread)}) {
		if err != nil || t.ID == thread {
			return t.Name, err
		}
	}
	return "", nil
}

// since loads the newest part of the thread's line, from the commit with a seq on at
// least: who asks often for what is new pays for that.
func (a *Agent) since(ctx context.Context, head segno.Head, seq int64) (*segno.Line, error) {
	for last := 16; ; last *= 8 {
		line, err := a.Store.Load(ctx, head.Head, segno.Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		if first := &line.Commits[0]; len(line.Commits) < last || first.Thread != head.Thread || first.Seq <= seq {
			return line, nil
		}
	}
}

// eventsOf are a commit's events. A run tells them once the commit is durable, and
// a replay tells the same.
func eventsOf(n *segno.Node, sub string) (events []Event) {
	t := teller{node: n, sub: sub}
	if c := n.Checkpoint; c != nil {
		t.turn, t.step = c.Turn, c.Step
		if c.Kind == segno.CheckpointBase && n.Parent != "" {
			t.tell(Event{Kind: EventFork, Saved: n.Parent, Time: c.Time})
		}
	}
	for i := range n.Entries {
		t.entry(&n.Entries[i])
	}
	if t.summing != nil { // there came no summary of it
		t.tell(Event{Kind: EventStepFinish, Usage: t.summing, Time: t.at})
	}
	if c := n.Checkpoint; c != nil {
		t.tell(Event{Kind: EventSaved, Saved: n.ID, Time: c.Time})
		if c.Kind == segno.CheckpointTurn && !c.Interrupted {
			t.tell(Event{Kind: EventDone, Text: t.said, Stop: t.stop, Output: t.output, Time: c.Time})
		}
	}
	return t.events
}

// teller turns a commit's entries into events.
type teller struct {
	node       *segno.Node
	sub        string
	turn, step int
	events     []Event
	said       string
	stop       Stop
	output     json.RawMessage
	summing    *Usage // what the summary cost
	at         time.Time
}

func (t *teller) tell(e Event) {
	e.Seq = t.node.Seq*perCommit + int64(len(t.events)) + 1
	e.Thread, e.Agent = t.node.Thread, t.sub
	if e.Turn == 0 {
		e.Turn = t.turn
	}
	e.Step = t.step
	t.events = append(t.events, e)
}

func (t *teller) entry(x *segno.Entry) {
	if t.turn == 0 {
		t.turn = x.Turn
	}
	e := Event{Turn: x.Turn, Time: x.Time}
	switch x.Kind {
	case segno.EntryMessage:
		t.message(x)
	case segno.EntryUsage:
		e.Kind, e.Usage = EventStepFinish, new(Usage)
		if x.ID == usageOfSummary {
			t.summing, t.at = new(Usage), x.Time
			_ = json.Unmarshal(x.Body, t.summing) // then it cost nothing that is known
			return
		}
		t.decoded(x, e, e.Usage)
	case segno.EntryInterrupt:
		e.Kind, e.Interrupt = EventApproval, new(segno.Interrupt)
		t.decoded(x, e, e.Interrupt)
	case segno.EntryDecision:
		e.Kind, e.Decision = EventDecision, new(segno.Decision)
		t.decoded(x, e, e.Decision)
	case segno.EntryNote:
		t.noted(x)
	}
}

// decoded tells e if the entry's body is what v is. One that is not is damage, and
// who loads the thread hears of it.
func (t *teller) decoded(x *segno.Entry, e Event, v any) {
	if json.Unmarshal(x.Body, v) == nil {
		t.tell(e)
	}
}

func (t *teller) noted(x *segno.Entry) {
	switch x.Name {
	case noteEvent:
		var e Event
		if json.Unmarshal(x.Body, &e) == nil {
			e.Turn, e.Time = x.Turn, x.Time
			t.tell(e)
		}
	case noteAnswer:
		t.output = x.Body
	case noteSaid:
		_ = json.Unmarshal(x.Body, &t.said) // then it said nothing
	case noteSummary:
		var s summary
		if json.Unmarshal(x.Body, &s) == nil {
			t.tell(Event{Kind: EventSummarized, Turn: x.Turn, Time: x.Time, Text: s.Text, Count: s.Covers, Usage: t.summing})
			t.summing = nil
		}
	}
}

func (t *teller) message(x *segno.Entry) {
	m := new(Message)
	if json.Unmarshal(x.Body, m) != nil {
		return
	}
	at := Event{Turn: x.Turn, Time: x.Time}
	if m.Role == User {
		at.Kind, at.Message = EventUserMessage, m
		t.tell(at)
		return
	}
	if m.Role == Assistant {
		t.said, t.stop = m.Text(), m.Stop
	}
	for i := range m.Parts {
		e := at
		switch p := &m.Parts[i]; {
		case p.Text != "":
			e.Kind, e.Text = EventSegment, p.Text
		case p.Call != nil:
			e.Kind, e.Call = EventToolCall, p.Call
		case p.Result != nil:
			e.Kind, e.Result = EventToolResult, p.Result
		default:
			continue
		}
		t.tell(e)
	}
}
