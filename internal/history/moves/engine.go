package moves

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// Engine previews and makes moves of the threads of a store.
type Engine struct {
	Store segno.Store
	// Local is Store if it is a store of this machine. If Local is nil, the engine has no workspaces, and moves change
	// only pointers.
	Local    *local.Store
	OwnAgent OwnAgent
	Actor    string // of the moves and decisions; see segno.Operation
	Now      func() time.Time
}

// OwnAgent has the parts of segno's own agent that moves need.
type OwnAgent interface {
	// Command returns the command that continues a thread, or nil if the thread belongs to another agent.
	Command(t segno.Thread, args ...string) []string
	// Decide records the answer to a question of a Go agent. root is the root of the workspace, or "".
	Decide(ctx context.Context, t segno.Thread, tl *timeline.Timeline, root string, d segno.Decision) error
}

// Preview is a planned move as the page, the HTTP API and a client show it before the user agrees.
type Preview struct {
	Verb    string         `json:"verb"`
	Thread  segno.ThreadID `json:"thread"`
	Title   string         `json:"title"`   // the first line of Summary
	Summary []string       `json:"summary"` // the plan as the command line shows it
	// Sentence describes the plan in one sentence, and Effect beside a button. Both are "" for a move that changes no
	// files.
	Sentence string           `json:"sentence"`
	Effect   string           `json:"effect"`
	Turns    []int            `json:"turns"`
	Only     bool             `json:"only,omitempty"` // Turns are undone alone: newer turns and the conversation stay
	Steps    []history.Change `json:"steps"`
	Landing  segno.CommitID   `json:"landing,omitempty"`
	Tip      segno.CommitID   `json:"tip,omitempty"`
	Session  *PreviewSession  `json:"session"`     // the session that the conversation moves to, or null
	Run      []string         `json:"run_preview"` // continues the conversation; … is the session's id
	Dir      string           `json:"dir,omitempty"`
	Git      string           `json:"git,omitempty"`

	Conflicts  []UnwrittenPath  `json:"conflicts"`
	Kept       []UnwrittenPath  `json:"kept"`
	Forced     []history.Change `json:"forced"`      // the writes that force makes where there are conflicts
	NeedsForce bool             `json:"needs_force"` // the move has conflicts that force overwrites
	Final      bool             `json:"final"`       // the move cannot be undone
	Totals     Totals           `json:"totals"`
}

// Totals are the lengths that the lists of a preview or an outcome would have without their limits.
type Totals struct {
	Steps     int `json:"steps"`
	Conflicts int `json:"conflicts"`
	Kept      int `json:"kept"`
	Forced    int `json:"forced"`
}

// PreviewSession is the session that a conversation moves to.
type PreviewSession struct {
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Dir     string          `json:"dir,omitempty"`
}

