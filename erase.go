package segno

import (
	"context"
	"errors"
)

// Purge deletes a thread with its parts (subagents' runs, namespaces of a saver), removes
// their pins, and erases them: see [Eraser]. Data that a fork or another thread's
// checkpoint reaches stays. A thread that a run holds is [KindRefused]. If Purge fails after the thread
// is deleted, Erase completes it. A DryRun is [KindInvalid]: the thread is still there.
func Purge(ctx context.Context, s Store, thread ThreadID, p CollectPolicy) (Collection, error) {
	const op = "purge thread"
	eraser, ok := s.(Eraser)
	if !ok {
		return Collection{}, Errorf(KindInvalid, op, string(thread), "the store cannot erase")
	}
	if p.DryRun {
		return Collection{}, Errorf(KindInvalid, op, string(thread), "a purge cannot be tried out")
	}
	all, err := withParts(ctx, s, thread)
	if err != nil {
		return Collection{}, err
	}
	if err := refuseHeld(ctx, s, op, all); err != nil {
		return Collection{}, err
	}
	for _, id := range all {
		if err := unpinAll(ctx, s, id); err != nil {
			return Collection{}, err
		}
	}
	if err := deleteAll(ctx, s, all); err != nil {
		return Collection{}, err
	}
	return eraser.Erase(ctx, p)
}

// DeleteWhole deletes a thread with its parts (subagents' runs, namespaces of a saver). A
// thread that a run holds is [KindRefused].
func DeleteWhole(ctx context.Context, s Store, thread ThreadID) error {
	all, err := withParts(ctx, s, thread)
	if err != nil {
		return err
	}
	if err := refuseHeld(ctx, s, "delete thread", all); err != nil {
		return err
	}
	return deleteAll(ctx, s, all)
}

func deleteAll(ctx context.Context, s Store, threads []ThreadID) error {
	for _, id := range threads {
		if err := s.Delete(ctx, id); err != nil && KindOf(err) != KindNotFound {
			return err
		}
	}
	return nil
}

// refuseHeld refuses to delete threads that a run holds.
func refuseHeld(ctx context.Context, s Store, op string, threads []ThreadID) error {
	leaser, ok := s.(Leaser)
	if !ok {
		return nil
	}
	for _, id := range threads {
		held, err := leaser.LeaseOf(ctx, id)
		if err != nil {
			return err
		}
		if held.Owner != "" {
			return Errorf(KindRefused, op, string(id), "a run holds the thread").WithHint("stop the run first")
		}
	}
	return nil
}

// withParts returns a thread and all threads that are parts of it.
func withParts(ctx context.Context, s Store, thread ThreadID) ([]ThreadID, error) {
	if _, err := s.Head(ctx, thread); err != nil {
		return nil, err
	}
	all := []ThreadID{thread}
	for i := 0; i < len(all); i++ {
		for t, err := range s.Threads(ctx, ThreadQuery{ParentThread: all[i]}) {
			if err != nil {
				return nil, err
			}
			all = append(all, t.ID)
		}
	}
	return all, nil
}

// unpinAll removes all pins on checkpoints of a thread.
func unpinAll(ctx context.Context, s Store, thread ThreadID) error {
	for {
		err := unpinOnce(ctx, s, thread)
		var lost *ConflictError
		if !errors.As(err, &lost) || ctx.Err() != nil {
			return err
		}
	}
}

func unpinOnce(ctx context.Context, s Store, thread ThreadID) error {
	head, err := s.Head(ctx, thread)
	if err != nil {
		return err
	}
	var pinned []CommitID
	for c, err := range s.Checkpoints(ctx, CheckpointQuery{Thread: thread, Pinned: true}) {
		if err != nil {
			return err
		}
		pinned = append(pinned, c.ID)
	}
	for _, id := range pinned {
		_, err := s.Commit(ctx, Commit{ID: CommitID(NewID()), Thread: thread, Expect: head.Head, Epoch: head.Epoch, Pin: &Pin{Checkpoint: id}})
		if err != nil {
			return err
		}
	}
	return nil
}
