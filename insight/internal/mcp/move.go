package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

// The outcomes of a move.
const (
	applied   = "APPLIED"
	conflict  = "CONFLICT"  // made, except for the paths in conflicts
	requested = "REQUESTED" // it is made when the turn ends in which the agent asks
)

const noteRequested = "it is made once, when this turn ends. End the turn now, and do not ask again. It is dropped if the turn is interrupted. " +
	"The user sees it in 'segno status', and 'segno op cancel' drops it."

// moved is the result of a tool that moves.
type moved struct {
	State string `json:"outcome"`
	*moves.Outcome
	Saved     *history.Item      `json:"saved,omitempty"`
	Requested *history.Requested `json:"requested,omitempty"`
	Note      string             `json:"note,omitempty"` // of a requested move, for clients that do not show the text to their model
}

// addMoves adds the tools that move. The present is saved before files change, so the user can undo each move.
func (s *server) addMoves(m *mcp.Server) {
	const later = " Asked for during a turn of this thread, it is only REQUESTED, and made when the turn ends."
	addMove[undoArgs](s, m, "undo", "Undo the newest turns that have ended, and the one in which you ask: their changes to files, and the conversation. What the user changed stays."+later)
	addMove[redoArgs](s, m, "redo", "Redo undone turns, oldest first. It is refused during a turn of this thread.")
	addMove[restoreArgs](s, m, "restore", "Make the files and the conversation as they were at a checkpoint, or only some paths."+later)
	addMove[forkArgs](s, m, "fork", "Make a new directory beside this one, with the files and the conversation of a checkpoint. It changes nothing here.")
	addMove[saveArgs](s, m, "save", "Make a checkpoint of the present files now.")
}

// mover is the arguments of a tool that moves.
type mover interface {
	// request returns the move of a thread.
	request(ctx context.Context, c *call, thread segno.ThreadID) (moves.Request, error)
	key() string
}

func addMove[In mover](s *server, m *mcp.Server, name, description string) {
	isClosed, isDestructive := false, name == "undo" || name == "redo" || name == "restore"
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{OpenWorldHint: &isClosed, DestructiveHint: &isDestructive}}
	mcp.AddTool(m, tool, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		c, err := s.begin(ctx, req)
		if err != nil {
			return s.failed(err)
		}
		defer c.d.Close()
		out, err := c.move(ctx, name, in)
		if err != nil {
			return s.failed(err)
		}
		return answer(map[string]any{"result": out}, out.text())
	})
}

// move makes a move, or requests it. A call that repeats the key of an earlier one returns the outcome of that one: the id of
// the operation follows from the key, and no operation is made twice.
func (c *call) move(ctx context.Context, verb string, in mover) (*moved, error) {
	id := segno.OperationID(segno.NewID())
	if err := checkTexts(in.key()); err != nil {
		return nil, err
	}
	if in.key() != "" {
		id = segno.OperationID(segno.DerivedID("mcp", string(c.d.Rec.ID), in.key()))
	}
	if save, ok := in.(saveArgs); ok {
		return c.save(ctx, save, segno.CommitID(id))
	}
	engine := &moves.Engine{Store: c.d.Store, Local: c.d.Store, OwnAgent: noAgent{}, Actor: c.actor, Now: c.d.Store.Place().Now}
	if in.key() != "" {
		if out, err := done(ctx, engine, verb, id); out != nil || err != nil {
			return out, err
		}
	}
	thread, err := c.thread(ctx)
	if err != nil {
		return nil, err
	}
	r, err := in.request(ctx, c, thread)
	if err != nil {
		return nil, err
	}
	p, err := engine.Prepare(ctx, r)
	if open, ok := errors.AsType[*timeline.TurnOpenError](err); ok && open.Turn.Thread == thread {
		q, err := engine.RequestLater(ctx, r, id)
		if err != nil {
			return nil, err
		}
		item := history.NewRequested(*q)
		return &moved{State: requested, Requested: &item, Note: noteRequested}, nil
	}
	if err != nil { // Prepare may have made this move, if it was requested before
		if out, found := done(ctx, engine, verb, id); out != nil {
			return out, found
		}
		return nil, err
	}
	out, err := engine.Apply(ctx, p, id, false)
	if err != nil {
		return nil, err
	}
	return outcome(out), nil
}

