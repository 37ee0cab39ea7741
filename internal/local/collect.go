package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// CollectLocked deletes unreachable objects while no hook or command works on any workspace. It
// also deletes the scan indexes and the index of search, because they may have what is gone now.
func (s *Store) CollectLocked(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collectLocked(ctx, p, s.Collect)
}

// collectLocked calls collect while no hook or command works on any workspace. It adds the objects
// of deferred commits, of open turns, of interrupted moves and of cut sessions, which no commit reaches yet, to the policy.
func (s *Store) collectLocked(ctx context.Context, p segno.CollectPolicy,
	collect func(context.Context, segno.CollectPolicy) (segno.Collection, error)) (none segno.Collection, err error) {
	sp := s.Spool()
	if err := s.completeAllPending(ctx); err != nil {
		return none, err
	}
	var held heldLocks
	defer held.release()
	workspaces, err := s.lockWorkspaces(ctx, &held)
	if err != nil {
		return none, err
	}
	for _, id := range []segno.WorkspaceID{packsLock, searchLock} {
		if err := held.lock(ctx, sp, id); err != nil {
			return none, err
		}
	}
	if err := errors.Join(s.keepDeferred(ctx, &p), s.keepOpenTurns(ctx, &p), s.keepInterruptedMoves(ctx, &p, workspaces), s.keepBases(ctx, &p),
		s.keepCutSessions(ctx, &p)); err != nil {
		return none, err
	}
	if !p.DryRun {
		for _, id := range workspaces {
			if err := s.place.fs().Remove(s.IndexFile(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return none, fmt.Errorf("remove scan index: %w", err)
			}
		}
		if err := s.removeSearchIndex(); err != nil {
			return none, err
		}
		defer s.forgetKept()
		if err := sp.Sweep(ctx, s.place.Now().Add(-24*time.Hour)); err != nil {
			return none, err
		}
	}
	return collect(ctx, p)
}

// heldLocks are functions that release locks.
type heldLocks []func()

// release releases the locks, the last one first.
func (h *heldLocks) release() {
	for _, unlock := range slices.Backward(*h) {
		unlock()
	}
}

// lock waits for a lock. A lock that has already been acquired would block.
func (h *heldLocks) lock(ctx context.Context, sp timeline.Spool, id segno.WorkspaceID) error {
	unlock, err := sp.Lock(ctx, id)
	if err == nil {
		*h = append(*h, unlock)
	}
	return err
}

// lockWorkspaces locks all workspaces, and then the registration of others. It returns the ids of the workspaces. The caller
// releases the locks, also after an error.
func (s *Store) lockWorkspaces(ctx context.Context, held *heldLocks) (ids []segno.WorkspaceID, err error) {
	for {
		all, err := s.workspaces(ctx)
		if err != nil {
			return nil, err
		}
		for _, rec := range all {
			if slices.Contains(ids, rec.ID) {
				continue
			}
			if err := held.lock(ctx, s.Spool(), rec.ID); err != nil {
				return nil, err
			}
			ids = append(ids, rec.ID)
		}
		// A fork registers its directory while it holds the lock of another one. So the locks of workspaces come first.
		var registration heldLocks
		if err := registration.lock(ctx, s.Spool(), registerLock); err != nil {
			return nil, err
		}
		all, err = s.workspaces(ctx)
		if err == nil && !slices.ContainsFunc(all, func(rec segno.WorkspaceRecord) bool { return !slices.Contains(ids, rec.ID) }) {
			*held = append(*held, registration...)
			return ids, nil
		}
		registration.release()
		if err != nil {
			return nil, err
		}
	}
}

// workspaces returns the records of all workspaces.
func (s *Store) workspaces(ctx context.Context) (all []segno.WorkspaceRecord, err error) {
	for rec, err := range s.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, nil
}

// packsLock is the lock of operations that move objects between packs, and of operations during which
// objects must not move.
const packsLock = "packs"

// CompressAll compresses the objects that large first snapshots stored uncompressed. No hook waits
// for it.
func (s *Store) CompressAll(ctx context.Context) error {
	unlock, err := s.Spool().Lock(ctx, packsLock)
	if err != nil {
		return err
	}
	defer unlock()
	return s.CompressPacks(ctx, -1)
}

// CompressSome compresses one pack of the objects that a large first snapshot stored uncompressed,
// which takes about 45 ms of one core. The proxy and commands call it after they have answered, and
// a hook calls it when the turn is recorded, before it answers the agent. It does nothing if another
// process holds the lock of the packs or of the store.
func (s *Store) CompressSome(ctx context.Context) error {
	if s.readOnly {
		return nil
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // so that Lock does not wait
	unlock, err := s.Spool().Lock(now, packsLock)
	if err == nil {
		defer unlock()
		err = s.CompressPacks(ctx, 1)
	}
	if segno.KindOf(err) == segno.KindBusy {
		return nil
	}
	return err
}

// Check implements [segno.Checker]. While it runs, no other process moves objects between packs.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	if !s.readOnly {
		unlock, err := s.Spool().Lock(ctx, packsLock)
		if err != nil {
			return segno.Checked{}, err
		}
		defer unlock()
	}
	return s.Store.Check(ctx, p, report)
}

