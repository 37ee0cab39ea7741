package timeline

import (
	"slices"

	"github.com/dalsegno/segno"
)

// OutdatedError is the cause of a [segno.KindConflict] of [Timeline.Move]: the plan differs from
// the one that the user accepted.
type OutdatedError struct{ Changed string }

func (e *OutdatedError) Error() string { return e.Changed + " changed since the preview" }

// checkSeen returns an error if p differs from seen, which may be nil. It ignores the parts that
// always differ between two plans of one move: the id of the operation, the time, and files that
// the move does not touch.
func (p *Plan) checkSeen(seen *Plan, name string) error {
	if seen == nil {
		return nil
	}
	changed := ""
	switch {
	case seen.Thread != p.Thread || seen.Before.Head != p.Before.Head || seen.Before.Tip != p.Before.Tip:
		changed = "the thread"
	case !seen.hasFilesOf(p):
		changed = "the files"
	case seen.Target != p.Target || seen.Tip != p.Tip || seen.Restore != p.Restore || seen.Args != p.Args ||
		seen.Undoes != p.Undoes || seen.Finishes != p.Finishes || !slices.Equal(seen.Turns, p.Turns):
		changed = "the operations"
	default:
		return nil
	}
	return segno.NewError(segno.KindConflict, string(p.Verb), name, &OutdatedError{changed}).
		WithHint("run the command again to see the new plan")
}

// hasFilesOf reports whether two plans do the same with files.
func (p *Plan) hasFilesOf(x *Plan) bool {
	return slices.Equal(p.Steps, x.Steps) && slices.Equal(p.Forced, x.Forced) &&
		slices.Equal(p.Conflicts, x.Conflicts) && slices.Equal(p.Kept, x.Kept)
}
