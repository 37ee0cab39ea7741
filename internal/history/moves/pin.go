package moves

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/printable"
)

// pin adds a name to a checkpoint, or removes names.
type pin struct {
	*target
	request Request
	at      *segno.Checkpoint
	names   []string // to add or to remove
	before  []string // the names of the checkpoint
}

func (m *pin) describe(ctx context.Context, p *Preview) (err error) {
	if m.at, err = m.ownCheckpoint(ctx, m.request.To); err != nil {
		return err
	}
	p.Landing, p.Tip = m.head.Head, m.head.Tip
	if m.before, err = m.namesOf(ctx, m.request.Name); err != nil {
		return err
	}
	m.names = []string{m.request.Name}
	if m.request.Verb == verbPin {
		if m.request.Name == "" {
			m.names[0] = "pinned"
		}
		p.Summary = []string{"pin " + printable.Label(m.at) + " as " + printable.Inline(m.names[0])}
		return nil
	}
	if m.request.Name == "" {
		m.names = m.before
	}
	if len(m.names) == 0 || !slices.Contains(m.before, m.names[0]) {
		return segno.Errorf(segno.KindNotFound, verbUnpin, string(m.at.ID), "the checkpoint has no such pin")
	}
	p.Summary = []string{"unpin " + printable.Label(m.at) + ": remove the name " + printable.Inline(strings.Join(m.names, ", "))}
	return nil
}

// namesOf returns the names of the checkpoint. It returns an error if another checkpoint of the thread
// has the name that a pin adds.
func (m *pin) namesOf(ctx context.Context, name string) (names []string, err error) {
	for c, err := range m.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		switch has := segno.PinNames(c.Label); {
		case c.ID == m.at.ID:
			names = has
		case m.request.Verb == verbPin && c.Thread == m.head.Thread && slices.Contains(has, name):
			return nil, segno.Errorf(segno.KindConflict, verbPin, name, "another checkpoint of the thread has this name").
				WithHint("unpin " + string(c.ID) + " first")
		}
	}
	return names, nil
}

func (m *pin) apply(ctx context.Context, _ segno.OperationID, _ bool, o *Outcome) error {
	now, err := m.namesOf(ctx, m.request.Name)
	if err != nil {
		return err
	}
	if !slices.Equal(now, m.before) {
		return outdated(m.request.Verb, string(m.at.ID), "the names of the checkpoint")
	}
	if m.request.Verb == verbPin {
		o.Undo = &Request{Verb: verbUnpin, Thread: m.head.Thread, To: m.at.ID, Name: m.names[0]}
		return m.change(ctx, m.names, nil)
	}
	if err := m.change(ctx, nil, m.names); err != nil {
		return err
	}
	if len(m.names) == 1 {
		o.Undo = &Request{Verb: verbPin, Thread: m.head.Thread, To: m.at.ID, Name: m.names[0]}
		return nil
	}
	if m.root != "" {
		op, err := m.timeline.FindOperation(ctx, "")
		if err == nil && op.Pin != nil && op.Pin.Checkpoint == m.at.ID {
			o.Operation, o.Undo = op.ID, &Request{Verb: verbOpUndo, Thread: m.head.Thread, Operation: op.ID}
		}
	}
	return nil
}

// change changes the names of the checkpoint. If there is no workspace, the log has no operation
// for the change.
func (m *pin) change(ctx context.Context, add, remove []string) error {
	switch {
	case m.root != "" && len(add) > 0:
		return m.timeline.Pin(ctx, m.at.ID, printable.Label(m.at), add[0])
	case m.root != "":
		return m.timeline.Unpin(ctx, m.at.ID, printable.Label(m.at), remove...)
	}
	label := ""
	for _, name := range append(slices.Clone(m.before), add...) {
		if !slices.Contains(remove, name) {
			label = segno.WithPinName(label, name)
		}
	}
	head, err := m.Store.Head(ctx, m.at.Thread)
	if err != nil {
		return err
	}
	_, err = m.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch,
		Pin: &segno.Pin{Checkpoint: m.at.ID, Name: label}})
	return err
}
