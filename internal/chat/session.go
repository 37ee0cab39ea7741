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

// Session describes a session in a list.
type Session struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"` // the first prompt
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
		if t.Agent != Name || !c.isHere(&t) {
			continue
		}
		if other, err := c.isRecordedElsewhere(ctx, &t); err != nil {
			return nil, err
		} else if other {
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

// isRecordedElsewhere reports whether a proxy records the conversation of a thread: in this thread
// without its messages, or in another thread with the files.
func (c *Chat) isRecordedElsewhere(ctx context.Context, t *segno.Thread) (bool, error) {
	if client, err := Client(ctx, c.Store, t.ID); client || err != nil || t.Workspace != "" {
		return client, err
	}
	for _, err := range c.Store.Threads(ctx, segno.ThreadQuery{Session: segno.SessionID(t.ID), Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// Describe returns a session with the position of its head and the time of its last change.
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

// OtherAgent returns the agent whose own session has the conversation of a checkpoint, or "" if the
// thread has the conversation. A thread has both kinds of checkpoints if it was continued in another
// agent.
func OtherAgent(ctx context.Context, store segno.Store, at segno.CommitID) (string, error) {
	for n, err := range segno.Ancestors(ctx, store, at, segno.Window{}) {
		if err != nil {
			return "", err
		}
		if c := n.Checkpoint; c != nil {
			if c.Session == nil || c.Session.Agent == Name {
				return "", nil
			}
			return c.Session.Agent, nil
		}
	}
	return "", nil
}

// Client reports whether a thread belongs to an ACP client: the proxy recorded its turns, and the
// thread does not have the conversation.
func Client(ctx context.Context, store segno.Store, thread segno.ThreadID) (bool, error) {
	head, err := store.Head(ctx, thread)
	if err != nil {
		return false, err
	}
	if head.Link.Session != "" {
		if head.Link.Agent == Name {
			return true, nil
		}
		agent, err := OtherAgent(ctx, store, head.Head)
		return agent != "", err
	}
	for cp, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		return err == nil && cp.Session != nil, err
	}
	return false, nil
}

// LastModel returns the name of the model that last answered in a session, or "".
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

// isHere reports whether a thread works on the files of this chat, or has no files like this chat. It
// returns false for a thread without files in a workspace, because the thread's checkpoints would
// contain the files of several directories.
func (c *Chat) isHere(t *segno.Thread) bool {
	if c.Timeline == nil {
		return t.Workspace == ""
	}
	return t.Workspace == c.Timeline.Workspace.ID()
}

// load switches to another session of this directory. It returns [segno.KindNotFound] if the
// session does not exist.
func (c *Chat) load(ctx context.Context, name string) error {
	if err := segno.CheckID("open session", name); err != nil {
		return err
	}
	t, err := c.thread(ctx, name)
	if err != nil {
		return err
	}
	if t.Agent != Name || t.ParentThread != "" {
		return segno.Errorf(segno.KindRefused, "open session", name, "the name belongs to a thread of %s", t.Agent).WithHint("choose another name")
	}
	if client, err := Client(ctx, c.Store, t.ID); err != nil {
		return err
	} else if client {
		return c.errOtherAgent(ctx, t.ID)
	}
	if !c.isHere(t) {
		return c.errOtherDirectory(ctx, t)
	}
	c.Session = name
	return nil
}

// begin switches to a session that does not exist yet.
func (c *Chat) begin(ctx context.Context, name string) error {
	if err := segno.CheckID("open session", name); err != nil {
		return err
	}
	if err := c.checkUnused(ctx, "new session", name); err != nil {
		return err
	}
	c.Session = name
	return nil
}

// checkUnused returns an error if a thread has the name.
func (c *Chat) checkUnused(ctx context.Context, op, name string) error {
	_, err := c.thread(ctx, name)
	switch {
	case err == nil:
		return segno.Errorf(segno.KindConflict, op, name, "a session with this name exists already").WithHint("load it, or choose another name")
	case segno.KindOf(err) != segno.KindNotFound:
		return err
	}
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
	return segno.Errorf(segno.KindNotFound, "open session", name, "the session does not exist").WithHint("start it with a prompt")
}

// errOtherAgent returns the error for a thread that lacks the conversation at its head.
func (c *Chat) errOtherAgent(ctx context.Context, thread segno.ThreadID) error {
	head, err := c.Store.Head(ctx, thread)
	if err != nil {
		return err
	}
	agent, err := OtherAgent(ctx, c.Store, head.Head)
	if err != nil {
		return err
	}
	if agent != "" {
		return segno.Errorf(segno.KindRefused, "open session", string(thread), "at its head the conversation is of %s", agent).
			WithHint("run 'segno resume', or go back with 'segno op undo'")
	}
	return segno.Errorf(segno.KindRefused, "open session", string(thread), "the conversation belongs to an ACP client").
		WithHint("continue it in that client, or choose another name")
}

func (c *Chat) errOtherDirectory(ctx context.Context, t *segno.Thread) error {
	e := segno.Errorf(segno.KindRefused, "open session", string(t.ID), "the session belongs to another directory").WithHint("choose another name")
	if t.Workspace == "" {
		e.Err = errors.New("the session was started in a directory whose files are not saved")
		return e
	}
	if known, ok := c.Store.(segno.Workspaces); ok {
		if rec, err := known.Workspace(ctx, t.Workspace); err == nil {
			e.Err = fmt.Errorf("the session belongs to %s", rec.Path)
			e.Hint = "choose another name, or continue there with -C " + strconv.Quote(rec.Path)
		}
	}
	return e
}
