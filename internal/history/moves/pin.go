package moves

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
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
	if err := m.refuseDeleted(ctx, m.at); err != nil {
		return err
	}
	p.Landing, p.Tip = m.head.Head, m.head.Tip
	m.names = []string{m.request.Name}
	if m.request.Verb == verbPin {
		m.names[0] = cmp.Or(m.request.Name, DefaultPin)
	}
	if m.before, err = m.namesNow(ctx); err != nil {
		return err
	}
	if m.request.Verb == verbPin {
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

// DefaultPin is the name of a pin for which the user gives none.
const DefaultPin = "pinned"

// namesNow returns the names of the checkpoint in the store. It returns an error if another checkpoint has the name that a
// pin adds.
func (m *pin) namesNow(ctx context.Context) ([]string, error) {
	if m.request.Verb == verbPin {
		return m.timeline.PinNames(ctx, m.at, m.names...)
	}
	return m.timeline.PinNames(ctx, m.at)
}

func (m *pin) apply(ctx context.Context, _ segno.OperationID, _ bool, o *Outcome) error {
	now, err := m.namesNow(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(now, m.before) {
		return outdated(m.request.Verb, string(m.at.ID), "the names of the checkpoint")
	}
	if m.request.Verb == verbPin {
		o.Undo = &Request{Verb: verbUnpin, Thread: m.head.Thread, To: m.at.ID, Name: m.names[0]}
		return m.timeline.Pin(ctx, m.at.ID, printable.Label(m.at), m.names[0])
	}
	if err := m.timeline.Unpin(ctx, m.at.ID, printable.Label(m.at), m.names...); err != nil {
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