// Outcome is a move that was made: where the thread is now, and what stayed.
type Outcome struct {
	Operation segno.OperationID `json:"operation"` // "" if the log has none
	Verb      string            `json:"verb"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      segno.CommitID    `json:"head"`
	Tip       segno.CommitID    `json:"tip"`
	Revision  int64             `json:"revision"` // of the thread; a list of threads with a lower one is older than the move
	Files     int               `json:"files"`    // paths written
	Totals    Totals            `json:"totals"`
	Changes   []history.Change  `json:"changes"`
	Conflicts []UnwrittenPath   `json:"conflicts"`
	Kept      []UnwrittenPath   `json:"kept"`
	Sentence  string            `json:"sentence"`      // what the move did, or "" if only the notice describes it
	Run       []string          `json:"run"`           // the command that continues the conversation
	Dir       string            `json:"dir,omitempty"` // where to run it
	Chat      string            `json:"chat"`          // why the conversation could not move, or ""
	Fork      *ForkedThread     `json:"fork"`
	Forgot    segno.ThreadID    `json:"forgot,omitempty"` // the thread of a fork that an op undo forgot
	Notice    string            `json:"notice"`           // another message for the user
	Undo      *Request          `json:"undo"`             // the request that undoes it, or null
}

// ForkedThread is the thread that a fork made.
type ForkedThread struct {
	Thread segno.ThreadID `json:"thread"`
	Dir    string         `json:"dir"`
}

// Prepared is a previewed move. It can be applied once.
type Prepared struct {
	Preview
	target *target
	mover  mover
}

// mover is the implementation of one move.
type mover interface {
	// describe plans the move and fills in p.
	describe(ctx context.Context, p *Preview) error
	// apply makes the move under the id of an operation. It returns a [segno.KindConflict] with a
	// [timeline.OutdatedError] if the move would differ from the description.
	apply(ctx context.Context, id segno.OperationID, force bool, o *Outcome) error
}

// Prepare plans a move. It changes nothing.
func (e *Engine) Prepare(ctx context.Context, r Request) (*Prepared, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	t, err := e.target(ctx, &r)
	if err != nil {
		return nil, err
	}
	p := &Prepared{target: t, mover: newMover(t, r), Preview: Preview{Verb: r.Verb, Thread: t.head.Thread, Turns: []int{}, Steps: []history.Change{},
		Conflicts: []UnwrittenPath{}, Kept: []UnwrittenPath{}, Forced: []history.Change{}, Run: []string{}}}
	if err := p.mover.describe(ctx, &p.Preview); err != nil {
		return nil, err
	}
	if len(p.Summary) > 0 {
		p.Title = p.Summary[0]
	}
	p.Totals = Totals{len(p.Steps), len(p.Conflicts), len(p.Kept), len(p.Forced)}
	p.Steps, p.Forced = first(p.Steps, maxListed), first(p.Forced, maxListed)
	p.Conflicts, p.Kept = withShortDiffs(p.Conflicts), first(p.Kept, maxListed)
	return p, nil
}

// Step returns the change of a path that the move makes, or that it makes with force. It returns false for other paths.
func (p *Prepared) Step(path string) (segno.Change, bool) {
	m, ok := p.mover.(*fileMove)
	if !ok || m.plan == nil {
		return segno.Change{}, false
	}
	for _, c := range slices.Concat(m.plan.Forced, m.plan.Steps) {
		if c.Path == path {
			return c, true
		}
	}
	return segno.Change{}, false
}

// Weight returns the approximate number of paths that the plan has in memory.
func (p *Prepared) Weight() int {
	return 1 + p.Totals.Steps + p.Totals.Conflicts + p.Totals.Kept + p.Totals.Forced
}

func newMover(t *target, r Request) mover {
	switch r.Verb {
	case verbFork:
		return &fork{target: t, request: r}
	case verbPin, verbUnpin:
		return &pin{target: t, request: r}
	case verbRename:
		return &rename{target: t, title: r.Title}
	case verbDelete:
		return &deletion{target: t}
	case verbDecide:
		return &decision{target: t, request: r}
	}
	return &fileMove{target: t, request: r}
}

// Apply makes a prepared move under the id of an operation. Once the move has begun, Apply does not stop when ctx ends.
// If the operation log already has the operation, Apply returns its outcome.
func (e *Engine) Apply(ctx context.Context, p *Prepared, id segno.OperationID, force bool) (*Outcome, error) {
	ctx = context.WithoutCancel(ctx)
	p.target.setActor(e.Actor)
	o := &Outcome{Verb: p.Verb, Thread: p.Thread, Conflicts: []UnwrittenPath{}, Kept: []UnwrittenPath{}, Changes: []history.Change{}, Run: []string{}}
	if err := p.mover.apply(ctx, id, force, o); err != nil {
		if done, found := e.Find(ctx, id); found == nil {
			return done, nil
		}
		return nil, err
	}
	o.Totals = Totals{Steps: o.Files, Conflicts: len(o.Conflicts), Kept: len(o.Kept)}
	o.Changes, o.Conflicts, o.Kept = first(o.Changes, maxListed), withShortDiffs(o.Conflicts), first(o.Kept, maxListed)
	if p.Verb == verbDelete {
		return o, nil
	}
	head, err := e.Store.Head(ctx, p.Thread)
	o.Head, o.Tip, o.Revision = head.Head, head.Tip, head.Seq
	return o, err
}

// target is the thread of a request, and its workspace if this machine has it.
type target struct {
	*Engine
	head     segno.Head
	thread   segno.Thread
	timeline *timeline.Timeline
	root     string // root of the workspace; "" if the move can change only pointers
	actor    string
}

// setActor makes the next move one of an actor. Another client may apply a preview than the one that asked for it.
func (t *target) setActor(actor string) {
	t.actor, t.timeline = actor, t.timeline.WithActor(actor)
}

// target finds the thread of a request.
func (e *Engine) target(ctx context.Context, r *Request) (*target, error) {
	if r.Thread == "" { // only a fork may have none
		c, err := e.checkpoint(ctx, r.To)
		if err != nil {
			return nil, err
		}
		r.Thread = c.Thread
	}
	head, err := e.Store.Head(ctx, r.Thread)
	if err != nil {
		return nil, err
	}
	t := &target{Engine: e, head: head}
	if t.thread, _, err = segno.FindThread(ctx, e.Store, r.Thread); err != nil {
		return nil, err
	}
	return t, t.open(ctx)
}

// open opens the timeline of the thread's workspace. If this machine does not have the workspace, the timeline moves
// only pointers.
func (t *target) open(ctx context.Context) error {
	t.timeline = timeline.Open(timeline.Config{Store: t.Store, Now: t.Now})
	if t.Local == nil {
		return nil
	}
	rec, exists, err := t.Local.ThreadWorkspace(ctx, t.thread)
	if err != nil || !exists {
		return err
	}
	t.root = rec.Path
	if !t.Local.ReadOnly() {
		_ = t.Local.RemoveAbandonedForks(ctx) // the move does not depend on this cleanup
	}
	t.timeline, err = t.Local.Timeline(rec, nil)
	return err
}

func (e *Engine) checkpoint(ctx context.Context, id segno.CommitID) (*segno.Checkpoint, error) {
	line, err := e.Store.Load(ctx, id, segno.Window{Last: 1})
	if err != nil {
		return nil, err
	}
	if c := line.Commits[len(line.Commits)-1].Checkpoint; c != nil {
		return c, nil
	}
	return nil, segno.Errorf(segno.KindInvalid, "find checkpoint", string(id), "the commit has no checkpoint")
}

// ownCheckpoint returns a checkpoint of the thread, or of an ancestor of a fork.
func (t *target) ownCheckpoint(ctx context.Context, id segno.CommitID) (*segno.Checkpoint, error) {
	c, err := t.checkpoint(ctx, id)
	if err != nil || c.Thread == t.head.Thread {
		return c, err
	}
	for n, err := range segno.Ancestors(ctx, t.Store, t.head.Head, segno.Window{}) {
		if err != nil {
			return nil, err
		}
		if n.ID == id {
			return c, nil
		}
	}
	return nil, segno.Errorf(segno.KindRefused, "preview", string(id), "the checkpoint belongs to another thread").
		WithHint("preview a move of thread " + string(c.Thread))
}

// refuseDeleted returns an error if the thread of a checkpoint is deleted. A fork keeps the checkpoints of its source, but
// a commit that pins or forks one needs its thread.
func (t *target) refuseDeleted(ctx context.Context, c *segno.Checkpoint) error {
	_, err := t.Store.Head(ctx, c.Thread)
	if err != nil && segno.KindOf(err) == segno.KindNotFound {
		return segno.Errorf(segno.KindNotFound, "preview", string(c.ID), "the thread of the checkpoint is deleted").
			WithHint("choose a checkpoint of the thread itself")
	}
	return err
}
