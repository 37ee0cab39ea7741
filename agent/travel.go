package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/timeline"
)

// Where is where a thread stands after it was moved.
type Where struct {
	Head segno.CommitID // the checkpoint: what can be forked and restored
	Turn int
	Loaded
	Interrupts []segno.Interrupt // what waits for a decision there
	Conflicts  []segno.Conflict  // files that stay as they are: somebody changed them since
	Kept       []segno.Conflict  // those that stay because they are not saved: too large, ignored
	Lost       bool              // one of Kept is gone, and cannot be brought back
}

// Undo takes a thread n turns back, with its files if the agent has a [Config.Timeline].
// A turn that was broken off counts. What is taken back stays in the log; Redo does
// it again.
func (a *Agent) Undo(ctx context.Context, thread string, n int) (Where, error) {
	return a.travel(ctx, thread, func(r *run) (timeline.Plan, error) {
		return r.move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: n})
	})
}

// Redo takes a thread n turns forward again.
func (a *Agent) Redo(ctx context.Context, thread string, n int) (Where, error) {
	return a.travel(ctx, thread, func(r *run) (timeline.Plan, error) {
		return r.move(ctx, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: n})
	})
}

// Restore takes a thread to any of its checkpoints. A question that waits there is
// asked anew, under another id: an answer of another line is none here. Files are
// saved where a turn begins and where a run ends: at a checkpoint between them they
// stay as they are.
func (a *Agent) Restore(ctx context.Context, thread string, to segno.CommitID) (Where, error) {
	return a.travel(ctx, thread, func(r *run) (timeline.Plan, error) {
		return r.move(ctx, timeline.MoveRequest{Verb: segno.VerbRestore, To: to})
	})
}

// travel takes the thread, moves it, and asks anew what waits there.
func (a *Agent) travel(ctx context.Context, thread string, move func(*run) (timeline.Plan, error)) (Where, error) {
	r := &run{Agent: a, in: Input{Thread: thread}, moving: true, stop: nobody()}
	err := r.begin(ctx)
	defer func() { r.lease.giveUp(context.WithoutCancel(ctx)) }()
	if err != nil {
		return Where{}, err
	}
	moved, err := move(r)
	if err != nil {
		return Where{}, err
	}
	from := r.head.Head
	if err := r.reload(ctx); err != nil {
		return Where{}, err
	}
	r.forked = r.forked || r.head.Head != from // wherever it stands now, it came from elsewhere
	if err := r.reopen(ctx); err != nil {
		return Where{}, err
	}
	return r.where(moved), nil
}

// move moves the thread, with its files if it has a site.
func (r *run) move(ctx context.Context, ask timeline.MoveRequest) (timeline.Plan, error) {
	files, err := r.hasFiles(ctx, ask.To)
	if err != nil {
		return timeline.Plan{}, err
	}
	if files {
		return r.moveFiles(ctx, ask)
	}
	if r.Timeline != nil {
		// A move that was broken off is completed first.
		if err := r.Timeline.CompletePending(ctx); err != nil {
			return timeline.Plan{}, err
		}
	}
	ask.Thread = r.thread
	tl := timeline.Open(timeline.Config{Store: r.Store})
	if r.lease != nil {
		tl = tl.WithLease(r.lease.now())
	}
	_, err = tl.MoveHead(ctx, ask)
	return timeline.Plan{}, err
}

// hasFiles reports whether a move to a checkpoint moves files; "" is any other move.
func (r *run) hasFiles(ctx context.Context, to segno.CommitID) (bool, error) {
	if r.Timeline == nil || to == "" {
		return r.Timeline != nil, nil
	}
	line, err := r.Store.Load(ctx, to, segno.Window{Last: 1})
	if err != nil {
		return false, err
	}
	return !line.Commits[0].Checkpoint.Tree().IsZero(), nil
}

func (r *run) where(moved timeline.Plan) Where {
	return Where{Head: r.at, Turn: r.state.Turn, Loaded: *r.loaded(), Interrupts: r.state.Interrupts, Conflicts: moved.Conflicts, Kept: moved.Kept, Lost: moved.Lost}
}

