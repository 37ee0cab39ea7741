package moves

import (
	"context"
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
)

// maxFound is the number of each workspace's newest operations that Find reads.
const maxFound = 200

// Find returns the outcome of a move by the id of its operation. A process that lost the outcome of a move calls it so
// that it does not repeat the move. The result has the pointers and the undo, but not the files and commands of the
// first outcome. The error has [segno.KindNotFound] if the logs have no such operation. Find completes an interrupted
// move under that id.
func (e *Engine) Find(ctx context.Context, id segno.OperationID) (*Outcome, error) {
	none := segno.NewError(segno.KindNotFound, "find operation", string(id), nil)
	if e.Local == nil {
		return nil, none
	}
	for rec, err := range e.Local.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return nil, err
		}
		if err := e.completeOwn(ctx, rec, id); err != nil {
			return nil, err
		}
		seen := 0
		for op, err := range e.Local.Operations(ctx, rec.ID) {
			if err != nil {
				return nil, err
			}
			if op.ID == id {
				return outcomeOf(op), nil
			}
			if seen++; seen == maxFound {
				break
			}
		}
	}
	return nil, none
}

// completeOwn completes an interrupted move of a workspace, if it has the id.
func (e *Engine) completeOwn(ctx context.Context, rec segno.WorkspaceRecord, id segno.OperationID) error {
	data, err := e.Local.Spool().ReadPlan(ctx, rec.ID)
	if err != nil || data == nil {
		return err
	}
	var plan timeline.Plan
	if json.Unmarshal(data, &plan) != nil || plan.Operation != id {
		return nil // CompletePending reports a damaged plan
	}
	tl, err := e.Local.Timeline(rec, nil)
	if err != nil {
		return err
	}
	_, err = tl.CompletePending(ctx)
	return err
}

func outcomeOf(op segno.Operation) *Outcome {
	o := &Outcome{Operation: op.ID, Verb: requestVerb(op.Verb), Thread: op.Thread, Head: op.After.Head, Tip: op.After.Tip,
		Conflicts: []UnwrittenPath{}, Kept: []UnwrittenPath{}, Changes: []history.Change{}, Run: []string{},
		Notice: "it was made before"}
	if op.Forked != "" {
		o.Fork = &ForkedThread{Thread: op.Forked}
	}
	o.Undo = &Request{Verb: verbOpUndo, Thread: op.Thread, Operation: op.ID}
	return o
}

// requestVerb returns the verb of the request that made an operation.
func requestVerb(v segno.Verb) string {
	if v == segno.VerbOpUndo {
		return verbOpUndo
	}
	return string(v)
}
