package proxy

import (
	"context"
	"fmt"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// site is the workspace of the session's directory. It is looked for once in a turn, or
// again if another directory has taken its place.
func (s *session) site(ctx context.Context) (*timeline.Timeline, error) {
	if s.turn != nil && s.turn.site.isCurrent() {
		return s.turn.site.site.WithLease(s.lease), nil
	}
	rec, err := s.proxy.store.RegisterRoot(ctx, s.page.Dir)
	if err != nil {
		return nil, err
	}
	site, err := s.proxy.store.Timeline(rec, nil)
	if err != nil {
		return nil, err
	}
	if s.turn != nil {
		s.turn.site = openedSite(site)
	}
	return site.WithLease(s.lease), nil
}

// openSite is the workspace in which a turn works.
type openSite struct {
	site *timeline.Timeline
	root os.FileInfo // of the directory when it was opened; nil if that is not known
}

func openedSite(site *timeline.Timeline) openSite {
	root, _ := os.Stat(site.Workspace.Root()) // without it the next use opens it again
	return openSite{site, root}
}

// isCurrent reports whether the workspace's directory is still where it was.
func (o *openSite) isCurrent() bool {
	if o.root == nil {
		return false
	}
	now, err := os.Stat(o.site.Workspace.Root())
	return err == nil && os.SameFile(o.root, now)
}

// source says where the agent keeps the session.
func (s *session) source() segno.Source {
	return segno.Source{Session: s.up, Dir: s.page.Dir}
}

// own makes the session's thread, if it has none yet, and takes the lease on it.
func (s *session) own(ctx context.Context, t *turn) error {
	if s.thread == "" {
		if err := s.openThread(ctx, t.text); err != nil {
			return err
		}
		h, err := s.footing(ctx)
		if err != nil {
			return err
		}
		s.has = h.turnID() // a session older than segno has turns
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	t.keep(s.proxy, s.lease)
	return s.closeLeft(ctx)
}

// join records that the thread goes on in a session of the agent's.
func (s *session) join(ctx context.Context, link segno.Link) error {
	ctx = context.WithoutCancel(ctx) // the agent has the session already: it must not be forgotten
	if s.turn != nil && s.turn.unrecorded {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	if err := site.JoinSession(ctx, s.thread, link); err != nil {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

// goesOn records that the open turn goes on in the session and the process there are
// now.
func (s *session) goesOn(ctx context.Context, t *turn, proc *process) error {
	if !t.begun || t.unrecorded {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	return site.UpdateTurn(ctx, t.key, func(open *timeline.OpenTurn) {
		open.Source = s.source()
		open.Group, open.GroupStart = proc.group()
	})
}
