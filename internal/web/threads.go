package web

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// thread is one thread in a list.
type thread struct {
	ID           segno.ThreadID    `json:"id"`
	Title        string            `json:"title"`
	Agent        string            `json:"agent"`
	Dir          string            `json:"dir"` // the directory in which it began; "" if it has no workspace
	DirBytes     []byte            `json:"dir_bytes,omitempty"`
	Workspace    segno.WorkspaceID `json:"workspace"`
	Head         segno.CommitID    `json:"head"`
	Tip          segno.CommitID    `json:"tip"`
	Turn         int               `json:"turn"`  // of the head
	Turns        int               `json:"turns"` // the highest number of a turn
	Time         time.Time         `json:"time"`  // of the newest checkpoint
	Created      time.Time         `json:"created"`
	State        string            `json:"state"`
	ForkedFrom   *origin           `json:"forked_from"`
	ParentThread segno.ThreadID    `json:"parent_thread"` // the thread of which it is a part, or ""
	Name         string            `json:"name"`          // its name within that
	Current      bool              `json:"current"`
	Open         *openTurn         `json:"open"`
	Revision     int64             `json:"revision"`
	Damage       string            `json:"damage"` // why a part of this is missing, else ""
}

// origin is the checkpoint at which a fork begins.
type origin struct {
	Thread     segno.ThreadID `json:"thread"`
	Checkpoint segno.CommitID `json:"checkpoint"`
}

type threadList struct {
	Threads []thread `json:"threads"`
	Next    string   `json:"next"` // the cursor of the next window, "" at the end
}

// threadsParams select threads. Q is a part of the title, the agent or the directory, in any case.
type threadsParams struct {
	listParams
	Q string `query:"q" max:"200"`
}

// maxFiltered is the number of threads that a filter examines.
const maxFiltered = 20_000

type listParams struct {
	Limit  int `query:"limit" default:"50" min:"1" max:"200"`
	Cursor int `query:"cursor" default:"0"`
}

func (s *Server) listThreads(ctx context.Context, p *threadsParams) (threadList, error) {
	list := threadList{Threads: []thread{}}
	now, err := s.activity(ctx)
	if err != nil {
		return list, err
	}
	here, err := s.current(ctx)
	if err != nil {
		return list, err
	}
	n, most := 0, p.Cursor+p.Limit+1
	if p.Q != "" {
		most = p.Cursor + maxFiltered
	}
	filter := threadFilter{server: s, q: strings.ToLower(p.Q), dirs: map[segno.WorkspaceID]bool{}}
	for t, err := range s.Store.Threads(ctx, segno.ThreadQuery{Limit: most}) {
		if err != nil {
			return list, err
		}
		if n++; n <= p.Cursor {
			continue
		}
		if matches, err := filter.matches(ctx, &t); err != nil {
			return list, err
		} else if !matches {
			continue
		}
		if len(list.Threads) == p.Limit {
			list.Next = strconv.Itoa(n - 1)
			break
		}
		item, err := s.threadItem(ctx, &t, now, here)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			continue // deleted meanwhile
		}
		if err != nil {
			return list, err
		}
		list.Threads = append(list.Threads, item)
	}
	return list, nil
}

// threadFilter selects threads by a text.
type threadFilter struct {
	server *Server
	q      string                     // in lower case; "" selects all
	dirs   map[segno.WorkspaceID]bool // whether the directory of a workspace has the text
}

func (f *threadFilter) matches(ctx context.Context, t *segno.Thread) (bool, error) {
	if strings.Contains(strings.ToLower(t.Title+"\n"+t.Agent), f.q) {
		return true, nil
	}
	w, ok := f.server.Store.(segno.Workspaces)
	if !ok || t.Workspace == "" {
		return false, nil
	}
	is, known := f.dirs[t.Workspace]
	if known {
		return is, nil
	}
	rec, err := w.Workspace(ctx, t.Workspace)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return false, err
	}
	is = strings.Contains(strings.ToLower(rec.Path), f.q)
	f.dirs[t.Workspace] = is
	return is, nil
}

// threadItem describes a thread.
func (s *Server) threadItem(ctx context.Context, t *segno.Thread, now *activity, here *current) (thread, error) {
	head, err := s.Store.Head(ctx, t.ID)
	if err != nil {
		return thread{}, err
	}
	item := thread{ID: t.ID, Title: timeline.Title(t.Title), Agent: history.Cut(t.Agent, maxTitle), Workspace: t.Workspace, Head: head.Head, Tip: head.Tip,
		Turns: head.Turn, Time: t.Created, Created: t.Created, State: now.state(t.ID), ParentThread: t.ParentThread, Name: t.Name,
		Current: here != nil && here.Thread == t.ID, Open: now.turns[t.ID], Revision: head.Seq}
	for _, read := range []func(context.Context, *segno.Thread, *thread) error{s.addMoment, s.addOrigin, s.addDir} {
		if err := read(ctx, t, &item); isDamage(err) {
			item.Damage = err.Error()
		} else if err != nil {
			return item, err
		}
	}
	return item, nil
}