// completeAllPending commits the deferred commits of every workspace and completes its interrupted
// moves. Until then, no commit reaches the objects that a deferred commit staged.
func (s *Store) completeAllPending(ctx context.Context) error {
	all, err := s.workspaces(ctx) // the list is complete before the store is written
	if err != nil {
		return err
	}
	for _, rec := range all {
		t, err := s.Timeline(rec, nil)
		if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindRefused {
			// The directory is gone or belongs to another user. The timelines of other workspaces commit its
			// deferred commits. Without another workspace, the commits stay deferred.
			continue
		}
		if err == nil {
			_, err = t.CompletePending(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepDeferred adds the checkpoints of commits that are still deferred to the policy and keeps the objects that the commits staged.
// Such commits remain if no workspace can be opened now, for example because the only one is on a disk that is not mounted.
func (s *Store) keepDeferred(ctx context.Context, p *segno.CollectPolicy) error {
	waiting, err := s.Spool().ListDeferred(ctx)
	if err != nil {
		return err
	}
	for _, c := range waiting {
		if err := s.Objects().Keep(ctx, c.Staged); err != nil {
			return fmt.Errorf("keep the objects of a deferred commit: %w", err)
		}
		var kept segno.Checkpoint
		if c.Checkpoint != nil {
			kept = *c.Checkpoint
		}
		kept.Parent = c.Parent
		p.Checkpoints = append(p.Checkpoints, kept)
		if c.Link != nil && c.Link.Position != nil {
			p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{Session: c.Link.Position})
		}
		if c.Workspace != nil {
			p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{Workspace: c.Workspace.Snapshot})
		}
		for _, name := range c.Needs {
			p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{State: &segno.Document{Data: name}})
		}
	}
	return nil
}

// keepOpenTurns adds the snapshots of open turns to the policy and keeps the objects that the turns
// staged.
func (s *Store) keepOpenTurns(ctx context.Context, p *segno.CollectPolicy) error {
	turns, err := s.Spool().Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if err := s.Objects().Keep(ctx, t.Staged); err != nil {
			return fmt.Errorf("keep the objects of an open turn: %w", err)
		}
		p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{Workspace: t.Before})
	}
	return nil
}

// keepInterruptedMoves adds to the policy the contents that interrupted moves still write. Such a move remains if its directory
// cannot be opened now, for example because it is on a disk that is not mounted. No commit reaches the contents that the move merged.
func (s *Store) keepInterruptedMoves(ctx context.Context, p *segno.CollectPolicy, workspaces []segno.WorkspaceID) error {
	for _, id := range workspaces {
		data, err := s.Spool().ReadPlan(ctx, id)
		if err != nil {
			return err
		}
		var plan timeline.Plan
		if data == nil || json.Unmarshal(data, &plan) != nil {
			continue // the next move in the directory reports a damaged plan
		}
		for _, step := range plan.Steps {
			for _, name := range []segno.Hash{step.To.Hash, step.To.Xattrs} {
				if !name.IsZero() {
					p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{State: &segno.Document{Data: name}})
				}
			}
		}
	}
	return nil
}

// keepBases adds to the policy the bases that are newer than the newest commit about their workspace. It
// removes the other bases.
func (s *Store) keepBases(ctx context.Context, p *segno.CollectPolicy) error {
	bases, err := s.Spool().Bases(ctx)
	if err != nil {
		return err
	}
	for _, b := range bases {
		rec, err := s.Workspace(ctx, b.Snapshot.Workspace)
		switch {
		case segno.KindOf(err) == segno.KindNotFound, err == nil && rec.State.Snapshot != nil && !b.Time.After(rec.State.Time):
			err = s.Spool().RemoveBase(b.Snapshot.Workspace)
		case err == nil:
			p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{Workspace: &b.Snapshot})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepCutSessions adds to the policy the transcripts of sessions that segno has cut and that the user has
// not prompted yet.
func (s *Store) keepCutSessions(ctx context.Context, p *segno.CollectPolicy) error {
	for t, err := range s.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			return err
		}
		for l, err := range s.Chain(ctx, t.ID) {
			if err != nil {
				return err
			}
			if l.Position != nil {
				p.Checkpoints = append(p.Checkpoints, segno.Checkpoint{Session: l.Position})
			}
		}
	}
	return nil
}
