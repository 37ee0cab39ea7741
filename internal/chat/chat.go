// Package chat is segno's own agent at work in a directory: its tools, its
// sessions, and what a person can do with them. A session is a thread of the store
// under the name that was typed.
package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/timeline"
)

// Name is what the agent is called in threads and checkpoints.
const Name = "segno"

// Config says what a chat works with.
type Config struct {
	Model agent.Model
	Store segno.Store
	// Site is the workspace Dir lies in. Without one the files are no part of the
	// checkpoints, and undo leaves them as they are.
	Timeline *timeline.Timeline
	Dir  string // where the tools work
	// Session is the name of the session; any UTF-8. See [Default].
	Session string
	// Unasked lets commands run without leave.
	SkipApproval bool
	// Answer is asked in mid-run; see [agent.Config].
	Answer func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error)
	Actor  string // who answers and prompts
	// Kept reports that the store is no more where it was, if anything can tell; what
	// would be saved then is lost.
	CheckStore func() error
	Now  func() time.Time
}

// Chat is an agent, a directory and a session. Its methods are for one goroutine at
// a time, but for a run that goes on meanwhile.
type Chat struct {
	Config
	agent *agent.Agent
	root  *os.Root
}

// Open opens a chat. The session need not exist yet; its first prompt makes it. One
// that belongs to another agent, or to another directory, is [segno.KindRefused].
func Open(ctx context.Context, c Config) (*Chat, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "open directory", c.Dir, err)
	}
	chat := &Chat{Config: c, root: root, agent: newAgent(c, root)}
	if err := chat.Load(ctx, c.Session); err != nil && segno.KindOf(err) != segno.KindNotFound {
		root.Close()
		return nil, err
	}
	return chat, nil
}

func newAgent(c Config, root *os.Root) *agent.Agent {
	config := agent.Config{Name: Name, Model: c.Model, System: system(c.Dir), Store: c.Store, Timeline: c.Timeline, Now: c.Now, Answer: c.Answer,
		Tools: tool.Deep(c.Dir, root),
		Subagents: []agent.Subagent{{Name: "helper", System: system(c.Dir),
			Description: "works on a task of several steps by itself, with the same tools, and answers once"}}}
	if !c.SkipApproval {
		config.Approve = agent.RequireApproval("execute")
	}
	return agent.New(config)
}

func system(dir string) string {
	return fmt.Sprintf(`You are segno's agent and work for a person in the directory %s. Your tools see that directory and nothing else.
Read before you change. Write down work of several steps with write_todos, and keep it true as you go.
Commands may need the person's leave; a call that was rejected is not made again unless they ask for it.
Answer in plain sentences, and briefly.`, dir)
}

// Close gives back what the chat holds; store and site stay open.
func (c *Chat) Close() error { return c.root.Close() }

// Default is the name of a directory's session where none is given. It stays the
// directory's when that is moved.
func Default(site *timeline.Timeline, dir string) string {
	id := segno.DerivedID("chat", dir)
	if site != nil {
		id = segno.DerivedID("chat", string(site.Workspace.ID()))
	}
	return "chat-" + id[:6]
}

// Waiting is what waits for leave. What waits where the thread was moved to since is
// asked anew first, and what a call came to that was killed, so that it can be answered
// by the ids here.
func (c *Chat) Waiting(ctx context.Context) ([]segno.Interrupt, error) {
	s, err := c.Status(ctx)
	if err != nil || len(s.Interrupts) == 0 && !s.Broken {
		return nil, err
	}
	now, err := c.agent.Refresh(ctx, c.Session)
	if segno.KindOf(err) == segno.KindConflict {
		return s.Interrupts, nil // a run is at work: what it asks is new
	}
	return now.Interrupts, err
}

