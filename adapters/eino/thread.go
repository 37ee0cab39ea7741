package segnoeino

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cloudwego/eino/components"
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/adapters/internal/threadlease"
)

const opRun = "run graph"

// begin acquires the thread, reads it, and begins a turn or continues one.
func (c *Checkpoints) begin(ctx context.Context, call Call, in any) (_ *run, err error) {
	if err := segno.CheckID(opRun, call.Thread); err != nil {
		return nil, err
	}
	r := &run{store: c.saver.Store, timeline: c.Timeline, thread: segno.ThreadID(call.Thread)}
	if r.timeline != nil {
		if _, err := r.timeline.CompletePending(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.create(ctx, textOf(in)); err != nil {
		return nil, err
	}
	if r.lease, err = threadlease.Acquire(ctx, r.store, r.thread); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, r))
	if err = r.open(ctx, call, in); err != nil {
		r.close(ctx)
		return nil, err
	}
	return r, nil
}

// create creates the thread unless it exists.
func (r *run) create(ctx context.Context, title string) error {
	_, err := r.store.Head(ctx, r.thread)
	if segno.KindOf(err) != segno.KindNotFound || err == nil {
		return err
	}
	now := time.Now()
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread,
		Create:     &segno.Thread{ID: r.thread, Created: now, Title: title, Agent: agentName},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: now, Agent: agentName}}
	_, err = r.commitTo(&c)(ctx, c)
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindFenced:
		return nil // another run created it; the lease decides which of them continues
	case segno.KindNotFound:
		return segno.Errorf(segno.KindRefused, opRun, string(r.thread), "a thread of that name was deleted").WithHint("choose another name")
	}
	return err
}

// The names of the state values with the key of the newest run and its output.
const (
	valueKey    = "eino.key"
	valueOutput = "eino.output"
)

// agentName is the agent of the threads and checkpoints.
const agentName = "eino"

// open reads the thread, and records the beginning of a turn or the answers to its questions.
func (r *run) open(ctx context.Context, call Call, in any) error {
	p, err := r.read(ctx)
	if err != nil {
		return err
	}
	if call.Key != "" {
		switch same := string(p.state.Values[valueKey]) == string(asJSON(call.Key)); {
		case same && !p.isOpen:
			r.isDone, r.result = true, p.state.Values[valueOutput]
			return nil
		case !same && p.isOpen:
			return segno.Errorf(segno.KindRefused, opRun, string(r.thread), "the thread has a run with another key").WithHint("complete it, or undo its steps, first")
		}
	}
	if p.isOpen {
		if err := p.checkLost(r.thread, call.Repeat); err != nil {
			return err
		}
	}
	if err := r.beginFiles(ctx, textOf(in), p.isOpen); err != nil {
		return err
	}
	if r.files != "" {
		if p, err = r.read(ctx); err != nil { // the files may have changed since
			return err
		}
	}
	var entries []segno.Entry
	if p.isOpen {
		if entries, err = p.answer(call); err != nil {
			return err
		}
	} else {
		entries = r.begin(call, in)
	}
	if len(entries) == 0 {
		return nil
	}
	return r.commit(ctx, entries, nil)
}

// keyEntry records the key of a run, or that it has none.
func keyEntry(key string) segno.Entry {
	e := segno.Entry{Kind: segno.EntryState, Name: valueKey}
	if key != "" {
		e.Body = asJSON(key)
	}
	return e
}

// progress is what a thread records of its newest turn.
type progress struct {
	state  *segno.State
	isOpen bool
	ended  []string // nodes that ended since the newest checkpoint, and whose output is not recorded
}

// begin begins a turn, and returns its first entries.
func (r *run) begin(call Call, in any) []segno.Entry {
	r.turn, r.checkpoint, r.prompt = r.head.Turn+1, nil, textOf(in)
	entries := []segno.Entry{{Kind: segno.EntryState, Name: valueOutput}, keyEntry(call.Key)}
	for _, m := range inputMessages(in) {
		entries = append(entries, messageEntry(m))
	}
	return entries
}

// answer returns entries that end what the run left open: calls whose results are lost, and questions, with the caller's answers.
func (p *progress) answer(call Call) (entries []segno.Entry, err error) {
	for _, e := range p.state.Unknown {
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: e.ID, Name: e.Name, Body: body(outcome{Lost: true})})
	}
	for _, i := range p.state.Interrupts {
		d := segno.Decision{Interrupt: i.ID, Kind: segno.Respond, Text: "the run continues without an answer", Time: time.Now()}
		if data, ok := call.Resume[i.ID]; ok {
			d.Text = string(asJSON(data))
		}
		e, err := d.Entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// read reads the thread at its head.
func (r *run) read(ctx context.Context) (*progress, error) {
	var err error
	if r.head, err = r.store.Head(ctx, r.thread); err != nil {
		return nil, err
	}
	line, err := r.store.Load(ctx, r.head.Head, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	p := &progress{}
	if p.state, err = segno.Fold(line); err != nil {
		return nil, err
	}
	if r.checkpoint, err = decode(string(r.thread), p.state.Values[valueCheckpoint]); err != nil {
		return nil, err
	}
	closed := 0 // the newest turn that is over
	for i := range line.Commits {
		n := &line.Commits[i]
		for _, e := range n.Entries {
			r.turn = max(r.turn, e.Turn)
			var o outcome
			if e.Kind == segno.EntryResult && json.Unmarshal(e.Body, &o) == nil && o.OK {
				r.addEnded(p, &e, &o)
			}
		}
		if c := n.Checkpoint; c != nil {
			p.ended, r.outputs = nil, map[outputKey]json.RawMessage{}
			if r.step = max(r.step, c.Step); c.Kind == segno.CheckpointTurn {
				closed = c.Turn
			}
			if c.Prompt != "" {
				r.prompt = c.Prompt
			}
		}
	}
	p.isOpen = r.turn > closed || r.checkpoint != nil
	return p, nil
}

// addEnded adds a node that ended in the step that was interrupted.
func (r *run) addEnded(p *progress, e *segno.Entry, o *outcome) {
	key := outputKey{id: e.Name}
	if o.Component == components.ComponentOfTool {
		key = outputKey{o.Component, e.ID, o.Call}
	}
	isUnknown := o.Component == components.ComponentOfTool && o.Call.IsZero() // an older segno recorded it without its arguments
	if _, again := r.outputs[key]; again || o.Output == nil || isUnknown {
		p.ended = append(p.ended, e.Name)
		return
	}
	r.outputs[key] = o.Output
}

// checkLost returns an error if the step was interrupted and one of its nodes may not run again.
func (p *progress) checkLost(thread segno.ThreadID, mayRepeat func(string) bool) error {
	lost := &LostError{}
	add := func(node string, ended bool) {
		if mayRepeat == nil || !mayRepeat(node) {
			lost.Nodes = append(lost.Nodes, LostNode{Node: node, Ended: ended})
		}
	}
	for _, node := range p.ended {
		add(node, true)
	}
	for _, e := range p.state.Unknown {
		add(e.Name, false)
	}
	if len(lost.Nodes) == 0 {
		return nil
	}
	return segno.NewError(segno.KindRefused, opRun, string(thread), lost).WithHint("look whether they had their effects; Call.Repeat allows them to run again")
}
