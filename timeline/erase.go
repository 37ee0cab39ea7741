package timeline

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// Purge deletes a thread with its parts (subagents' runs, namespaces of a saver), removes their
// pins, and erases them: see [segno.Eraser]. Data that a fork or a checkpoint of another thread
// reaches stays. If a run holds the thread, the error has [segno.KindRefused]. If Purge fails
// after it deleted the thread, the caller can complete it with Erase. A DryRun is
// [segno.KindInvalid], because nothing of a thread that still exists can be erased.
func Purge(ctx context.Context, s segno.Store, thread segno.ThreadID, p segno.CollectPolicy) (segno.Collection, error) {
	const op = "purge thread"
	eraser, ok := s.(segno.Eraser)
	if !ok {
		return segno.Collection{}, segno.Errorf(segno.KindInvalid, op, string(thread), "the store cannot erase")
	}
	if p.DryRun {
		return segno.Collection{}, segno.Errorf(segno.KindInvalid, op, string(thread), "a dry run is not supported for a purge")
	}
	all, err := deletable(ctx, s, op, thread)
	if err != nil {
		return segno.Collection{}, err
	}
	for _, id := range all {
		if err := unpinAll(ctx, s, id); err != nil {
			return segno.Collection{}, err
		}
	}
	if err := deleteAll(ctx, s, all); err != nil {
		return segno.Collection{}, err
	}
	return eraser.Erase(ctx, p)
}

// DeleteWhole deletes a thread with its parts (subagents' runs, namespaces of a saver). If a
// run holds the thread, the error has [segno.KindRefused].
func DeleteWhole(ctx context.Context, s segno.Store, thread segno.ThreadID) error {
	all, err := deletable(ctx, s, "delete thread", thread)
	if err != nil {
		return err
	}
	return deleteAll(ctx, s, all)
}

// RefuseDelete returns the error with which [DeleteWhole] would refuse to delete a thread now, or nil.
func RefuseDelete(ctx context.Context, s segno.Store, thread segno.ThreadID) error {
	_, err := deletable(ctx, s, "delete thread", thread)
	return err
}

func deleteAll(ctx context.Context, s segno.Store, threads []segno.ThreadID) error {
	for _, id := range threads {
		if err := s.Delete(ctx, id); err != nil && segno.KindOf(err) != segno.KindNotFound {
			return err
		}
	}
	return nil
}

// deletable returns a thread and its parts, or an error if a run holds one of them.
func deletable(ctx context.Context, s segno.Store, op string, thread segno.ThreadID) ([]segno.ThreadID, error) {
	all, err := withParts(ctx, s, thread)
	leaser, ok := s.(segno.Leaser)
	if err != nil || !ok {
		return all, err
	}
	for _, id := range all {
		held, err := leaser.LeaseOf(ctx, id)
		if err != nil {
			return nil, err
		}
		if held.Owner != "" {
			return nil, segno.Errorf(segno.KindRefused, op, string(id), "a run of the thread is in progress").WithHint("stop the run first")
		}
	}
	return all, nil
}

// withParts returns a thread and all threads that are parts of it.
func withParts(ctx context.Context, s segno.Store, thread segno.ThreadID) ([]segno.ThreadID, error) {
	if _, err := s.Head(ctx, thread); err != nil {
		return nil, err
	}
	all := []segno.ThreadID{thread}
	for i := 0; i < len(all); i++ {
		parts, err := threadIDs(ctx, s, segno.ThreadQuery{ParentThread: all[i]})
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

func threadIDs(ctx context.Context, s segno.Store, q segno.ThreadQuery) (all []segno.ThreadID, err error) {
	for t, err := range s.Threads(ctx, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, t.ID)
	}
	return all, nil
}

// unpinAll removes all pins on checkpoints of a thread. It starts again if another writer
// moves the head.
func unpinAll(ctx context.Context, s segno.Store, thread segno.ThreadID) error {
	err := unpinOnce(ctx, s, thread)
	for lost := (*segno.ConflictError)(nil); errors.As(err, &lost) && ctx.Err() == nil; {
		err = unpinOnce(ctx, s, thread)
	}
	return err
}

func unpinOnce(ctx context.Context, s segno.Store, thread segno.ThreadID) error {
	head, err := s.Head(ctx, thread)
	if err != nil {
		return err
	}
	var pinned []segno.CommitID
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread, Pinned: true}) {
		if err != nil {
			return err
		}
		pinned = append(pinned, c.ID)
	}
	for _, id := range pinned {
		c := newCommit(head)
		c.Pin = &segno.Pin{Checkpoint: id}
		if _, err := s.Commit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
