package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/timeline"
)

// listedCheckpoint is the JSON form of a checkpoint that clients receive.
type listedCheckpoint struct {
	ID    segno.CommitID `json:"id"`
	Name  string         `json:"name"` // "t3", or its kind
	Kind  string         `json:"kind"`
	Turn  int            `json:"turn"`
	Title string         `json:"title"`
	Time  string         `json:"time"`            // RFC 3339
	Head  bool           `json:"head,omitempty"`  // the thread's head is here
	Ahead bool           `json:"ahead,omitempty"` // redo can reach it
	Files segno.Counts   `json:"files"`
	time  time.Time
}

// checkpoints lists the turns of the thread's line, up to the one that redo can reach,
// oldest first.
func (l *sessionStore) checkpoints(ctx context.Context) ([]listedCheckpoint, error) {
	list := []listedCheckpoint{}
	if l.record.Thread == "" {
		return list, nil
	}
	head, err := l.proxy.store.Head(ctx, l.record.Thread)
	if err != nil {
		return list, err
	}
	line, err := l.proxy.store.Load(ctx, head.Tip, segno.Window{})
	if err != nil {
		return list, err
	}
	if !slices.ContainsFunc(line.Commits, func(n segno.Node) bool { return n.ID == head.Head }) {
		if line, err = l.proxy.store.Load(ctx, head.Head, segno.Window{}); err != nil {
			return list, err
		}
	}
	isAhead := false
	for _, n := range line.Commits {
		if c := n.Checkpoint; c != nil && (c.Kind == segno.CheckpointTurn || n.ID == head.Head) {
			title := c.Label
			if c.Prompt != "" {
				title = timeline.Title(c.Prompt)
			}
			list = append(list, listedCheckpoint{ID: c.ID, Name: checkpointName(c), Kind: string(c.Kind), Turn: c.Turn, Title: title,
				Time: c.Time.Format(time.RFC3339), time: c.Time, Head: n.ID == head.Head, Ahead: isAhead, Files: c.Files})
		}
		isAhead = isAhead || n.ID == head.Head
	}
	return list, nil
}

func checkpointName(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointTurn {
		return fmt.Sprintf("t%d", c.Turn)
	}
	return string(c.Kind)
}

// minPrefix is the least number of letters of an id that identify a checkpoint or a thread.
const minPrefix = 4

// findCheckpoint returns the checkpoint with a name: t3, @ for the head, the name of a pin,
// an id or a prefix of an id. It finds only checkpoints of this thread and of its ancestors,
// because a move to another project's checkpoint would write that project's files here.
func (l *sessionStore) findCheckpoint(ctx context.Context, name string) (*segno.Checkpoint, error) {
	notFound := segno.NewError(segno.KindNotFound, "find checkpoint", name, nil).WithHint("Type /checkpoints to see them.")
	if l.record.Thread == "" || name == "" {
		return nil, notFound
	}
	if name == "@" {
		st, err := l.state(ctx)
		return st.at, err
	}
	all, err := l.allCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	isTurn := func(c *segno.Checkpoint) bool { return c.Kind == segno.CheckpointTurn && checkpointName(c) == name }
	if i := slices.IndexFunc(all, isTurn); i >= 0 {
		return all[i], nil
	}
	pinned := map[segno.CommitID]bool{}
	for c, err := range l.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		pinned[c.ID] = slices.Contains(segno.PinNames(c.Label), name)
	}
	if i := slices.IndexFunc(all, func(c *segno.Checkpoint) bool { return pinned[c.ID] }); i >= 0 {
		return all[i], nil
	}
	query := idprefix.Query{What: "checkpoint", Name: name}
	found, err := idprefix.Find(query, idprefix.Values(all), func(c *segno.Checkpoint) string { return string(c.ID) })
	if segno.KindOf(err) == segno.KindNotFound || len(name) < minPrefix && (err != nil || string(found.ID) != name) {
		return nil, notFound
	}
	return found, err
}

// allCheckpoints returns the checkpoints of the thread and of its ancestors: those on the
// line of the head, newest first, then those on the line of the tip, then those of the
// thread's other lines. The list may contain duplicates.
func (l *sessionStore) allCheckpoints(ctx context.Context) (all []*segno.Checkpoint, err error) {
	head, err := l.proxy.store.Head(ctx, l.record.Thread)
	if err != nil {
		return nil, err
	}
	for _, at := range []segno.CommitID{head.Head, head.Tip} {
		line, err := l.proxy.store.Load(ctx, at, segno.Window{})
		if err != nil {
			return nil, err
		}
		for _, n := range slices.Backward(line.Commits) {
			if n.Checkpoint != nil {
				all = append(all, n.Checkpoint)
			}
		}
	}
	others, err := collect(l.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: l.record.Thread}), nil)
	for i := range others {
		all = append(all, &others[i])
	}
	return all, err
}

// threads lists the threads of the session's workspace and agent, newest first.
func (l *sessionStore) threads(ctx context.Context) ([]segno.Thread, error) {
	rec, err := l.proxy.store.RegisterRoot(ctx, l.record.Dir)
	if err != nil {
		return nil, err
	}
	list, err := collect(l.proxy.store.Threads(ctx, segno.ThreadQuery{Workspace: rec.ID, TopLevel: true}), func(t *segno.Thread) bool {
		return t.Agent == l.record.Agent
	})
	slices.SortStableFunc(list, func(a, b segno.Thread) int { return b.Created.Compare(a.Created) })
	return list, err
}

// switchTo switches the session to another thread. The name is a title, or the first letters
// of an id or of a title.
func (s *session) switchTo(ctx context.Context, name string) (segno.Thread, error) {
	list, err := s.threads(ctx)
	if err != nil {
		return segno.Thread{}, err
	}
	found := slices.DeleteFunc(slices.Clone(list), func(t segno.Thread) bool { return t.Title != name })
	if len(found) == 0 {
		found = slices.DeleteFunc(list, func(t segno.Thread) bool {
			return len(name) < minPrefix || !strings.HasPrefix(string(t.ID), name) && !strings.HasPrefix(strings.ToLower(t.Title), strings.ToLower(name))
		})
	}
	refuse := func(kind segno.Kind, why, hint string) (segno.Thread, error) {
		return segno.Thread{}, segno.Errorf(kind, "switch", name, "%s", why).WithHint(hint)
	}
	switch {
	case s.turn != nil:
		return refuse(segno.KindBusy, "a turn is in progress", "Wait until it ends.")
	case s.record.Thread == "":
		return refuse(segno.KindRefused, noCheckpoint, "Load the session of that thread instead.")
	case len(found) == 0:
		return refuse(segno.KindNotFound, "no thread of this agent and directory has this name", "Type /switch to see the threads.")
	case len(found) > 1:
		return refuse(segno.KindInvalid, "several threads have this name", "Type /switch to see the threads.")
	case found[0].ID == s.record.Thread:
		return found[0], nil
	}
	records, err := s.proxy.index.all()
	if err != nil {
		return segno.Thread{}, err
	}
	title, incomplete := found[0].Title, false
	if i := slices.IndexFunc(records, func(r sessionRecord) bool { return r.Thread == found[0].ID }); i >= 0 {
		title, incomplete = records[i].Title, records[i].IncompleteHistory
	}
	s.preface = nil
	return found[0], s.setThread(ctx, found[0].ID, title, incomplete)
}
