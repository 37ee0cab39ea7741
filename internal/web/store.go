package web

import (
	"context"

	"github.com/dalsegno/segno"
)

// storeInfo describes the store, and the workspace of the user in it.
type storeInfo struct {
	Kind       string   `json:"kind"`
	Name       string   `json:"name"`
	Version    string   `json:"version"` // of segno
	ReadOnly   bool     `json:"read_only"`
	Moves      bool     `json:"moves"`        // threads can be moved through this server
	WhyNoMoves string   `json:"why_no_moves"` // "" if they can be moved together with their files
	Share      bool     `json:"share"`        // a turn can be exported
	Demo       bool     `json:"demo"`         // a demo can be made as long as the store is empty
	Fleet      bool     `json:"fleet"`        // workers run its threads, so prompts can be sent
	Current    *current `json:"current"`      // null if the server was started in no workspace
}

// current is the workspace in which the server was started, and its thread.
type current struct {
	Workspace segno.WorkspaceID `json:"workspace"`
	Dir       string            `json:"dir"`
	Thread    segno.ThreadID    `json:"thread"`

	DirBytes []byte `json:"dir_bytes,omitempty"`
}

func (s *Server) getStore(ctx context.Context, _ *struct{}) (storeInfo, error) {
	info := storeInfo{Kind: s.Kind, Name: s.Name, Version: s.Version, Moves: true, Share: s.Share != nil, Fleet: s.Fleet != nil}
	if s.Local == nil {
		info.WhyNoMoves = "only threads move: their files are not on this machine"
	}
	if s.Local != nil && s.Local.ReadOnly() {
		info.ReadOnly, info.Moves, info.WhyNoMoves = true, false, "this user can only read the store"
	}
	info.Demo = s.Demo != nil && info.Moves
	var err error
	info.Current, err = s.current(ctx)
	return info, err
}

// current returns the workspace and the thread of the directory in which the server was started, or nil.
func (s *Server) current(ctx context.Context) (*current, error) {
	if s.Local == nil || s.Dir == "" {
		return nil, nil
	}
	rec, err := s.Local.Find(ctx, s.Dir)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &current{Workspace: rec.ID, Dir: rec.Path, Thread: rec.State.Thread, DirBytes: segno.PathBytes(rec.Path)}, nil
}