// done returns the outcome of the operation with an id, or nil if the log has none.
func done(ctx context.Context, engine *moves.Engine, verb string, id segno.OperationID) (*moved, error) {
	out, err := engine.Find(ctx, id)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, nil
	}
	if err == nil && out.Verb != verb {
		err = segno.Errorf(segno.KindConflict, verb, "", "the key belongs to an earlier %s", out.Verb).WithHint("use another key")
	}
	if err != nil {
		return nil, err
	}
	if verb != string(segno.VerbFork) {
		out.Notice += "; conflicts that it left are not listed again"
	}
	return outcome(out), nil
}

func outcome(o *moves.Outcome) *moved {
	if len(o.Conflicts) > 0 {
		return &moved{State: conflict, Outcome: o}
	}
	return &moved{State: applied, Outcome: o}
}

// thread returns the thread to move. The first turn of a thread has nothing to move to, and the thread of the directory may
// then be another agent's.
func (c *call) thread(ctx context.Context) (segno.ThreadID, error) {
	if c.own != nil && c.own.Thread == "" && c.app.ThreadName == "" {
		return "", segno.Errorf(segno.KindNotFound, "find thread", c.d.Rec.Path, "this is the first turn of its thread").
			WithHint("there is nothing to move to before it ends")
	}
	return c.app.ThreadID(ctx, c.d)
}

func (c *call) save(ctx context.Context, in saveArgs, id segno.CommitID) (*moved, error) {
	if err := checkTexts(in.Message); err != nil {
		return nil, err
	}
	cp, err := c.d.Timeline.WithActor(c.actor).SaveOnce(ctx, segno.CheckpointSave, in.Message, id)
	if err != nil {
		return nil, err
	}
	h, err := history.Read(ctx, c.d.Store, cp.Thread)
	if err != nil {
		return nil, err
	}
	item := h.Item(cp)
	return &moved{State: applied, Saved: &item}, nil
}

