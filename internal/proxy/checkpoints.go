package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// listed is a checkpoint as clients are told of it.
type listed struct {
	ID    segno.CommitID `json:"id"`
	Name  string         `json:"name"` // "t3", or its kind
	Kind  string         `json:"kind"`
	Turn  int            `json:"turn"`
	Title string         `json:"title"`
	Time  string         `json:"time"`
	Head  bool           `json:"head,omitempty"`  // the thread stands here
	Ahead bool           `json:"ahead,omitempty"` // redo can reach it
	Files segno.Counts   `json:"files"`
}

// checkpoints lists the turns of the thread's line, up to what redo can reach,
// oldest first.
func (s *session) checkpoints(ctx context.Context) ([]listed, error) {
	s.settle()
	if s.thread == "" {
		return nil, nil
	}
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return nil, err
	}
	line, err := s.proxy.store.Load(ctx, head.Tip, segno.Window{})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(line.Commits, func(n segno.Node) bool { return n.ID == head.Head }) {
		if line, err = s.proxy.store.Load(ctx, head.Head, segno.Window{}); err != nil {
			return nil, err
		}
	}
	var out []listed
	ahead := false
	for _, n := range line.Commits {
		c := n.Checkpoint
		if c != nil && (c.Kind == segno.KindTurn || n.ID == head.Head) {
			out = append(out, listed{ID: c.ID, Name: name(c), Kind: string(c.Kind), Turn: c.Turn, Title: title(c),
				Time: c.Time.Local().Format(time.DateTime), Head: n.ID == head.Head, Ahead: ahead, Files: c.Files})
		}
		ahead = ahead || n.ID == head.Head
	}
	return out, nil
}

func name(c *segno.Checkpoint) string {
	if c.Kind == segno.KindTurn {
		return fmt.Sprintf("t%d", c.Turn)
	}
	return string(c.Kind)
}

func title(c *segno.Checkpoint) string {
	if c.Prompt != "" {
		return segno.Headline(c.Prompt)
	}
	return c.Label
}

// named returns the checkpoint a user means: t3, @, a pin's name, or the first
// letters of an id.
func (s *session) named(ctx context.Context, name string) (*segno.Checkpoint, error) {
	s.settle()
	notFound := &segno.Error{Op: "find checkpoint", Name: name, Kind: segno.KindNotFound, Hint: "Type /checkpoints to see them."}
	if s.thread == "" || name == "" {
		return nil, notFound
	}
	if name == "@" {
		h, err := s.footing(ctx)
		return h.at, err
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "t")); err == nil && strings.HasPrefix(name, "t") {
		return s.turnNamed(ctx, n, notFound)
	}
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		if c.Label == name {
			return &c, nil
		}
	}
	var found []segno.Checkpoint
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{IDPrefix: name, Limit: 2}) {
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	switch {
	case len(found) == 0:
		return nil, notFound
	case len(found) > 1 && string(found[0].ID) != name:
		return nil, &segno.Error{Op: "find checkpoint", Name: name, Kind: segno.KindInvalid, Err: fmt.Errorf("more than one begins so"), Hint: "Give more letters."}
	}
	return &found[0], nil
}

// turnNamed returns the newest checkpoint of a turn on the thread's lines, or on
// what the thread stands on.
func (s *session) turnNamed(ctx context.Context, n int, notFound error) (*segno.Checkpoint, error) {
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return nil, err
	}
	for _, at := range []segno.CommitID{head.Head, head.Tip} {
		line, err := s.proxy.store.Load(ctx, at, segno.Window{})
		if err != nil {
			return nil, err
		}
		for _, node := range slices.Backward(line.Commits) {
			if c := node.Checkpoint; c != nil && c.Kind == segno.KindTurn && c.Turn == n {
				return c, nil
			}
		}
	}
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: s.thread}) {
		if err != nil {
			return nil, err
		}
		if c.Kind == segno.KindTurn && c.Turn == n {
			return &c, nil
		}
	}
	return nil, notFound
}
