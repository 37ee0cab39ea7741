package agent

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// seqPerCommit is the number of event numbers that a commit reserves. An event's number is its
// commit's times seqPerCommit plus its index, so it depends only on the log.
const seqPerCommit = 1 << 20

// Events yields the durable events of the thread's line with a number above since, oldest
// first. It does not yield events of undone lines. Events before a fork belong to the thread
// that was forked, and events of a subagent belong to the subagent's thread.
func (a *Agent) Events(ctx context.Context, thread string, since int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{Agent: a, thread: segno.ThreadID(thread), seq: since}
		head, err := f.open(ctx)
		var line *segno.Line
		if err == nil {
			line, err = f.loadSince(ctx, head)
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		f.emitLine(line, yield)
	}
}

// Follow yields the events of [Agent.Events], and then new events of runs in any process: each
// durable event once, in order, until ctx ends or the caller stops. The end of ctx is not an
// error. Any other error ends the sequence, such as [segno.KindNotFound] if the thread is
// deleted.
//
// An undo, a redo or a restore may move the thread to another line. Follow then yields an
// [EventMoved] whose Seq is the last number that both lines share, and the caller discards events
// with higher numbers. The events of the new line above that number follow, including
// any that were yielded before. A caller that discards those events always has the events that
// Events would yield, and its last number is the since to continue from. If the thread left the line
// of since before Follow began, the first event is an EventMoved with Seq 0, followed by the whole
// line. Moves that cancel each other before Follow notices them are not yielded.
func (a *Agent) Follow(ctx context.Context, thread string, since int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{Agent: a, thread: segno.ThreadID(thread), seq: since}
		if err := f.follow(ctx, yield); err != nil && ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// follower yields the events of a thread.
type follower struct {
	*Agent
	thread segno.ThreadID
	sub    string         // the subagent's name
	seq    int64          // number of the last event that was yielded
	at     segno.CommitID // head of the line that was yielded; "" at first
}

// open reads the thread's head and the name of its subagent.
func (f *follower) open(ctx context.Context) (segno.Head, error) {
	head, err := f.Store.Head(ctx, f.thread)
	if err != nil {
		return head, err
	}
	t, _, err := segno.FindThread(ctx, f.Store, f.thread)
	f.sub = t.Name
	return head, err
}

// follow yields events until the caller stops, and then returns nil, or until an error.
func (f *follower) follow(ctx context.Context, yield func(Event, error) bool) error {
	head, err := f.open(ctx)
	if err != nil {
		return err
	}
	for {
		if more, err := f.emitNew(ctx, head, yield); err != nil || !more {
			return err
		}
		if head, err = segno.Wait(ctx, f.Store, f.thread, head.Seq); err != nil {
			return err
		}
	}
}

// emitNew yields the new events at head. It returns false if the caller stopped.
func (f *follower) emitNew(ctx context.Context, head segno.Head, yield func(Event, error) bool) (more bool, err error) {
	if head.Head == f.at {
		return true, nil
	}
	line, err := f.loadSince(ctx, head)
	if err != nil {
		return false, err
	}
	if !f.isOn(line) {
		if f.seq, err = f.commonSeq(ctx, head); err != nil {
			return false, err
		}
		moved := Event{Kind: EventMoved, Seq: f.seq, Thread: f.thread, Agent: f.sub, Time: f.Now(), RunEvent: RunEvent{Saved: head.Head}}
		if !yield(moved, nil) {
			return false, nil
		}
		if line, err = f.loadSince(ctx, head); err != nil {
			return false, err
		}
	}
	f.at = head.Head
	return f.emitLine(line, yield), nil
}

// emitLine yields the line's events above f.seq. It returns false if the caller stopped.
func (f *follower) emitLine(line *segno.Line, yield func(Event, error) bool) (more bool) {
	for i := range line.Commits {
		n := &line.Commits[i]
		if n.Thread != f.thread || n.Seq < f.seq/seqPerCommit {
			continue
		}
		for _, e := range eventsOf(n, f.sub) {
			if e.Seq <= f.seq {
				continue
			}
			if !yield(e, nil) {
				return false
			}
			f.seq = e.Seq
		}
	}
	return true
}

// loadSince loads the end of the line, at least from the commit of f.seq on. Its
// cost depends on the number of new commits, not on the length of the line.
func (f *follower) loadSince(ctx context.Context, head segno.Head) (*segno.Line, error) {
	for last := 16; ; last *= 8 {
		line, err := f.Store.Load(ctx, head.Head, segno.Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		if first := &line.Commits[0]; len(line.Commits) < last || first.Thread != head.Thread || first.Seq <= f.seq/seqPerCommit {
			return line, nil
		}
	}
}

// isOn reports whether a line from loadSince contains the commit of f.seq.
func (f *follower) isOn(line *segno.Line) bool {
	seq := f.seq / seqPerCommit
	return seq == 0 || slices.ContainsFunc(line.Commits, func(n segno.Node) bool { return n.Thread == f.thread && n.Seq == seq })
}

// commonSeq returns the last event number that the line at head shares with the line that was
// yielded; 0 if that line is unknown or was collected.
func (f *follower) commonSeq(ctx context.Context, head segno.Head) (int64, error) {
	if f.at == "" {
		return 0, nil
	}
	old, err := f.Store.Load(ctx, f.at, segno.Window{})
	if segno.KindOf(err) == segno.KindNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	onOld := map[segno.CommitID]bool{}
	for _, n := range old.Commits {
		onOld[n.ID] = true
	}
	now, err := f.Store.Load(ctx, head.Head, segno.Window{})
	if err != nil {
		return 0, err
	}
	for _, n := range slices.Backward(now.Commits) {
		if onOld[n.ID] && n.Thread == f.thread {
			return (n.Seq+1)*seqPerCommit - 1, nil
		}
	}
	return 0, nil
}

// eventsOf returns the events of a commit. A run sends them once the commit is durable, and
// Events builds the same from the log.
func eventsOf(n *segno.Node, sub string) []Event {
	b := eventBuilder{node: n, sub: sub}
	if c := n.Checkpoint; c != nil {
		b.turn, b.step = c.Turn, c.Step
		if c.Kind == segno.CheckpointBase && n.Parent != "" {
			b.append(Event{Kind: eventFork, Time: c.Time, RunEvent: RunEvent{Saved: n.Parent}})
		}
	}
	for i := range n.Entries {
		b.addEntry(&n.Entries[i])
	}
	if b.summaryUsage != nil { // the model gave no summary
		b.append(Event{Kind: EventStepFinish, Usage: b.summaryUsage, Time: b.summaryTime})
	}
	if c := n.Checkpoint; c != nil {
		b.append(Event{Kind: EventSaved, Time: c.Time, RunEvent: RunEvent{Saved: n.ID}})
		if c.Kind == segno.CheckpointTurn && !c.Interrupted {
			b.append(Event{Kind: EventDone, Text: b.text, Time: c.Time, RunEvent: RunEvent{Stop: b.stop, Output: b.output}})
		}
	}
	return b.events
}

// eventBuilder builds the events of a commit. It skips damaged entries: loading the thread
// reports them.
type eventBuilder struct {
	node         *segno.Node
	sub          string
	turn, step   int
	events       []Event
	text         string // of the answer
	stop         Stop
	output       json.RawMessage
	summaryUsage *Usage // waits for the note with the summary
	summaryTime  time.Time
}

func (b *eventBuilder) append(e Event) {
	e.Seq = b.node.Seq*seqPerCommit + int64(len(b.events)) + 1
	e.Thread, e.Agent = b.node.Thread, b.sub
	if e.Turn == 0 {
		e.Turn = b.turn
	}
	e.Step = b.step
	b.events = append(b.events, e)
}

func (b *eventBuilder) addEntry(x *segno.Entry) {
	if b.turn == 0 {
		b.turn = x.Turn
	}
	e := Event{Turn: x.Turn, Time: x.Time}
	switch x.Kind {
	case segno.EntryMessage:
		b.addMessage(x)
	case segno.EntryUsage:
		e.Kind, e.Usage = EventStepFinish, new(Usage)
		if x.ID == summaryUsageID {
			b.summaryUsage, b.summaryTime = e.Usage, x.Time
			_ = json.Unmarshal(x.Body, e.Usage) // a damaged cost counts as none
			return
		}
		b.appendDecoded(x, e, e.Usage)
	case segno.EntryInterrupt:
		e.Interrupt = new(segno.Interrupt)
		_ = json.Unmarshal(x.Body, e.Interrupt) // appendDecoded skips a damaged one
		if e.Kind = EventApproval; !e.Interrupt.Reason.IsQuestion() {
			e.Kind = EventWaiting
		}
		b.appendDecoded(x, e, e.Interrupt)
	case segno.EntrySignal:
		e.Kind, e.Path, e.Text = EventSignal, x.Name, string(x.Body)
		b.append(e)
	case segno.EntryDecision:
		e.Kind, e.Decision = EventDecision, new(segno.Decision)
		b.appendDecoded(x, e, e.Decision)
	case segno.EntryNote:
		b.addNote(x)
	}
}

// appendDecoded appends e if the entry's body decodes into v, a part of e.
func (b *eventBuilder) appendDecoded(x *segno.Entry, e Event, v any) {
	if json.Unmarshal(x.Body, v) == nil {
		b.append(e)
	}
}

func (b *eventBuilder) addNote(x *segno.Entry) {
	switch x.Name {
	case noteEvent:
		var e Event
		if json.Unmarshal(x.Body, &e) == nil {
			e.Turn, e.Time = x.Turn, x.Time
			b.append(e)
		}
	case noteAnswer:
		b.output = x.Body
	case noteText:
		_ = json.Unmarshal(x.Body, &b.text) // a damaged text counts as none
	case noteSummary:
		var s summary
		if json.Unmarshal(x.Body, &s) == nil {
			b.append(Event{Kind: EventSummarized, Turn: x.Turn, Time: x.Time, Text: s.Text, Count: s.Covers, Usage: b.summaryUsage})
			b.summaryUsage = nil
		}
	}
}

func (b *eventBuilder) addMessage(x *segno.Entry) {
	m := new(Message)
	if json.Unmarshal(x.Body, m) != nil {
		return
	}
	if m.Role == User {
		b.append(Event{Kind: EventUserMessage, Turn: x.Turn, Time: x.Time, Message: m})
		return
	}
	if m.Role == Assistant {
		b.text, b.stop = m.Text(), m.Stop
	}
	for i := range m.Parts {
		e := Event{Turn: x.Turn, Time: x.Time}
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
		b.append(e)
	}
}
