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
	return segno.Errorf(segno.KindRefused, op, name, "the API does not offer it").
		WithHint("use Preview and Apply to move a thread")
}

// Delete returns [segno.KindRefused]: the move "delete" deletes a thread.
func (s *Store) Delete(ctx context.Context, thread segno.ThreadID) error {
	return s.refuse(ctx, "delete thread", string(thread))
}

// PutWorkspace returns [segno.KindRefused].
func (s *Store) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	return s.refuse(ctx, "put workspace", string(w.ID))
}
