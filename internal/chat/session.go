package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/timeline"
)

// Session is what a list tells of a session.
type Session struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"` // its first prompt
	Turn    int       `json:"turn"`
	Step    int       `json:"step"`
	Updated time.Time `json:"updated"`
	Current bool      `json:"current"`
}

// Sessions returns the sessions of this directory, the most recently changed first.
func (c *Chat) Sessions(ctx context.Context) (all []Session, err error) {
	for t, err := range c.Store.Threads(ctx, segno.ThreadQuery{TopLevel: true}) {
		if err != nil {
			return nil, err
		}
		if t.Agent != Name || !c.here(&t) {
			continue
		}
		if client, err := Client(ctx, c.Store, t.ID); err != nil {
			return nil, err
		} else if client {
			continue
		}
		if recorded, err := c.recorded(ctx, &t); err != nil {
			return nil, err
		} else if recorded {
			continue
		}
		s, err := Describe(ctx, c.Store, &t)
		if err != nil {
			return nil, err
		}
		s.Current = s.Name == c.Session
		all = append(all, s)
	}
	return all, nil
}

// recorded reports whether a thread without files is a conversation that somebody in
// front records with the files, as a thread of its own.
func (c *Chat) recorded(ctx context.Context, t *segno.Thread) (bool, error) {
	if t.Workspace != "" {
		return false, nil
	}
	for _, err := range c.Store.Threads(ctx, segno.ThreadQuery{Session: segno.SessionID(t.ID), Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// Describe says where a session stands and when it was last saved.
func Describe(ctx context.Context, store segno.Store, t *segno.Thread) (Session, error) {
	s := Session{Name: string(t.ID), Title: timeline.Title(t.Title), Updated: t.Created}
	if t.Title == "" && t.Parent != "" {
		s.Title = "(fork)"
	}
	head, err := store.Head(ctx, t.ID)
	if err != nil {
		return s, err
	}
	for cp, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.ID}) {
		if err != nil {
			return s, err
		}
		if cp.Time.After(s.Updated) {
			s.Updated = cp.Time
		}
		if cp.ID == head.Head {
			s.Turn, s.Step = cp.Turn, cp.Step
			break
		}
	}
	return s, nil
}

// Client reports whether a thread is a client's: its turns were recorded by who stands
// between that and the agent, and the conversation is not in it.
func Client(ctx context.Context, store segno.Store, thread segno.ThreadID) (bool, error) {
	head, err := store.Head(ctx, thread)
	if err != nil || head.Link.Session != "" {
		return err == nil, err
	}
	for cp, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		return err == nil && cp.Session != nil, err
	}
	return false, nil
}

// LastModel is the name of the model that answered last in a session, "" if none has.
func LastModel(ctx context.Context, store segno.Store, session string) (string, error) {
	head, err := store.Head(ctx, segno.ThreadID(session))
	if segno.KindOf(err) == segno.KindNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	line, err := store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return "", err
	}
	for _, n := range slices.Backward(line.Commits) {
		for _, e := range slices.Backward(n.Entries) {
			var m agent.Message
			if e.Kind == segno.EntryMessage && json.Unmarshal(e.Body, &m) == nil && m.Model != "" {
				return m.Model, nil
			}
		}
	}
	return "", nil
}

// here reports whether a thread works on this directory's files, or as this chat does
// on none. One without files is nobody's: in a workspace its checkpoints would come to
// hold the files of several.
func (c *Chat) here(t *segno.Thread) bool {
	if c.Timeline == nil {
		return t.Workspace == ""
	}
	return t.Workspace == c.Timeline.Workspace.ID()
}

// Load switches to another session of this directory. [segno.KindNotFound] if there
// is none of that name; [Chat.Begin] makes one.
func (c *Chat) Load(ctx context.Context, name string) error {
	if err := segno.CheckID("open session", name); err != nil {
		return err
	}
	t, err := c.thread(ctx, name)
	if err != nil {
		return err
	}
	if t.Agent != Name || t.ParentThread != "" {
		return segno.Errorf(segno.KindRefused, "open session", name, "it is a thread of %s", t.Agent).WithHint("choose another name")
	}
	if client, err := Client(ctx, c.Store, t.ID); err != nil {
		return err
	} else if client {
		return segno.Errorf(segno.KindRefused, "open session", name, "segno acp records it, and a client has the conversation").WithHint("go on with it in that client, or choose another name")
	}
	if !c.here(t) {
		return c.elsewhere(ctx, t)
	}
	c.Session = name
	return nil
}

// Begin switches to a session that does not exist yet.
func (c *Chat) Begin(ctx context.Context, name string) error {
	if err := segno.CheckID("open session", name); err != nil {
		return err
	}
	_, err := c.thread(ctx, name)
	if err == nil {
		return segno.Errorf(segno.KindConflict, "new session", name, "there is one of that name").WithHint("load it, or choose another name")
	}
	if segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	c.Session = name
	return nil
}

func (c *Chat) thread(ctx context.Context, name string) (*segno.Thread, error) {
	for t, err := range c.Store.Threads(ctx, segno.ThreadQuery{IDPrefix: name}) {
		if err != nil {
			return nil, err
		}
		if string(t.ID) == name {
			return &t, nil
		}
	}
	return nil, noSession(name)
}

func noSession(name string) error {
	return segno.Errorf(segno.KindNotFound, "open session", name, "there is no such session").WithHint("give it a prompt, and it begins")
}

func (c *Chat) elsewhere(ctx context.Context, t *segno.Thread) error {
	e := segno.Errorf(segno.KindRefused, "open session", string(t.ID), "it works in another directory").WithHint("choose another name")
	if t.Workspace == "" {
		e.Err = errors.New("it was begun where files are not saved with the session")
		return e
	}
	if known, ok := c.Store.(segno.Workspaces); ok {
		if rec, err := known.Workspace(ctx, t.Workspace); err == nil {
			e.Err = fmt.Errorf("it works in %s", rec.Path)
			e.Hint = "choose another name, or go on there with -C " + strconv.Quote(rec.Path)
		}
	}
	return e
}

func todosOf(s *segno.State) (todos []agent.Todo, err error) {
	if raw, ok := s.Values["todos"]; ok {
		err = json.Unmarshal(raw, &todos)
	}
	return todos, err
}
