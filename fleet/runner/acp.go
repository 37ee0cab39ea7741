package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// Permissions is the policy for calls for which an agent asks for permission.
type Permissions string

// The policies.
const (
	Ask    Permissions = "ask" // the default: ask a user, and end the turn until then
	Allow  Permissions = "allow"
	Refuse Permissions = "refuse"
)

// ACP runs an agent that speaks the Agent Client Protocol. The first four fields are required. It is safe for concurrent
// use.
type ACP struct {
	Name    string   // of the agent, for new threads
	Command []string // its command line
	Store   segno.Store
	Cache   *workspaces.Cache // of the store
	// Env is the environment of the agent, in addition to PATH, LANG and TZ of this process, and to a private HOME and TMPDIR.
	// Nothing else of the environment of this process reaches the agent, because it may contain secrets.
	Env []string
	// PrepareHome, if not nil, is called with each new home directory before the agent is started, for example to write a
	// login or a configuration there. The home is in the cache; it never reaches the store.
	PrepareHome func(ctx context.Context, home string) error
	Permissions Permissions
	// Stderr receives what the agent writes to its standard error, which may contain secrets. nil discards it.
	Stderr io.Writer
	// LeaseTime is how long the lease on a thread outlives a worker that died. 0 means a minute.
	LeaseTime time.Duration

	writing sync.Mutex // held while Stderr is written
}

// Run implements [fleet.Runner].
func (a *ACP) Run(ctx context.Context, w fleet.Work) (result fleet.Result, err error) {
	if len(a.Command) == 0 || a.Store == nil || a.Cache == nil || w.Thread == "" {
		return fleet.Result{}, segno.Errorf(segno.KindInvalid, "run agent", w.Thread, "the runner lacks a command, a store or a cache, or the work a thread")
	}
	r := &acpRun{ACP: a, work: w, thread: segno.ThreadID(w.Thread)}
	if r.record, err = openThread(ctx, a.Store, a.Cache, r.thread, segno.Thread{Title: timeline.Title(w.Prompt.Text), Agent: a.Name}, segno.ActorACP); err != nil {
		return fleet.Result{}, err
	}
	lease, err := acquire(ctx, a.Store, r.thread, cmp.Or(a.LeaseTime, leaseTime))
	if err != nil {
		return fleet.Result{}, err
	}
	ctx, stop := lease.renew(ctx)
	defer func() { // also after a panic of PrepareHome, which a worker survives
		stop()
		err = errors.Join(err, lease.release(ctx))
	}()
	return r.run(ctx, lease.held)
}

// acpRun is one attempt.
type acpRun struct {
	*ACP
	work   fleet.Work
	thread segno.ThreadID
	lease  segno.Lease

	record   segno.Thread
	head     segno.Head
	attempts *attempts
	root     string           // the directory with the files and the home
	question *segno.Interrupt // that the agent asked in this attempt
	answer   *answer          // to the question of the attempt before
}

func (r *acpRun) run(ctx context.Context, lease segno.Lease) (fleet.Result, error) {
	var err error
	r.lease = lease
	if r.head, err = r.Store.Head(ctx, r.thread); err != nil {
		return fleet.Result{}, err
	}
	if r.attempts, err = openAttempts(ctx, r.Store, r.thread); err != nil {
		return fleet.Result{}, err
	}
	last := r.attempts.last
	if last == nil || last.Key != r.work.Prompt.Key {
		return r.attempt(ctx, attempt{Key: r.work.Prompt.Key, Seq: r.head.Seq}, r.work.Prompt.Text, "")
	}
	// The newest turn since that attempt began is its turn.
	turn, err := r.turnSince(ctx, last.Seq)
	if err != nil {
		return fleet.Result{}, err
	}
	waits := last.Waits
	if waits == "" {
		if waits, err = questionSince(ctx, r.Store, r.head.Head, last.Seq); err != nil {
			return fleet.Result{}, err
		}
	}
	if waits == "" && turn != nil && !turn.Interrupted {
		return r.outcome(ctx, turn)
	}
	next := attempt{Key: last.Key, Seq: r.head.Seq, Answer: last.Answer}
	if waits != "" {
		if next.Answer, err = findAnswer(ctx, r.Store, r.head.Head, waits); err != nil {
			return fleet.Result{}, err
		}
		if next.Answer.Decision == nil {
			return fleet.Result{Phase: agent.PhaseWaiting, Text: next.Answer.Question.Question}, nil
		}
		report := ""
		if turn == nil { // the attempt before the question is lost
			report = r.attempts.report(false)
		}
		return r.attempt(ctx, next, next.Answer.prompt(nil), report)
	}
	text := r.work.Prompt.Text
	if next.Answer != nil {
		made := r.attempts.allowedBy(next.Answer.Question.ID)
		if made != nil && !made.hasEnded {
			r.question = r.lostQuestion(next.Answer.Question)
			return r.wait(ctx, attempt{Key: last.Key, Seq: last.Seq, Dir: last.Dir, Answer: last.Answer})
		}
		text = next.Answer.prompt(made)
	}
	return r.attempt(ctx, next, text, r.attempts.report(turn != nil))
}

