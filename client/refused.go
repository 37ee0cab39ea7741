package client

import (
	"context"

	"github.com/dalsegno/segno"
)

// refuse returns the error of a method that writes. A call with an ended context or after Close returns
// the error of that instead, as in any other store.
func (s *Store) refuse(ctx context.Context, op, name string) error {
	if err := s.calls.Begin(ctx, op); err != nil {
		return err
	}
	s.calls.End()
	return segno.Errorf(segno.KindRefused, op, name, "the store can only be read through the API").
		WithHint("use Preview and Apply to move a thread")
}

// Commit returns [segno.KindRefused].
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	return segno.Head{}, s.refuse(ctx, "commit", string(c.ID))
}

// Delete returns [segno.KindRefused]: the move "delete" deletes a thread.
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	return s.refuse(ctx, "delete thread", string(thread))
}

// PutWorkspace returns [segno.KindRefused].
func (s *Store) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	return s.refuse(ctx, "put workspace", string(w.ID))
}