// nobody is the stop of a run that nobody listens to.
func nobody() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Fork makes a thread that begins at a checkpoint of another: messages, state and
// todos as they were there. Both go on by themselves: what waits for a decision
// there is asked anew, and a task under way goes on in a fork of its own. Files of a
// workspace are not copied; see [timeline.Timeline].
func (a *Agent) Fork(ctx context.Context, at segno.CommitID, thread string) (Where, error) {
	as := segno.Thread{ID: segno.ThreadID(thread), Created: a.Now(), Agent: a.Name}
	if a.Timeline != nil {
		as.Workspace = a.Timeline.Workspace.ID()
	}
	if _, err := timeline.Open(timeline.Config{Store: a.Store}).ForkThread(ctx, at, as, false); err != nil {
		return Where{}, err
	}
	return a.travel(ctx, thread, func(*run) (timeline.Plan, error) { return timeline.Plan{}, nil })
}

// Refresh is Look for who means to answer: what waits where others moved the thread
// to is asked anew first, and so is what a call came to whose run was killed, where
// its tool has people asked. Another run that has the thread makes it a
// [segno.KindConflict].
func (a *Agent) Refresh(ctx context.Context, thread string) (Where, error) {
	return a.travel(ctx, thread, func(r *run) (timeline.Plan, error) { return timeline.Plan{}, r.askLost(ctx) })
}

// askLost asks about the calls whose results were lost and that nobody was asked about.
func (r *run) askLost(ctx context.Context) error {
	if r.head.Head != r.head.Tip {
		return nil // who only looks leaves redo what it has
	}
	for _, c := range r.undone() {
		j := job{Call: c, tool: r.tools[c.Name]}
		if r.intent(c.ID) == nil || r.waits(c.ID) || r.answer(c.ID) != nil || j.tool.OnLost != LostAsk {
			continue
		}
		if _, _, err := r.lost(j); err != nil {
			return err
		}
	}
	return r.commit(ctx, nil)
}

// Look says where a thread stands.
func (a *Agent) Look(ctx context.Context, thread string) (Where, error) {
	head, err := a.Store.Head(ctx, segno.ThreadID(thread))
	if err != nil {
		return Where{}, err
	}
	r := &run{Agent: a, thread: segno.ThreadID(thread), head: head}
	if err := r.load(ctx); err != nil {
		return Where{}, err
	}
	return r.where(timeline.Plan{}), nil
}

// Messages returns the conversation of a thread's line up to a checkpoint; "" is
// where it stands. One that is not the thread's, nor of what it was forked from, is
// [segno.KindNotFound].
func (a *Agent) Messages(ctx context.Context, thread string, at segno.CommitID) ([]Message, error) {
	head, err := a.Store.Head(ctx, segno.ThreadID(thread))
	if err != nil {
		return nil, err
	}
	if at != "" {
		if err := a.within(ctx, head, at); err != nil {
			return nil, err
		}
		head.Head = at
	}
	r := &run{Agent: a, thread: segno.ThreadID(thread), head: head}
	err = r.load(ctx)
	return r.msgs, err
}

// within refuses a checkpoint of another thread.
func (a *Agent) within(ctx context.Context, head segno.Head, at segno.CommitID) error {
	line, err := a.Store.Load(ctx, at, segno.Window{Last: 1})
	if err != nil || line.Commits[0].Thread == head.Thread {
		return err
	}
	tip, err := a.Store.Load(ctx, head.Tip, segno.Window{})
	if err != nil || slices.ContainsFunc(tip.Commits, func(n segno.Node) bool { return n.ID == at }) {
		return err
	}
	return segno.Errorf(segno.KindNotFound, "load", string(at), "the thread has no such checkpoint")
}

// Saver returns the saver of the agent's store: history, and every checkpoint's
// messages and state.
func (a *Agent) Saver() *saver.StoreSaver { return &saver.StoreSaver{Store: a.Store, Now: a.Now} }

