package local

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// Erase implements [segno.Eraser]. Like CollectLocked, it runs while no hook or command works on
// any workspace. It returns [segno.KindBusy] if commits are still deferred, because they have contents that it could not erase.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collectLocked(ctx, p, func(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
		if err := s.refuseDeferred(ctx); err != nil {
			return segno.Collection{}, err
		}
		return s.Store.Erase(ctx, p)
	})
}

// refuseDeferred returns [segno.KindBusy] if commits are deferred.
func (s *Store) refuseDeferred(ctx context.Context) error {
	waiting, err := s.Spool().ListDeferred(ctx)
	if err == nil && len(waiting) > 0 {
		err = segno.Errorf(segno.KindBusy, "erase", s.place.Store, "%d commits are still deferred", len(waiting)).
			WithHint("run 'segno status' in the directory in which the agent worked")
	}
	return err
}

// PurgeThread deletes a thread and erases it; see timeline.Purge. It also removes the open turns of
// the thread from the spool. It returns [segno.KindRefused] if the process of an open turn is
// alive, and [segno.KindBusy] if commits are still deferred. It has deleted nothing then.
func (s *Store) PurgeThread(ctx context.Context, thread segno.ThreadID) (segno.Collection, error) {
	// A deferred commit of the thread would fail after the deletion and stay in the spool.
	if err := s.completeAllPending(ctx); err != nil {
		return segno.Collection{}, err
	}
	if err := s.refuseDeferred(ctx); err != nil {
		return segno.Collection{}, err
	}
	turns, err := s.openTurns(ctx, "purge thread", thread)
	if err != nil {
		return segno.Collection{}, err
	}
	for _, t := range turns {
		if err := s.Spool().DeleteTurn(ctx, t.Key); err != nil {
			return segno.Collection{}, err
		}
	}
	return timeline.Purge(ctx, s, thread, segno.CollectPolicy{Trace: s.NewTrace()})
}

// DeleteThread deletes a thread. Workspaces that are at the thread are at no thread afterwards. It
// returns [segno.KindRefused] if the process of an open turn is alive.
func (s *Store) DeleteThread(ctx context.Context, thread segno.ThreadID) error {
	if _, err := s.openTurns(ctx, "delete thread", thread); err != nil {
		return err
	}
	head, err := s.Head(ctx, thread)
	if err != nil {
		return err
	}
	for rec, err := range s.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return err
		}
		if rec.State.Thread != thread {
			continue
		}
		state := rec.State
		state.Thread = ""
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Expect: head.Head, Epoch: head.Epoch, Workspace: &state}
		if _, err := s.Commit(ctx, c); err != nil {
			return err
		}
	}
	return timeline.DeleteWhole(ctx, s, thread)
}

// RefuseDelete returns the error with which [Store.DeleteThread] would refuse to delete a thread now, or nil.
func (s *Store) RefuseDelete(ctx context.Context, thread segno.ThreadID) error {
	if _, err := s.openTurns(ctx, "delete thread", thread); err != nil {
		return err
	}
	return timeline.RefuseDelete(ctx, s, thread)
}

// openTurns returns the turns of a thread in the spool. It returns [segno.KindRefused] if the
// process of such a turn is alive.
func (s *Store) openTurns(ctx context.Context, op string, thread segno.ThreadID) (of []timeline.OpenTurn, err error) {
	turns, err := s.Spool().Turns(ctx)
	if err != nil {
		return nil, err
	}
	isRunning := s.Spool().Alive(s.place.Now)
	for _, t := range turns {
		if t.Thread != thread {
			continue
		}
		if isRunning(t) {
			return nil, segno.Errorf(segno.KindRefused, op, string(thread), "a turn is open").WithHint("wait until the agent is done, or stop it")
		}
		of = append(of, t)
	}
	return of, nil
}

// OpenThreads returns the threads with a turn in the spool. The value is true if the process of
// such a turn is alive.
func (s *Store) OpenThreads(ctx context.Context) (map[segno.ThreadID]bool, error) {
	turns, err := s.Spool().Turns(ctx)
	if err != nil {
		return nil, err
	}
	running, isRunning := map[segno.ThreadID]bool{}, s.Spool().Alive(s.place.Now)
	for _, t := range turns {
		if t.Thread != "" {
			running[t.Thread] = running[t.Thread] || isRunning(t)
		}
	}
	return running, nil
}
