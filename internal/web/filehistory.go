package web

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// fileHistory is a window of the checkpoints of a thread that changed one path.
type fileHistory struct {
	Path      string      `json:"path"`
	PathBytes []byte      `json:"path_bytes,omitempty"`
	Touches   []fileTouch `json:"touches"` // newest first
	Next      int         `json:"next"`    // the cursor of the next window, 0 at the end
	// Exists reports whether the path exists in the workspace now. It is null if the workspace is not on this machine.
	Exists *bool `json:"exists"`
}

// fileTouch is a checkpoint that changed the path.
type fileTouch struct {
	history.Item
	Change sizedChange `json:"change"`
	// Before is the checkpoint with the path as it was before this one, or "".
	Before segno.CommitID `json:"before"`
	OnLine bool           `json:"on_line"` // false if it is undone
}

type fileHistoryParams struct {
	ID        segno.ThreadID `path:"id"`
	Path      string         `query:"path" max:"4096"`
	PathBytes string         `query:"path_bytes" max:"8192"`
	Limit     int            `query:"limit" default:"50" min:"1" max:"200"`
	Cursor    int            `query:"cursor"`
}

// getFileHistory lists the checkpoints that changed a path. The cursor counts the checkpoints that the earlier windows
// have examined, from the newest.
func (s *Server) getFileHistory(ctx context.Context, p *fileHistoryParams) (fileHistory, error) {
	name, err := pathOf(p.Path, p.PathBytes)
	f := fileHistory{Path: name, PathBytes: segno.PathBytes(name), Touches: []fileTouch{}}
	if err != nil {
		return f, err
	}
	h, err := s.history(ctx, p.ID)
	if err != nil {
		return f, err
	}
	if p.Cursor > len(h.shown) {
		return f, invalidParameter("cursor", "the thread has "+itoa(len(h.shown))+" checkpoints")
	}
	checkpoints := func(yield func(*segno.Checkpoint) bool) {
		for _, c := range slices.Backward(h.shown[:len(h.shown)-p.Cursor]) {
			if !yield(&c) {
				return
			}
		}
	}
	finder := timeline.PathFinder{Store: s.Store, Diff: func(ctx context.Context, a, b segno.Hash) ([]segno.Change, error) {
		return workspace.Diff(ctx, s.Store.Objects(), a, b)
	}}
	for t, err := range finder.Touching(ctx, checkpoints, name) {
		if err != nil {
			return f, err
		}
		f.Touches = append(f.Touches, newFileTouch(h, t, name))
		if len(f.Touches) == p.Limit {
			if f.Next = len(h.shown) - h.index[t.Checkpoint.ID]; f.Next == len(h.shown) {
				f.Next = 0
			}
			break
		}
	}
	f.Exists, err = s.exists(ctx, h, name)
	return f, err
}

// newFileTouch describes a change of the path name. If only paths below it have changed, it is a directory that has.
func newFileTouch(h *threadHistory, t timeline.Touch, name string) fileTouch {
	x := segno.Change{Path: name, From: segno.Entity{Type: segno.EntityDir}, To: segno.Entity{Type: segno.EntityDir}}
	for _, p := range t.Changes {
		switch {
		case p.Path == name && p.Action == timeline.Renamed:
			x.From, x.To = segno.Entity{}, p.After
		case p.Path == name:
			x.From, x.To = p.Before, p.After
		case p.From == name:
			x.From, x.To = p.Before, segno.Entity{}
		}
	}
	f := fileTouch{Item: h.Item(t.Checkpoint), OnLine: h.places[h.index[t.Checkpoint.ID]].onLine,
		Change: sizedChange{history.Signed([]segno.Change{x})[0], x.From.Size, x.To.Size}}
	if before := h.shownBefore(t.Checkpoint); before != nil {
		f.Before = before.ID
	}
	return f
}

// shownBefore returns the checkpoint in the log with which the files of c are compared, or nil. Steps of a session have no
// files.
func (h *threadHistory) shownBefore(c *segno.Checkpoint) *segno.Checkpoint {
	for {
		i, ok := h.index[c.Parent]
		if !ok {
			return nil
		}
		if c = &h.shown[i]; c.Kind != segno.CheckpointStep || !c.Tree().IsZero() {
			return c
		}
	}
}

// exists reports whether a path exists now in the workspace of a thread's newest checkpoint with files. It returns nil if
// this machine has no such workspace.
func (s *Server) exists(ctx context.Context, h *threadHistory, name string) (*bool, error) {
	if s.Local == nil {
		return nil, nil
	}
	for _, c := range slices.Backward(h.shown) {
		if c.Workspace == nil {
			continue
		}
		tree, err := s.presentTree(ctx, c.Workspace.Workspace)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			return nil, nil // the directory is gone
		}
		if err != nil {
			return nil, err
		}
		e, err := s.lookup(ctx, tree, name)
		is := e.Type != segno.EntityNone
		return &is, err
	}
	return nil, nil
}
