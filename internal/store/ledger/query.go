package ledger

import "github.com/dalsegno/segno"

// CheckWindow returns an error for a window that Load does not accept.
func CheckWindow(at segno.CommitID, w segno.Window) error {
	if w.Last < 0 {
		return segno.Errorf(segno.KindInvalid, "load", string(at), "the window is negative")
	}
	return nil
}

// CheckQuery returns an error for a query that Checkpoints does not accept.
func CheckQuery(q *segno.CheckpointQuery) error {
	if q.Before != 0 && q.Thread == "" || q.Before < 0 || q.Limit < 0 {
		return segno.Errorf(segno.KindInvalid, "list checkpoints", "", "Before requires Thread; Before and Limit must not be negative")
	}
	return nil
}
