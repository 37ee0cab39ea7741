package proxy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
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
	h, err := history.Read(ctx, l.proxy.store, l.record.Thread)
	if err != nil {
		return list, err
	}
	head, line := h.ByID[h.Head.Head], h.Line(h.Head.Tip)
	if !slices.Contains(line, head) {
		line = h.Line(h.Head.Head)
	}
	isAhead := false
	for _, c := range slices.Backward(line) {
		if c.Kind == segno.CheckpointTurn || c == head {
			name, title := string(c.Kind), c.Label
			if c.Kind == segno.CheckpointTurn {
				name = printable.Label(c)
			}
			if c.Prompt != "" {
				title = timeline.Title(c.Prompt)
			}
			list = append(list, listedCheckpoint{ID: c.ID, Name: name, Kind: string(c.Kind), Turn: c.Turn, Title: title,
				Time: c.Time.Format(time.RFC3339), time: c.Time, Head: c == head, Ahead: isAhead, Files: c.Files})
		}
		isAhead = isAhead || c == head
	}
	return list, nil
}

// minPrefix is the least number of letters of an id that identify a thread.
const minPrefix = 4

// findCheckpoint returns the checkpoint with a name, as the command line finds it. It finds only checkpoints of this
// thread and of its ancestors, because a move to another project's checkpoint would write that project's files here.
func (l *sessionStore) findCheckpoint(ctx context.Context, name string) (*segno.Checkpoint, error) {
	const hint = "Type /checkpoints to see them."
	if l.record.Thread == "" || name == "" {
		return nil, segno.NewError(segno.KindNotFound, "find checkpoint", name, nil).WithHint(hint)
	}
	h, err := history.Read(ctx, l.proxy.store, l.record.Thread)
	if err != nil {
		return nil, err
	}
	c, err := h.Find(name)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, segno.NewError(segno.KindNotFound, "", "", err).WithHint(hint)
	}
	return c, err
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
	if err := s.setThread(found[0].ID, title, incomplete); err != nil {
		return segno.Thread{}, err
	}
	s.preface = nil
	return found[0], nil
}