// addMoment sets the time to that of the newest checkpoint, and the turn to that of the head.
func (s *Server) addMoment(ctx context.Context, t *segno.Thread, item *thread) error {
	for c, err := range s.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.ID, Limit: 1}) {
		if err != nil {
			return err
		}
		item.Time, item.Turn = c.Time, c.Turn
		if c.ID == item.Head {
			return nil
		}
	}
	if item.Head == "" {
		return nil
	}
	for n, err := range segno.Ancestors(ctx, s.Store, item.Head, segno.Window{}) {
		if err != nil {
			return err
		}
		if n.Checkpoint != nil {
			item.Turn = n.Checkpoint.Turn
			break
		}
	}
	return nil
}

// addOrigin adds the checkpoint at which a fork begins.
func (s *Server) addOrigin(ctx context.Context, t *segno.Thread, item *thread) error {
	if t.Parent == "" {
		return nil
	}
	item.ForkedFrom = &origin{Checkpoint: t.Parent}
	line, err := s.Store.Load(ctx, t.Parent, segno.Window{Last: 1})
	if err == nil {
		item.ForkedFrom.Thread = line.Commits[len(line.Commits)-1].Thread
	}
	return err
}

// addDir adds the directory of the thread's workspace, if it has one.
func (s *Server) addDir(ctx context.Context, t *segno.Thread, item *thread) error {
	w, ok := s.Store.(segno.Workspaces)
	if !ok || t.Workspace == "" {
		return nil
	}
	rec, err := w.Workspace(ctx, t.Workspace)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return nil
	}
	item.Dir, item.DirBytes = rec.Path, segno.PathBytes(rec.Path)
	return err
}

// threadDetails is one thread with its sessions and open questions.
type threadDetails struct {
	thread
	Interrupts []question     `json:"interrupts"`
	Chain      []history.Link `json:"chain"`
}

// question is a call of a Go agent that waits for a decision.
type question struct {
	ID       string               `json:"id"`
	Thread   segno.ThreadID       `json:"thread"`
	Tool     string               `json:"tool"`
	Title    string               `json:"title"`
	Question string               `json:"question"`
	Reason   segno.Reason         `json:"reason"`
	Input    text                 `json:"input"`
	Time     time.Time            `json:"time"`
	Expires  time.Time            `json:"expires,omitzero"`
	Allowed  []segno.DecisionKind `json:"allowed"`
}

// questions returns the interrupts that a person answers.
func questions(open []segno.Interrupt) []question {
	out := []question{}
	for _, q := range open {
		if !q.Reason.IsQuestion() {
			continue
		}
		call := turns.Call{Tool: q.Tool, Input: q.Args}
		out = append(out, question{ID: q.ID, Thread: q.Thread, Tool: q.Tool, Title: history.Cut(call.Subject(maxTitle), maxTitle), Question: q.Text(),
			Reason: q.Reason, Input: beginning(string(q.Args)), Time: q.Asked, Expires: q.Expires, Allowed: q.Allowed})
	}
	return out
}

type threadParams struct {
	ID segno.ThreadID `path:"id"`
}

func (s *Server) getThread(ctx context.Context, p *threadParams) (threadDetails, error) {
	d := threadDetails{Interrupts: []question{}, Chain: []history.Link{}}
	t, err := s.findThread(ctx, p.ID)
	if err != nil {
		return d, err
	}
	now, err := s.activity(ctx)
	if err != nil {
		return d, err
	}
	here, err := s.current(ctx)
	if err != nil {
		return d, err
	}
	if d.thread, err = s.threadItem(ctx, t, now, here); err != nil {
		return d, err
	}
	d.Interrupts = questions(now.interrupts[t.ID])
	if c, ok := s.Store.(segno.Chains); ok {
		d.Chain, err = history.Chain(ctx, c, t.ID)
	}
	return d, err
}

// findThread returns the thread with an id.
func (s *Server) findThread(ctx context.Context, id segno.ThreadID) (*segno.Thread, error) {
	for t, err := range s.Store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(id)}) {
		if err != nil {
			return nil, err
		}
		if t.ID == id {
			return &t, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "find thread", string(id), nil)
}
