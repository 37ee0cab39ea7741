package web

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// present is the value of a parameter that stands for the current files of the workspace.
const present = "present"

// presentTrees caches the newest snapshots of workspaces, so that the requests of one view share a snapshot.
type presentTrees struct {
	mu    sync.Mutex
	trees map[segno.WorkspaceID]presentTree
}

type presentTree struct {
	tree segno.Hash
	at   time.Time
}

// maxPresentAge is the age at which a snapshot of the present is taken again.
const maxPresentAge = 2 * time.Second

// treesOf returns the trees of two checkpoints. An empty from means the empty tree; to can be present.
func (s *Server) treesOf(ctx context.Context, from, to segno.CommitID) (a, b segno.Hash, err error) {
	workspace := segno.WorkspaceID("")
	if from != "" {
		c, err := s.checkpointWithFiles(ctx, from)
		if err != nil {
			return a, b, err
		}
		a, workspace = c.Tree(), c.Workspace.Workspace
	}
	if to == present {
		b, err = s.presentTree(ctx, workspace)
		return a, b, err
	}
	c, err := s.checkpointWithFiles(ctx, to)
	if err != nil {
		return a, b, err
	}
	return a, c.Tree(), nil
}

func (s *Server) checkpointWithFiles(ctx context.Context, id segno.CommitID) (*segno.Checkpoint, error) {
	c, err := s.loadCheckpoint(ctx, id)
	if err == nil && c.Tree().IsZero() {
		err = segno.Errorf(segno.KindNotFound, "read files", string(id), "the checkpoint has no files")
	}
	return c, err
}

// presentTree returns the tree of a workspace's current files.
func (s *Server) presentTree(ctx context.Context, id segno.WorkspaceID) (segno.Hash, error) {
	if s.Local == nil || id == "" {
		return segno.Hash{}, segno.Errorf(segno.KindInvalid, "read files", present, "this store has no workspace on this machine")
	}
	s.presents.mu.Lock()
	defer s.presents.mu.Unlock()
	if p, ok := s.presents.trees[id]; ok && time.Since(p.at) < maxPresentAge {
		return p.tree, nil
	}
	rec, err := s.Local.Workspace(ctx, id)
	if err != nil {
		return segno.Hash{}, err
	}
	tl, err := s.Local.Timeline(rec, nil)
	if err != nil {
		return segno.Hash{}, err
	}
	now, err := tl.Snapshot(ctx)
	if err != nil {
		return segno.Hash{}, err
	}
	if s.presents.trees == nil {
		s.presents.trees = map[segno.WorkspaceID]presentTree{}
	}
	s.presents.trees[id] = presentTree{now.Tree, time.Now()}
	return now.Tree, nil
}
