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

// Undo moves a thread n turns back, with its files if the agent has a [Config.Timeline]. An
// unfinished turn counts. The undone turns stay in the log; Redo applies them again. If the first of
// two calls was interrupted, the second one completes it, moves no further, and returns a
// [segno.KindConflict]; so does Redo.
//
// Undo, Redo, Restore and Fork move first and then ask the open questions again. If only the
// questions fail, the error comes with a Status that has a Head: the move was made. Do not repeat
// it, which would undo other turns; [Agent.Reask], or the next run, asks the questions.
func (a *Agent) Undo(ctx context.Context, thread string, n int) (Status, error) {
	return a.moveTo(ctx, thread, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: n})
}

// UndoTurn undoes the turn of a prompt, which the prompt's key names, if it is the newest turn of the
// thread and has not ended. Otherwise nothing moves, and the error wraps [ErrTurnOver].
func (a *Agent) UndoTurn(ctx context.Context, thread, key string) (Status, error) {
	return a.withThread(ctx, thread, func(r *run) (Status, error) {
		if !r.isIn(key) { // no other run can end the turn now, because this one has the lease
			return Status{}, segno.NewError(segno.KindConflict, "undo turn", key, ErrTurnOver)
		}
		return r.moveTo(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	})
}

// isIn reports whether the thread's newest turn began with the prompt with a key, and has not ended.
func (r *run) isIn(key string) bool {
	begin, id := r.prompts[r.turn], (&Input{Key: key}).promptID()
	return r.open && begin != nil && slices.ContainsFunc(begin.Entries, func(e segno.Entry) bool {
		return e.Kind == segno.EntryMessage && e.Name == string(User) && e.ID == id
	})
}

// Redo moves a thread n turns forward again.
func (a *Agent) Redo(ctx context.Context, thread string, n int) (Status, error) {
	return a.moveTo(ctx, thread, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: n})
}

// Restore moves a thread to any of its checkpoints. A question that is open there gets another
// id, because a decision on another line does not count. Files are saved where a turn begins
// and where a run ends: a restore to a checkpoint between them leaves the files unchanged.
func (a *Agent) Restore(ctx context.Context, thread string, to segno.CommitID) (Status, error) {
	return a.moveTo(ctx, thread, timeline.MoveRequest{Verb: segno.VerbRestore, To: to})
}

// Fork creates a thread that begins at a checkpoint of another thread, with the messages, state
// and todos of that checkpoint. The threads are independent: a question that is open there gets
// another id, and an unfinished task continues in a fork of its thread. Fork does not copy the
// files of a workspace; see [timeline.Timeline].
func (a *Agent) Fork(ctx context.Context, at segno.CommitID, thread string) (Status, error) {
	t := segno.Thread{ID: segno.ThreadID(thread), Created: a.Now(), Agent: a.Name}
	if a.Timeline != nil {
		t.Workspace = a.Timeline.Workspace.ID()
	}
	head, err := a.storeTimeline().ForkThread(ctx, at, t, false)
	if err != nil {
		return Status{}, err
	}
	made := Status{Head: head.Head}
	s, err := a.withThread(ctx, thread, func(*run) (Status, error) { return made, nil })
	if err != nil {
		return made, err
	}
	return s, nil
}

// Reask records the questions that the thread's next run would ask. These are the open questions of
// a checkpoint that another process moved the thread to, and questions about calls with lost
// results, for tools with [LostAsk]. Use it before [Agent.Decide] on a thread that is not
// running. It returns [segno.KindConflict] during a run.
func (a *Agent) Reask(ctx context.Context, thread string) (Status, error) {
	return a.withThread(ctx, thread, func(r *run) (Status, error) { return Status{}, r.draftLostQuestions(ctx) })
}

// Saver returns a saver on the agent's store, for the history of threads and the messages and
// state of every checkpoint.
func (a *Agent) Saver() *saver.StoreSaver { return &saver.StoreSaver{Store: a.Store, Now: a.Now} }

func (a *Agent) moveTo(ctx context.Context, thread string, request timeline.MoveRequest) (Status, error) {
	return a.withThread(ctx, thread, func(r *run) (Status, error) { return r.moveTo(ctx, request) })
}

func (r *run) moveTo(ctx context.Context, request timeline.MoveRequest) (Status, error) {
	request.Thread = r.thread
	if err := r.completed.CheckRepeated(request); err != nil {
		return Status{}, err
	}
	files, err := r.movesFiles(ctx, request.To)
	if err != nil {
		return Status{}, err
	}
	if !files {
		head, err := r.leased(r.storeTimeline()).MoveHead(ctx, request)
		if err != nil {
			return Status{}, err
		}
		return Status{Head: head.Head}, nil
	}
	request.Scope = timeline.ScopeBoth
	moved, err := r.leased(r.Timeline).Move(ctx, request, nil)
	if err != nil {
		return Status{}, err
	}
	return Status{Head: moved.Head.ID, Conflicts: moved.Plan.Conflicts, Kept: moved.Plan.Kept, Lost: moved.Plan.Lost}, nil
}

// storeTimeline returns a timeline without a workspace. It moves and forks only threads.
func (a *Agent) storeTimeline() *timeline.Timeline {
	return timeline.Open(timeline.Config{Store: a.Store})
}

// movesFiles reports whether a move changes files. to is empty for undo and redo.
func (r *run) movesFiles(ctx context.Context, to segno.CommitID) (bool, error) {
	if r.Timeline == nil || to == "" {
		return r.Timeline != nil, nil
	}
	line, err := r.Store.Load(ctx, to, segno.Window{Last: 1})
	if err != nil {
		return false, err
	}
	return !line.Commits[0].Checkpoint.Tree().IsZero(), nil
}

