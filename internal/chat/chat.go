// Package chat runs segno's own agent in a directory, with its tools, its sessions, and the
// commands of a chat. A session is a thread of the store with a name that the user chose.
package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/timeline"
)

// Name is the agent's name in threads and checkpoints.
const Name = "segno"

// Config configures a chat.
type Config struct {
	Model agent.Model
	Store segno.Store
	// Timeline is the timeline of the workspace that contains Dir. If it is nil, the files are
	// not part of the checkpoints, and undo leaves them unchanged.
	Timeline *timeline.Timeline
	Dir      string // the directory of the tools
	Session  string // the session's name, any UTF-8; see [Default]
	// SkipApproval lets commands run without approval.
	SkipApproval bool
	Sandbox      tool.Sandbox                                                                // of commands; nil is none
	Answer       func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error) // see [agent.Config]
	Actor        string                                                                      // the author of prompts and decisions
	// CheckStore returns an error if the store was moved or deleted after it was opened,
	// because a further commit would be lost.
	CheckStore func() error
	// OnRun, if not nil, is called with the name of the session before each run.
	OnRun func(session string)
	Now   func() time.Time
}

// Chat is an agent, a directory and a session. One goroutine at a time may use it, except that
// other methods may be called during Stream.
type Chat struct {
	Config
	agent *agent.Agent
	root  *os.Root
}

// Open opens a chat. The first prompt creates the session if it does not exist. For a session
// of another agent or of another directory, the error has [segno.KindRefused].
func Open(ctx context.Context, c Config) (*Chat, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "open directory", c.Dir, err)
	}
	system := fmt.Sprintf(systemPrompt, c.Dir)
	config := agent.Config{Name: Name, Model: c.Model, System: system, Store: c.Store, Timeline: c.Timeline, Now: c.Now, Answer: c.Answer,
		Tools: tool.DeepWith(c.Dir, root, tool.ExecuteOptions{Sandbox: c.Sandbox}),
		Subagents: []agent.Subagent{{Name: "helper", System: system,
			Description: "works independently on a task of several steps, with the same tools, and answers once"}}}
	if !c.SkipApproval {
		config.Approve = agent.RequireApproval("execute")
	}
	chat := &Chat{Config: c, root: root, agent: agent.New(config)}
	if err := chat.load(ctx, c.Session); err != nil && segno.KindOf(err) != segno.KindNotFound {
		root.Close()
		return nil, err
	}
	return chat, nil
}

const systemPrompt = `You are segno's agent and work for a person in the directory %s. Your tools see that directory and nothing else.
Read before you change. Write down work of several steps with write_todos, and keep the list up to date.
Commands may need the person's approval; do not repeat a call that was rejected unless they ask for it.
Answer in plain sentences, and briefly.`

// Close closes the directory. The store and the timeline stay open.
func (c *Chat) Close() error { return c.root.Close() }

// Default returns the name of a directory's default session. The name stays the same when the
// directory is moved.
func Default(t *timeline.Timeline, dir string) string {
	id := segno.DerivedID("chat", dir)
	if t != nil {
		id = segno.DerivedID("chat", string(t.Workspace.ID()))
	}
	return "chat-" + id[:6]
}

// Waiting returns the questions that wait for decisions. It first records the questions that
// the next run would ask, so that a decision can name their ids.
func (c *Chat) Waiting(ctx context.Context) ([]segno.Interrupt, error) {
	s, err := c.Status(ctx)
	if err != nil || len(s.Interrupts) == 0 && s.Phase != agent.PhaseBrokenOff {
		return nil, err
	}
	now, err := c.agent.Reask(ctx, c.Session)
	if segno.KindOf(err) == segno.KindConflict {
		return s.Interrupts, nil // another run has the thread, so its questions are current
	}
	return now.Interrupts, err
}