// text describes the result to a model.
func (m *moved) text() string {
	switch {
	case m.Saved != nil:
		return fmt.Sprintf("%s save: checkpoint %s", m.State, m.Saved.ID)
	case m.Requested != nil:
		return fmt.Sprintf("%s '%s' (%s): %s", m.State, m.Requested.Move, cli.Short(m.Requested.Operation), m.Note)
	}
	lines := []string{strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", m.State, m.Verb, m.Sentence, m.Notice))}
	if m.Fork != nil {
		lines = append(lines, "thread "+string(m.Fork.Thread)+" in "+segno.QuotePath(m.Fork.Dir))
	}
	if len(m.Run) > 0 {
		lines = append(lines, "to go on with the conversation, the user runs in "+segno.QuotePath(m.Dir)+": "+cli.CommandLine(m.Run))
	}
	for _, x := range m.Conflicts {
		lines = append(lines, "conflict, left as it is: "+segno.QuotePath(x.Path)+": "+x.Why, x.Diff)
	}
	for _, x := range m.Kept {
		lines = append(lines, "protected, left as it is: "+segno.QuotePath(x.Path)+": "+x.Why)
	}
	return strings.Join(lines, "\n")
}

// keyed is the part of the arguments that all moves have.
type keyed struct {
	Key string `json:"key,omitempty" jsonschema:"a random text: a repeated call with the same key never moves twice, also in a later turn; use a new one for each move"`
}

func (k keyed) key() string { return k.Key }

// steps are the arguments of undo and redo.
type steps struct {
	keyed
	Turns int    `json:"turns,omitempty" jsonschema:"the number of turns, 1 if absent"`
	Turn  string `json:"turn,omitempty" jsonschema:"instead of turns: back to and including this one, such as t4"`
}

func (a steps) fill(r moves.Request) (moves.Request, error) {
	r.Turns = a.Turns
	if a.Turn != "" {
		if _, err := fmt.Sscanf(a.Turn, "t%d", &r.Turn); err != nil || !idprefix.IsTurnName(a.Turn) || r.Turn == 0 {
			return r, segno.Errorf(segno.KindInvalid, r.Verb, a.Turn, "it is not a turn").WithHint("name a turn as log lists it, such as t4")
		}
	}
	return r, nil
}

type undoArgs struct {
	steps
	Paths []string `json:"paths,omitempty" jsonschema:"undo only the changes to these paths, and not the conversation"`
}

func (a undoArgs) request(ctx context.Context, c *call, thread segno.ThreadID) (r moves.Request, err error) {
	if r, err = a.fill(moves.Request{Verb: "undo", Thread: thread}); err != nil {
		return r, err
	}
	return r, c.resolve(ctx, &r, "@", a.Paths)
}

type redoArgs struct{ steps }

func (a redoArgs) request(_ context.Context, _ *call, thread segno.ThreadID) (moves.Request, error) {
	return a.fill(moves.Request{Verb: "redo", Thread: thread})
}

type restoreArgs struct {
	keyed
	Checkpoint string   `json:"checkpoint" jsonschema:"t3, @, @-, a pin or the beginning of an id"`
	Paths      []string `json:"paths,omitempty" jsonschema:"restore only these paths, and not the conversation"`
	Only       string   `json:"only,omitempty" jsonschema:"files or chat: restore only these"`
}

func (a restoreArgs) request(ctx context.Context, c *call, thread segno.ThreadID) (moves.Request, error) {
	r := moves.Request{Verb: "restore", Thread: thread, Scope: timeline.Scope(a.Only)}
	cp, err := c.checkpoint(ctx, a.Checkpoint)
	if err != nil {
		return r, err
	}
	r.To = cp.ID
	return r, c.resolve(ctx, &r, a.Checkpoint, a.Paths)
}

type forkArgs struct {
	keyed
	Checkpoint string `json:"checkpoint,omitempty" jsonschema:"the head if absent"`
	Name       string `json:"name,omitempty" jsonschema:"of the new directory, beside the workspace; chosen by segno if absent"`
	Title      string `json:"title,omitempty" jsonschema:"of the new thread"`
}

func (a forkArgs) request(ctx context.Context, c *call, thread segno.ThreadID) (moves.Request, error) {
	r := moves.Request{Verb: "fork", Thread: thread, Title: a.Title}
	if a.Name != "" {
		if err := checkNames(a.Name); err != nil || strings.ContainsRune(a.Name, filepath.Separator) || !filepath.IsLocal(a.Name) || a.Name == "." {
			return r, segno.Errorf(segno.KindInvalid, "fork", segno.QuotePath(a.Name), "it is not the name of a directory beside the workspace").WithHint("give one name without slashes")
		}
		r.Dir = filepath.Join(filepath.Dir(c.d.Rec.Path), a.Name)
	}
	cp, err := c.checkpoint(ctx, cmp.Or(a.Checkpoint, "@"))
	if err == nil {
		r.To = cp.ID
	}
	return r, err
}

type saveArgs struct {
	keyed
	Message string `json:"message,omitempty" jsonschema:"a name for the checkpoint"`
}

func (saveArgs) request(context.Context, *call, segno.ThreadID) (moves.Request, error) {
	return moves.Request{}, segno.Errorf(segno.KindInternal, "save", "", "it is not a move")
}

func (c *call) checkpoint(ctx context.Context, name string) (*segno.Checkpoint, error) {
	if err := checkNames(name); err != nil {
		return nil, err
	}
	_, cp, err := c.app.CheckpointNamed(ctx, c.d, name)
	return cp, err
}

// resolve sets the paths of a request. A path may be one of a checkpoint.
func (c *call) resolve(ctx context.Context, r *moves.Request, checkpoint string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	if err := checkNames(paths...); err != nil {
		return err
	}
	cp, err := c.checkpoint(ctx, checkpoint)
	if err == nil {
		r.Paths, err = cli.ResolvePaths(ctx, c.d, cp, paths)
	}
	return err
}