// attempt runs the agent once.
func (r *acpRun) attempt(ctx context.Context, a attempt, text, report string) (fleet.Result, error) {
	if r.answer = a.Answer; r.answer != nil && r.attempts.allowedBy(r.answer.Question.ID) != nil {
		r.answer = nil // it allowed a call before
	}
	snapshot, err := snapshotAt(ctx, r.Store, r.head.Head, r.record)
	if err != nil {
		return fleet.Result{}, err
	}
	dir, err := r.Cache.Checkout(ctx, snapshot)
	if err != nil {
		return fleet.Result{}, err
	}
	r.root, a.Dir = dir.Root(), dir.Files()
	if last := r.attempts.last; last != nil && last.Dir != "" && last.Dir != a.Dir {
		report = strings.TrimSpace(movedNote(last.Dir, a.Dir) + "\n\n" + report)
	}
	err = r.attempts.begin(ctx, a)
	if err == nil {
		err = r.runIn(ctx, dir, text, report)
	}
	cleanup := context.WithoutCancel(ctx)
	turn, turnErr := r.turnSince(cleanup, a.Seq)
	if err = errors.Join(err, turnErr); err != nil {
		return fleet.Result{}, errors.Join(err, dir.Discard())
	}
	if err := dir.Release(cleanup, turn.Tree()); err != nil {
		return fleet.Result{}, err
	}
	switch {
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		return fleet.Result{}, segno.NewError(segno.KindOf(cause), "run agent", r.work.Thread, cause)
	case r.question != nil:
		return r.wait(cleanup, a)
	case turn == nil || turn.Interrupted:
		return fleet.Result{}, segno.Errorf(segno.KindIO, "run agent", r.work.Thread, "the turn was interrupted")
	}
	return r.outcome(cleanup, turn)
}

// movedNote tells the agent that its directory has another path than in the conversation so far. Machines whose caches have
// the same path seldom need it.
func movedNote(from, to string) string {
	return fmt.Sprintf("Note from segno: you are now working at %s, on another machine. Paths under %s in the conversation so far mean the same files under %s.", to, from, to)
}

// neutral replaces the path of the directory, which is another one on each machine, in the title or the input of a call.
func (r *acpRun) neutral(text string) string { return strings.ReplaceAll(text, r.root, "/thread") }

// turnSince returns the newest turn on the thread's line that is newer than a commit, or nil.
func (r *acpRun) turnSince(ctx context.Context, since int64) (*segno.Checkpoint, error) {
	head, err := r.Store.Head(ctx, r.thread)
	if err != nil {
		return nil, err
	}
	r.head = head
	for n, err := range segno.Ancestors(ctx, r.Store, head.Head, segno.Window{Last: 8}) {
		if err != nil {
			return nil, err
		}
		if n.Seq <= since {
			return nil, nil
		}
		if c := n.Checkpoint; c != nil && c.Kind == segno.CheckpointTurn {
			return c, nil
		}
	}
	return nil, nil
}

// outcome returns the result of a turn that has ended.
func (r *acpRun) outcome(ctx context.Context, turn *segno.Checkpoint) (fleet.Result, error) {
	source := turns.Source{Store: r.Store}
	t, err := source.Load(ctx, turn)
	if err != nil {
		return fleet.Result{}, fmt.Errorf("read answer: %w", err)
	}
	result := fleet.Result{Phase: agent.PhaseDone}
	for _, x := range t.Items {
		switch {
		case x.Call != nil:
			result.Text = ""
		case x.Author == turns.Agent:
			result.Text += x.Text
		}
	}
	return result, nil
}
