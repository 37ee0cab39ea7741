package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dalsegno/segno"
)

// CollectLocked drops what nothing reaches while no hook or command works on any
// workspace. The scan indexes go too if anything was dropped: they promise that
// objects are there which may be gone.
func (s *Store) CollectLocked(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.locked(ctx, p, s.Collect)
}

// locked calls collect while no hook or command works on any workspace, with a policy that
// keeps what is not in the store yet.
func (s *Store) locked(ctx context.Context, p segno.CollectPolicy, collect func(context.Context, segno.CollectPolicy) (segno.Collection, error)) (segno.Collection, error) {
	sp := s.place.Spool()
	var recs []segno.WorkspaceRecord
	for rec, err := range s.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return segno.Collection{}, err
		}
		recs = append(recs, rec)
	}
	var ids []segno.WorkspaceID
	for _, rec := range recs {
		ids = append(ids, rec.ID)
		if err := s.catchUp(ctx, rec); err != nil {
			return segno.Collection{}, err
		}
	}
	ids = append(ids, packsLock)
	for _, id := range ids {
		unlock, err := sp.Lock(ctx, id)
		if err != nil {
			return segno.Collection{}, err
		}
		defer unlock()
	}
	if !p.DryRun {
		for _, id := range ids[:len(recs)] {
			if err := s.place.fs().Remove(s.IndexFile(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return segno.Collection{}, fmt.Errorf("forget scan index: %w", err)
			}
		}
	}
	if err := s.spooled(ctx, &p); err != nil {
		return segno.Collection{}, err
	}
	if err := s.cuts(ctx, &p); err != nil {
		return segno.Collection{}, err
	}
	if !p.DryRun {
		if err := sp.Sweep(ctx, s.place.Now().Add(-24*time.Hour)); err != nil {
			return segno.Collection{}, err
		}
	}
	return collect(ctx, p)
}

// packsLock is the lock of what moves objects to other packs, or must not see them move.
const packsLock = "packs"

// CompressAll compresses what large first snapshots stored plain. No hook waits for it.
func (s *Store) CompressAll(ctx context.Context) error {
	unlock, err := s.place.Spool().Lock(ctx, packsLock)
	if err != nil {
		return err
	}
	defer unlock()
	return s.CompressPacks(ctx, -1)
}

// CompressSome compresses a bounded part of what a large first snapshot stored plain: one
// pack, which takes about 45 ms of one core. Hooks, the proxy and commands call it when they
// have answered. It does nothing while another process has the packs or the store.
func (s *Store) CompressSome(ctx context.Context) error {
	if s.readOnly {
		return nil
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // so that Lock does not wait
	unlock, err := s.place.Spool().Lock(now, packsLock)
	if err == nil {
		defer unlock()
		err = s.CompressPacks(ctx, 1)
	}
	if segno.KindOf(err) == segno.KindBusy {
		return nil
	}
	return err
}

// Check is [segno.Checker], while no other process moves objects to other packs.
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	if !s.readOnly {
		unlock, err := s.place.Spool().Lock(ctx, packsLock)
		if err != nil {
			return segno.Checked{}, err
		}
		defer unlock()
	}
	return s.Store.Check(ctx, p, report)
}

// catchUp lands what waits for the store: what it staged is not reachable yet.
func (s *Store) catchUp(ctx context.Context, rec segno.WorkspaceRecord) error {
	site, err := s.Timeline(rec, nil)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindRefused {
		return nil // the directory is gone, or another user's; another workspace's site lands its commits too
	}
	if err != nil {
		return err
	}
	return site.CompletePending(ctx)
}

// spooled keeps what open turns stand on, and refuses to go on while commits wait:
// nothing reaches yet what they staged.
func (s *Store) spooled(ctx context.Context, p *segno.CollectPolicy) error {
	sp := s.place.Spool()
	waiting, err := sp.Waiting(ctx)
	if err != nil {
		return err
	}
	if len(waiting) > 0 {
		return segno.Errorf(segno.KindBusy, "gc", s.place.Store, "commits that wait for the store: %d", len(waiting)).WithHint("try again in a moment")
	}
	turns, err := sp.Turns(ctx)
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

// cuts keeps the transcripts of sessions that were cut and not prompted yet.
func (s *Store) cuts(ctx context.Context, p *segno.CollectPolicy) error {
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
