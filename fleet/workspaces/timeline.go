package workspaces

import (
	"context"
	"strconv"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// IDOf returns the id of the workspace of a thread on a fleet. It is the same on each machine, and differs from those of
// other threads: a fork has separate files.
func IDOf(t segno.Thread) segno.WorkspaceID {
	return segno.WorkspaceID(segno.DerivedID("workspace of thread", string(t.ID), strconv.FormatInt(t.Created.UnixNano(), 10)))
}

// TimelineOptions configure [Checkout.Timeline].
type TimelineOptions struct {
	Store       segno.Store                 // of the thread
	Actor       string                      // see [timeline.Config]
	Transcripts map[string]segno.Transcript // see [timeline.Config]
}

// Timeline returns a timeline over the files. Its store records the workspace under its id, and not under the directory,
// which is another one on each machine.
func (d *Checkout) Timeline(ctx context.Context, o TimelineOptions) (*timeline.Timeline, error) {
	id := d.state.Workspace
	if known, ok := o.Store.(segno.Workspaces); ok {
		_, err := known.Workspace(ctx, id)
		if segno.KindOf(err) == segno.KindNotFound {
			err = known.PutWorkspace(ctx, segno.WorkspaceRecord{ID: id, Path: d.Files(), Created: time.Now().UTC()})
		}
		if err != nil {
			return nil, err
		}
	} else {
		return nil, segno.Errorf(segno.KindInvalid, "open timeline", d.Files(), "the store does not keep workspaces").
			WithHint("use store/postgres")
	}
	w, err := workspace.Open(d.Files(), workspace.Options{ID: id, Objects: o.Store.Objects(), Index: d.Index()})
	if err != nil {
		return nil, err
	}
	s := d.Spool()
	return timeline.Open(timeline.Config{Store: o.Store, Workspace: w, Spool: s, Now: time.Now, Alive: s.Alive(time.Now),
		Actor: o.Actor, Transcripts: o.Transcripts}), nil
}

// Spool returns the spool of the timelines over the files.
func (d *Checkout) Spool() *spool.Dir { return spool.New(d.StateDir(), vfs.OS) }

// CheckRecorded returns an error if the store lacks something that a timeline over the files recorded: a turn that did not
// end, or a commit that a busy store did not accept. The caller then discards the directory, and another attempt runs the
// turn again.
func (d *Checkout) CheckRecorded(ctx context.Context, tl *timeline.Timeline) error {
	if _, err := tl.CompletePending(ctx); err != nil {
		return err
	}
	s := d.Spool()
	open, err := s.Turns(ctx)
	if err != nil {
		return err
	}
	waiting, err := s.ListDeferred(ctx)
	if err == nil && len(open)+len(waiting) > 0 {
		err = segno.Errorf(segno.KindIO, "record turn", string(d.state.Workspace), "the store did not accept the end of the turn")
	}
	return err
}
