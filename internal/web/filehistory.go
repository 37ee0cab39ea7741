package web

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
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
	list := slices.Clone(h.shown[:len(h.shown)-p.Cursor])
	slices.Reverse(list)
	for t, err := range h.Touches(ctx, s.Store.Objects(), list, name) {
		if err != nil {
			return f, err
		}
		f.Touches = append(f.Touches, newFileTouch(h, t))
		if len(f.Touches) == p.Limit {
			if f.Next = len(h.shown) - h.index[t.At.ID]; f.Next == len(h.shown) {
				f.Next = 0
			}
			break
		}
	}
	f.Exists, err = s.exists(ctx, h, name)
	return f, err
}

func newFileTouch(h *threadHistory, t history.Touch) fileTouch {
	f := fileTouch{Item: h.Item(t.At), OnLine: h.places[h.index[t.At.ID]].onLine,
		Change: sizedChange{history.Signed([]segno.Change{t.Change})[0], t.Change.From.Size, t.Change.To.Size}}
	if t.Before != nil {
		f.Before = t.Before.ID
	}
	return f
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
