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
	for _, id := range ids {
		unlock, err := sp.Lock(ctx, id)
		if err != nil {
			return segno.Collection{}, err
		}
		defer unlock()
	}
	if !p.DryRun {
		for _, id := range ids {
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

// catchUp lands what waits for the store: what it staged is not reachable yet.
func (s *Store) catchUp(ctx context.Context, rec segno.WorkspaceRecord) error {
	site, err := s.Site(rec, nil)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindRefused {
		return nil // the directory is gone, or another user's; another workspace's site lands its commits too
	}
	if err != nil {
		return err
	}
	return site.CatchUp(ctx)
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
		return &segno.Error{Op: "gc", Name: s.place.Store, Kind: segno.KindBusy, Err: fmt.Errorf("commits that wait for the store: %d", len(waiting)),
			Hint: "try again in a moment"}
	}
	turns, err := sp.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if err := s.Objects().Keep(ctx, t.Staged); err != nil {
			return fmt.Errorf("keep what an open turn stands on: %w", err)
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