// withThread opens a thread, changes it, and asks the questions again that are then open. change
// returns what it moved, if it did; an error after it comes with that status.
func (a *Agent) withThread(ctx context.Context, thread string, change func(*run) (Status, error)) (Status, error) {
	r := a.newRun(Input{Thread: thread})
	r.onlyMoves = true
	err := r.openThread(ctx)
	defer func() { r.lease.release(context.WithoutCancel(ctx)) }()
	if err != nil {
		return Status{}, err
	}
	moved, err := change(r)
	if err != nil {
		return Status{}, err
	}
	from := r.head.Head
	if err := r.reload(ctx); err != nil {
		return moved, err
	}
	r.forked = r.forked || r.head.Head != from
	if err := r.reaskQuestions(ctx); err != nil {
		return moved, err
	}
	s := r.status(false)
	s.Conflicts, s.Kept, s.Lost = moved.Conflicts, moved.Kept, moved.Lost
	return s, nil
}

// draftLostQuestions drafts and commits questions about calls with lost results. It does
// nothing at a head below the tip, because a commit would end redo.
func (r *run) draftLostQuestions(ctx context.Context) error {
	if r.head.Head != r.head.Tip {
		return nil
	}
	for _, c := range r.openCalls() {
		intent, answer := r.intent(c.ID), r.unusedAnswer(c.ID)
		s := r.callStateOf(c, intent, answer)
		if s.policy != LostAsk || nextAction(s) != actionAsk {
			continue
		}
		if intent.Input != nil {
			c.Args = intent.Input
		}
		r.draftRecord(r.newLostInterrupt(c, ""))
	}
	return r.commit(ctx, nil)
}

// reaskQuestions asks the open questions again, under other ids, if the thread was moved since
// or if they expired. Unfinished tasks continue in forks of their threads.
func (r *run) reaskQuestions(ctx context.Context) error {
	now, members := r.Now(), maps.Clone(r.members)
	for _, old := range slices.Clone(r.state.Interrupts) {
		if old.Via != "" {
			continue // its task asks again
		}
		moved, err := r.isMoved(ctx, segno.EntryInterrupt, old.ID)
		if err != nil {
			return err
		}
		if moved || old.Late(now) {
			r.reask(old)
		}
	}
	for _, c := range r.openCalls() {
		if err := r.reaskCall(ctx, c); err != nil {
			return fmt.Errorf("ask again: %w", err)
		}
	}
	if maps.Equal(members, r.members) {
		return r.commit(ctx, nil)
	}
	return r.commit(ctx, r.stepEnd()) // checkpoints contain the members
}

// reask asks a question under another id.
func (r *run) reask(old segno.Interrupt) {
	i := old
	i.ID, i.Thread, i.Replaces, i.Asked = segno.NewID(), r.thread, old.ID, r.Now()
	if i.Wait > 0 {
		i.CallKey = segno.NewID() // the call continues on another line, too
	}
	if !old.Expires.IsZero() {
		i.Expires = i.Asked.Add(old.Expires.Sub(old.Asked).Round(time.Millisecond))
	}
	r.draftRecord(i)
}

// reaskCall asks again about a call that was approved and did not begin before the thread was
// moved, because it may have run on another line, and about an unfinished task.
func (r *run) reaskCall(ctx context.Context, c Call) error {
	j, intent := job{Call: c, tool: r.tools[c.Name]}, r.intent(c.ID)
	if a := r.unusedAnswer(c.ID); a != nil && !r.isWaiting(c.ID) && j.tool.OnLost != LostRerun {
		moved, err := r.isMoved(ctx, segno.EntryDecision, a.Interrupt.ID)
		if err != nil {
			return err
		}
		if moved {
			r.reask(a.Interrupt)
		}
	}
	if intent == nil || !j.tool.isTask {
		return nil
	}
	return r.moveTask(ctx, j, intent)
}

// moveTask asks the questions of an unfinished task again, if the thread was moved or if they
// expired. After a move the task continues in a fork of its thread, which begins where the task
// was at this checkpoint.
func (r *run) moveTask(ctx context.Context, j job, intent *intentBody) error {
	moved, err := r.isMoved(ctx, segno.EntryIntent, j.ID)
	if err != nil {
		return err
	}
	if at := r.members[j.ID]; moved && at != "" {
		j.key = segno.DerivedID("moved", string(r.thread), string(r.head.Head), j.ID)
		t := segno.Thread{ID: segno.ThreadID(taskThread(j.key)), Created: r.Now(), ParentThread: r.thread, Agent: r.Name}
		// A conflict means that a run made the fork before a crash.
		if _, err := r.storeTimeline().ForkThread(ctx, at, t, true); err != nil && segno.KindOf(err) != segno.KindConflict {
			return err
		}
		err = r.reaskTask(ctx, j)
		r.draftIntent(&j, true)
		return err
	}
	now := r.Now()
	isExpired := func(x segno.Interrupt) bool { return x.Via == j.ID && x.Late(now) }
	if r.onlyMoves && slices.ContainsFunc(r.state.Interrupts, isExpired) {
		j.key = keyOf(intent)
		return r.reaskTask(ctx, j)
	}
	return nil
}

// reaskTask asks a task's questions again and adopts them.
func (r *run) reaskTask(ctx context.Context, j job) error {
	child := r.newRun(Input{Thread: taskThread(j.key)})
	child.parent, child.onlyMoves = r, true
	err := child.openThread(ctx)
	defer func() { child.lease.release(context.WithoutCancel(ctx)) }()
	if err != nil {
		return err
	}
	if err := child.reaskQuestions(ctx); err != nil {
		return err
	}
	r.setMember(j.ID, child)
	r.adoptQuestions(j.ID, &waitError{child.state.Interrupts, child.state.Replaced})
	return nil
}