// Stream gives the session a prompt, or decisions, or lets it go on.
func (c *Chat) Stream(ctx context.Context, in agent.Input) iter.Seq2[agent.Event, error] {
	in.Thread, in.Actor = c.Session, cmp.Or(in.Actor, c.Actor)
	return func(yield func(agent.Event, error) bool) {
		if err := c.present(); err != nil {
			yield(agent.Event{Kind: agent.EventError, Thread: segno.ThreadID(c.Session), Text: err.Error(), Time: c.Now()}, err)
			return
		}
		for e, err := range c.agent.Stream(ctx, in) {
			if err = c.taken(ctx, err); err != nil && e.Kind == agent.EventError {
				e.Text = err.Error()
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// present refuses to work in a directory that stands no more where it stood: tools
// would see the old one, and snapshots the new. So it is with the store.
func (c *Chat) present() error {
	if c.CheckStore != nil {
		if err := c.CheckStore(); err != nil {
			return err
		}
	}
	opened, err := c.root.Stat(".")
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(c.Dir); err == nil && os.SameFile(opened, there) {
			return nil
		}
	}
	return segno.Errorf(segno.KindRefused, "chat", c.Dir, "the directory was moved or replaced").WithHint("leave, and start the chat anew where it is now")
}

// taken says of a conflict with a run that is at work that it is one.
func (c *Chat) taken(ctx context.Context, err error) error {
	var lost *segno.ConflictError
	if !errors.As(err, &lost) || segno.KindOf(err) != segno.KindConflict {
		return err
	}
	if running, lookErr := c.agent.Running(context.WithoutCancel(ctx), c.Session); lookErr != nil || !running {
		return err
	}
	return c.busy()
}

func (c *Chat) busy() error {
	return segno.Errorf(segno.KindConflict, "chat", c.Session, "another run is at work in the session").WithHint("wait until it has ended, or begin another session")
}

// Status is where a session stands.
type Status struct {
	Session string
	New     bool // there is no such session yet
	agent.Where
	Todos   []agent.Todo
	Broken  bool  // its last turn was broken off, and waits for nobody
	Running bool  // a run is at work in it now
	Seq     int64 // of its newest event; see [Chat.Events]
}

// Status returns where the session stands.
func (c *Chat) Status(ctx context.Context) (Status, error) {
	s := Status{Session: c.Session}
	head, err := c.Store.Head(ctx, segno.ThreadID(c.Session))
	if segno.KindOf(err) == segno.KindNotFound {
		s.New = true
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if s.Where, err = c.agent.Look(ctx, c.Session); err != nil {
		return s, err
	}
	line, err := c.Store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return s, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return s, err
	}
	if s.Todos, err = todosOf(state); err != nil {
		return s, err
	}
	if s.Running, err = c.agent.Running(ctx, c.Session); err != nil {
		return s, err
	}
	s.Broken = broken(line, state.Messages) && len(s.Interrupts) == 0 && !s.Running
	s.Files += written(line)
	s.Seq, err = c.newest(ctx)
	return s, err
}

// broken reports whether a line ends in the middle of a turn.
func broken(line *segno.Line, messages []json.RawMessage) bool {
	if len(messages) == 0 {
		return false
	}
	var last agent.Message
	if json.Unmarshal(messages[len(messages)-1], &last) == nil && last.Role == agent.Assistant && len(last.Calls()) == 0 {
		return false
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil {
			return n.Checkpoint.Kind != segno.CheckpointTurn || n.Checkpoint.Interrupted
		}
	}
	return false
}

// written counts the files of the directory that were written on a line. The events of
// tools are kept as notes.
func written(line *segno.Line) int {
	paths := map[string]bool{}
	for _, n := range line.Commits {
		for _, e := range n.Entries {
			var told agent.Event
			if e.Kind != segno.EntryNote || json.Unmarshal(e.Body, &told) != nil {
				continue
			}
			if told.Kind == agent.EventFileWritten || told.Kind == agent.EventFileEdited {
				paths[told.Path] = true
			}
		}
	}
	return len(paths)
}

// newest is the number of the session's newest event.
func (c *Chat) newest(ctx context.Context) (seq int64, err error) {
	for e, err := range c.agent.Events(ctx, c.Session, 0) {
		if err != nil {
			return 0, err
		}
		seq = e.Seq
	}
	return seq, nil
}

// Events tells what was told; see [agent.Agent.Events].
func (c *Chat) Events(ctx context.Context, since int64) iter.Seq2[agent.Event, error] {
	return c.agent.Events(ctx, c.Session, since)
}

// Messages is the session's conversation.
func (c *Chat) Messages(ctx context.Context) ([]agent.Message, error) {
	m, err := c.agent.Messages(ctx, c.Session, "")
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	return m, err
}

// Pending returns the question that an id, or the first letters of one, names: one
// that waits, else one that was answered or asked anew; the run says of those what
// became of them.
func (c *Chat) Pending(ctx context.Context, id string) (segno.Interrupt, error) {
	head, err := c.head(ctx)
	if err != nil {
		return segno.Interrupt{}, err
	}
	line, err := c.Store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return segno.Interrupt{}, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return segno.Interrupt{}, err
	}
	i, err := pick(state.Interrupts, id)
	if segno.KindOf(err) != segno.KindNotFound {
		return i, err
	}
	var past []segno.Interrupt
	for known := range state.Answers {
		past = append(past, segno.Interrupt{ID: known})
	}
	for known := range state.Replaced {
		past = append(past, segno.Interrupt{ID: known})
	}
	if i, err = pick(past, id); segno.KindOf(err) == segno.KindNotFound {
		return segno.Interrupt{ID: id}, nil // perhaps a subagent's; the run says so
	}
	return i, err
}

func pick(open []segno.Interrupt, id string) (segno.Interrupt, error) {
	var found []segno.Interrupt
	for _, i := range open {
		if len(id) <= len(i.ID) && i.ID[:len(id)] == id && id != "" {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return segno.Interrupt{}, segno.NewError(segno.KindNotFound, "find approval", id, nil)
	case 1:
		return found[0], nil
	}
	return segno.Interrupt{}, segno.Errorf(segno.KindInvalid, "find approval", id, "more than one begins so").WithHint("give more letters")
}
