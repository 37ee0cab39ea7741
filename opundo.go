package segno

import (
	"context"
	"fmt"
)

// planOpUndo takes an operation back: pointers, files and conversation go where
// they were before it. What people did to the files since stays.
func (m *Mover) planOpUndo(ctx context.Context, ask Ask, now present, p *Plan) error {
	op, err := m.operation(ctx, ask.Op)
	if err != nil {
		return err
	}
	switch {
	case op.Verb == VerbPin || op.Verb == VerbUnpin || op.Verb == VerbFork:
		return &Error{Op: "op undo", Name: string(op.ID), Kind: KindInvalid, Err: fmt.Errorf("a %s moves nothing", op.Verb),
			Hint: map[Verb]string{VerbPin: "run 'segno unpin'", VerbUnpin: "run 'segno pin'",
				VerbFork: "remove the fork's directory if you do not need it"}[op.Verb]}
	case op.Thread != now.head.Thread:
		return &Error{Op: "op undo", Name: string(op.ID), Kind: KindRefused, Err: errText("it moved another thread"),
			Hint: "use --thread " + string(op.Thread)}
	}
	if err := m.unmovedSince(ctx, op, now); err != nil {
		return err
	}
	back := reversal{force: ask.Force}
	if err := m.reverse(ctx, &back, op.After.Tree, op.Before.Tree, nil, now); err != nil {
		return err
	}
	before, err := m.checkpoint(ctx, op.Before.Head)
	if err != nil {
		return err
	}
	p.landOn(before, op.Before.Tip)
	if op.Before.Session == op.After.Session {
		p.Session = nil // it did not move the conversation
	}
	p.Args, p.Undoes = short(op.ID), op.ID
	p.take(back, now)
	return nil
}

// unmovedSince refuses to take an operation back under newer turns: it would take
// them away too.
func (m *Mover) unmovedSince(ctx context.Context, op Operation, now present) error {
	line, err := m.line(ctx, now.head.Head)
	if err != nil {
		return err
	}
	for _, c := range line {
		if c.ID == op.After.Head {
			return nil
		}
		if c.Kind == KindTurn {
			return &Error{Op: "op undo", Name: string(op.ID), Kind: KindRefused, Err: fmt.Errorf("turn t%d came after it", c.Turn),
				Hint: "use 'segno undo' first, or 'segno restore' to go where you want"}
		}
	}
	return &Error{Op: "op undo", Name: string(op.ID), Kind: KindRefused, Err: errText("the thread has moved on since"),
		Hint: "run 'segno op log' and take back the newer operations first"}
}

// operation returns one operation of the workspace's log: the one asked for, or
// the newest that is neither taken back nor itself the taking back of another.
func (m *Mover) operation(ctx context.Context, id OperationID) (Operation, error) {
	log, ok := m.Store.(Workspaces)
	if !ok {
		return Operation{}, &Error{Op: "op undo", Kind: KindInvalid, Err: errText("this store keeps no operations")}
	}
	undone := map[OperationID]bool{}
	for op, err := range log.Operations(ctx, m.Workspace.ID()) {
		if err != nil {
			return op, err
		}
		if id != "" && op.ID == id {
			return op, nil
		}
		moves := op.Verb != VerbPin && op.Verb != VerbUnpin && op.Verb != VerbFork
		switch {
		case op.Verb == VerbOpUndo:
			undone[op.Undoes] = true
		case id == "" && moves && !undone[op.ID]:
			return op, nil
		}
	}
	return Operation{}, &Error{Op: "op undo", Name: string(id), Kind: KindNotFound, Err: errText("no operation to take back"),
		Hint: "run 'segno op log'"}
}

// short is as much of an id as people are shown.
func short(id OperationID) string { return string(id[:min(len(id), 6)]) }