// Stream runs the session; see [agent.Agent.Stream].
func (c *Chat) Stream(ctx context.Context, in agent.Input) iter.Seq2[agent.Event, error] {
	in.Thread, in.Actor = c.Session, cmp.Or(in.Actor, c.Actor)
	return func(yield func(agent.Event, error) bool) {
		if err := c.checkPlace(); err != nil {
			yield(agent.Event{Kind: agent.EventError, Thread: segno.ThreadID(c.Session), Text: err.Error(), Time: c.Now()}, err)
			return
		}
		if c.OnRun != nil {
			c.OnRun(c.Session)
		}
		for e, err := range c.agent.Stream(ctx, in) {
			if err = c.explainConflict(ctx, err); err != nil && e.Kind == agent.EventError {
				e.Text = err.Error()
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// checkPlace returns an error if the store or the directory was moved or replaced: tools would
// use the old directory, and snapshots the new one.
func (c *Chat) checkPlace() error {
	if c.CheckStore != nil {
		if err := c.CheckStore(); err != nil {
			return err
		}
	}
	if opened, err := c.root.Stat("."); err == nil {
		if now, err := os.Stat(c.Dir); err == nil && os.SameFile(opened, now) {
			return nil
		}
	}
	return segno.Errorf(segno.KindRefused, "chat", c.Dir, "the directory was moved or replaced").WithHint("exit and start the chat again in the directory's new location")
}

// explainConflict replaces a conflict with another run by an error that names it.
func (c *Chat) explainConflict(ctx context.Context, err error) error {
	var conflict *segno.ConflictError
	if !errors.As(err, &conflict) || segno.KindOf(err) != segno.KindConflict {
		return err
	}
	if s, statusErr := c.agent.Status(context.WithoutCancel(ctx), c.Session); statusErr != nil || s.Phase != agent.PhaseRunning {
		return err
	}
	return c.errRunning()
}

func (c *Chat) errRunning() error {
	return segno.Errorf(segno.KindConflict, "chat", c.Session, "another process is running this session").WithHint("wait until it ends, or start another session")
}

// Status is the state of a session.
type Status struct {
	Session string
	New     bool // the session does not exist yet
	agent.Status
	Seq int64 // number of the newest event; see [Chat.Events]
}

// Status returns the state of the session.
func (c *Chat) Status(ctx context.Context) (Status, error) {
	s := Status{Session: c.Session}
	_, line, err := c.line(ctx)
	if segno.KindOf(err) == segno.KindNotFound {
		s.New = true
		return s, nil
	}
	if err == nil {
		s.Status, err = c.agent.Status(ctx, c.Session)
	}
	if err != nil {
		return s, err
	}
	s.Files += written(line)
	for e, err := range c.agent.Events(ctx, c.Session, 0) {
		if err != nil {
			return s, err
		}
		s.Seq = e.Seq
	}
	return s, nil
}

// written counts the files of the directory that tools wrote on a line. Notes of the log contain
// the tools' events.
func written(line *segno.Line) int {
	paths := map[string]bool{}
	for _, n := range line.Commits {
		for _, e := range n.Entries {
			var event agent.Event
			if e.Kind == segno.EntryNote && json.Unmarshal(e.Body, &event) == nil &&
				(event.Kind == tool.EventFileWritten || event.Kind == tool.EventFileEdited) {
				paths[event.Path] = true
			}
		}
	}
	return len(paths)
}

// Events yields the session's durable events; see [agent.Agent.Events].
func (c *Chat) Events(ctx context.Context, since int64) iter.Seq2[agent.Event, error] {
	return c.agent.Events(ctx, c.Session, since)
}

// Messages returns the session's conversation.
func (c *Chat) Messages(ctx context.Context) ([]agent.Message, error) {
	m, err := c.agent.Messages(ctx, c.Session, "")
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	return m, err
}

// Pending returns the question with an id or a prefix of it. It prefers an open question to
// one that was answered or replaced. If there is neither, it returns the id itself, which may
// belong to a subagent; the run then reports the state of that question.
func (c *Chat) Pending(ctx context.Context, id string) (segno.Interrupt, error) {
	_, state, err := c.state(ctx)
	if err != nil {
		return segno.Interrupt{}, err
	}
	var closed []segno.Interrupt
	for known := range state.Answers {
		closed = append(closed, segno.Interrupt{ID: known})
	}
	for known := range state.Replaced {
		closed = append(closed, segno.Interrupt{ID: known})
	}
	for _, all := range [][]segno.Interrupt{state.Interrupts, closed} {
		i, err := idprefix.Find(idprefix.Query{What: "approval", Name: id}, idprefix.Values(all), func(i segno.Interrupt) string { return i.ID })
		if segno.KindOf(err) != segno.KindNotFound {
			return i, err
		}
	}
	return segno.Interrupt{ID: id}, nil
}

// line returns the head of the session's thread, and its line.
func (c *Chat) line(ctx context.Context) (segno.Head, *segno.Line, error) {
	head, err := c.Store.Head(ctx, segno.ThreadID(c.Session))
	if segno.KindOf(err) == segno.KindNotFound {
		err = noSession(c.Session)
	}
	if err != nil {
		return head, nil, err
	}
	line, err := c.Store.Load(ctx, head.Head, segno.Window{Entries: true})
	return head, line, err
}

// state returns the head of the session's thread, and the state of its line.
func (c *Chat) state(ctx context.Context) (segno.Head, *segno.State, error) {
	head, line, err := c.line(ctx)
	if err != nil {
		return head, nil, err
	}
	state, err := segno.Fold(line)
	return head, state, err
}
