package proxy

import (
	"context"

	"github.com/dalsegno/segno/timeline"
)

// tidy records what a run before this one left open: its agent is ended, its turn
// is interrupted.
func (s *session) tidy(ctx context.Context) error {
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	if err := s.endOrphans(ctx, site); err != nil {
		return err
	}
	return site.CloseAbandonedTurns(ctx)
}

// endOrphans ends agents that earlier runs of ours started and left behind: they
// would go on with turns that are about to be closed, in sessions that are about to
// go on.
func (s *session) endOrphans(ctx context.Context, site *timeline.Timeline) error {
	turns, err := site.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Owner != "" && ownerGone(t.Owner) && t.Group > 1 && groupLives(t.Group, t.GroupStart) {
			s.proxy.logf("ending the agent of a run that is gone (process group %d)", t.Group)
			killGroup(t.Group)
			waitGroup(ctx, t.Group)
		}
	}
	return nil
}

// closeLeft ends the turns of the thread that are still open although the lease on it is
// ours: they are over, and the store did not take their end.
func (s *session) closeLeft(ctx context.Context) error {
	if s.late != nil && s.proxy.Place.Spool().Has(s.late.key) { // else another client ended it
		if err := s.writeNotes(s.late); err != nil {
			return err
		}
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	return site.CloseThreadTurns(ctx, s.thread)
}
