package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// listed is a checkpoint as clients are told of it.
type listed struct {
	ID    segno.CommitID `json:"id"`
	Name  string         `json:"name"` // "t3", or its kind
	Kind  string         `json:"kind"`
	Turn  int            `json:"turn"`
	Title string         `json:"title"`
	Time  string         `json:"time"`            // RFC 3339
	Head  bool           `json:"head,omitempty"`  // the thread stands here
	Ahead bool           `json:"ahead,omitempty"` // redo can reach it
	Files segno.Counts   `json:"files"`
	when  time.Time
}

// checkpoints lists the turns of the thread's line, up to what redo can reach,
// oldest first.
func (s *session) checkpoints(ctx context.Context) ([]listed, error) {
	if err := s.settle(); err != nil || s.thread == "" {
		return nil, err
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
		if c != nil && (c.Kind == segno.CheckpointTurn || n.ID == head.Head) {
			out = append(out, listed{ID: c.ID, Name: name(c), Kind: string(c.Kind), Turn: c.Turn, Title: title(c),
				Time: c.Time.Format(time.RFC3339), when: c.Time, Head: n.ID == head.Head, Ahead: ahead, Files: c.Files})
		}
		ahead = ahead || n.ID == head.Head
	}
	return out, nil
}

func name(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointTurn {
		return fmt.Sprintf("t%d", c.Turn)
	}
	return string(c.Kind)
}

func title(c *segno.Checkpoint) string {
	if c.Prompt != "" {
		return timeline.Title(c.Prompt)
	}
	return c.Label
}

// named returns the checkpoint a user means: t3, @, a pin's name, or the first
// letters of an id. Only checkpoints of this thread, and of what it stands on, can be
// meant: another project's would bring its files here.
func (s *session) named(ctx context.Context, name string) (*segno.Checkpoint, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	notFound := segno.NewError(segno.KindNotFound, "find checkpoint", name, nil).WithHint("Type /checkpoints to see them.")
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
	ours, err := s.within(ctx)
	if err != nil {
		return nil, err
	}
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		if slices.Contains(segno.PinNames(c.Label), name) && ours[c.ID] != nil {
			return ours[c.ID], nil
		}
	}
	return byPrefix(ours, name, notFound)
}

// leastLetters is how many letters of an id name a checkpoint.
const leastLetters = 4

func byPrefix(ours map[segno.CommitID]*segno.Checkpoint, name string, notFound error) (*segno.Checkpoint, error) {
	if c := ours[segno.CommitID(name)]; c != nil {
		return c, nil
	}
	var found *segno.Checkpoint
	for id, c := range ours {
		if len(name) < leastLetters || !strings.HasPrefix(string(id), name) {
			continue
		}
		if found != nil {
			return nil, segno.Errorf(segno.KindInvalid, "find checkpoint", name, "more than one begins so").WithHint("Give more letters.")
		}
		found = c
	}
	if found == nil {
		return nil, notFound
	}
	return found, nil
}

// within returns the checkpoints of the thread, on all its lines, and of what it
// stands on.
func (s *session) within(ctx context.Context) (map[segno.CommitID]*segno.Checkpoint, error) {
	head, err := s.proxy.store.Head(ctx, s.thread)
	if err != nil {
		return nil, err
	}
	ours := map[segno.CommitID]*segno.Checkpoint{}
	for _, at := range []segno.CommitID{head.Head, head.Tip} {
		line, err := s.proxy.store.Load(ctx, at, segno.Window{})
		if err != nil {
			return nil, err
		}
		for _, n := range line.Commits {
			if n.Checkpoint != nil {
				ours[n.ID] = n.Checkpoint
			}
		}
	}
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: s.thread}) {
		if err != nil {
			return nil, err
		}
		ours[c.ID] = &c
	}
	return ours, nil
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
			if c := node.Checkpoint; c != nil && c.Kind == segno.CheckpointTurn && c.Turn == n {
				return c, nil
			}
		}
	}
	for c, err := range s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: s.thread}) {
		if err != nil {
			return nil, err
		}
		if c.Kind == segno.CheckpointTurn && c.Turn == n {
			return &c, nil
		}
	}
	return nil, notFound
}