// reopen asks anew what waits where the thread was moved to, and what nobody
// answered in time. Tasks under way go on in a fork of what they were there.
func (r *run) reopen(ctx context.Context) error {
	now, members := r.Now(), r.members.get()
	for _, old := range slices.Clone(r.state.Interrupts) {
		if old.Via != "" {
			continue // its task asks anew
		}
		expired := old.Late(now)
		moved, err := r.moved(ctx, segno.EntryInterrupt, old.ID)
		if err != nil {
			return err
		}
		if !moved && !expired {
			continue
		}
		if err := r.askAnew(old); err != nil {
			return err
		}
	}
	if err := r.askAllowed(ctx); err != nil {
		return err
	}
	if err := r.forkTasks(ctx); err != nil {
		return err
	}
	if r.moving {
		if err := r.renewTasks(ctx); err != nil {
			return err
		}
	}
	if maps.Equal(members, r.members.get()) {
		return r.commit(ctx, nil)
	}
	return r.commit(ctx, r.stepEnd()) // members stand in checkpoints
}

// askAnew asks a question under another id.
func (r *run) askAnew(old segno.Interrupt) error {
	i := old
	i.ID, i.Thread, i.Replaces, i.Asked = segno.NewID(), r.thread, old.ID, r.Now()
	if !old.Expires.IsZero() {
		i.Expires = i.Asked.Add(old.Expires.Sub(old.Asked).Round(time.Millisecond))
	}
	return r.question(i)
}

// askAllowed asks anew about calls that were allowed and never begun, where the thread
// was moved since: on another line they may have been made.
func (r *run) askAllowed(ctx context.Context) error {
	for _, c := range r.undone() {
		a := r.answer(c.ID)
		if a == nil || r.waits(c.ID) || r.tools[c.Name].OnLost == LostRerun {
			continue
		}
		if moved, err := r.moved(ctx, segno.EntryDecision, a.Interrupt.ID); err != nil {
			return err
		} else if moved {
			if err := r.askAnew(a.Interrupt); err != nil {
				return err
			}
		}
	}
	return nil
}

// moved reports whether the thread was moved since a question was asked or answered, or
// a call begun: on another line it may have been answered, or made.
func (r *run) moved(ctx context.Context, kind segno.EntryKind, id string) (bool, error) {
	n := r.asked[string(kind)+id]
	if n == nil {
		return false, nil // it is drafted now
	}
	if r.forked || r.head.Head != r.head.Tip || n.Thread != r.thread {
		return true, nil
	}
	for c, err := range r.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: r.thread}) {
		if err != nil {
			return false, err
		}
		if c.Seq <= n.Seq {
			break
		}
		if !r.onLine[c.ID] {
			return true, nil
		}
	}
	return false, nil
}

// forkTasks gives each task under way a thread of its own that begins where the
// task was at this checkpoint, and asks there anew what it waits for.
func (r *run) forkTasks(ctx context.Context) error {
	members := r.members.get()
	for _, c := range r.undone() {
		at := members[c.ID]
		if r.intent(c.ID) == nil || at == "" || !r.tools[c.Name].isTask {
			continue
		}
		if moved, err := r.moved(ctx, segno.EntryIntent, c.ID); err != nil {
			return err
		} else if !moved {
			continue
		}
		j := job{Call: c, tool: r.tools[c.Name], key: segno.DerivedID("moved", string(r.thread), string(r.head.Head), c.ID)}
		t := segno.Thread{ID: segno.ThreadID(taskThread(j.key)), Created: r.Now(), ParentThread: r.thread, Agent: r.Name}
		if _, err := timeline.Open(timeline.Config{Store: r.Store}).ForkThread(ctx, at, t, true); err != nil && segno.KindOf(err) != segno.KindConflict { // a conflict: made before a crash
			return fmt.Errorf("fork task: %w", err)
		}
		if err := r.askTask(ctx, j); err != nil {
			return fmt.Errorf("fork task: %w", err)
		}
		if err := r.intend(&j, true); err != nil {
			return err
		}
	}
	return nil
}

// askTask takes over what a task that was forked waits for.
func (r *run) askTask(ctx context.Context, j job) error {
	child := &run{Agent: r.Agent, in: Input{Thread: taskThread(j.key)}, parent: r, moving: true, stop: nobody()}
	err := child.begin(ctx)
	defer func() { child.lease.giveUp(context.WithoutCancel(ctx)) }()
	if err != nil {
		return err
	}
	if err := child.reopen(ctx); err != nil {
		return err
	}
	r.member(j.ID, child.head.Head)
	return r.bubble(j, &waitError{child.state.Interrupts, child.state.Replaced})
}
