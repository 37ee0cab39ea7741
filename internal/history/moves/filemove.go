package moves

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// fileMove is an undo, a redo, a restore or an op undo.
type fileMove struct {
	*target
	request Request
	ask     timeline.MoveRequest
	plan    *timeline.Plan
	forced  *timeline.Plan   // the plan with force, if the plan has conflicts
	other   *segno.Operation // the operation to undo, if it moves no files
	about   string           // describes the undo of a fork
	forgets bool             // the undo forgets the thread of the fork
}

func (m *fileMove) describe(ctx context.Context, p *Preview) (err error) {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if m.request.Verb == verbOpUndo {
		if done, err := m.describeOpUndo(ctx, p); done || err != nil {
			return err
		}
	}
	if m.plan, err = m.timeline.Preview(ctx, m.ask); err != nil {
		return err
	}
	if len(m.plan.Forced) > 0 && !m.ask.Force {
		force := m.ask
		force.Force = true
		if m.forced, err = m.timeline.Preview(ctx, force); err != nil {
			return err
		}
		p.NeedsForce, p.Forced = true, history.Signed(m.plan.Forced)
	}
	return m.fill(ctx, p)
}

// ready converts the request to one for the timeline.
func (m *fileMove) ready(ctx context.Context) error {
	r := &m.request
	m.ask = timeline.MoveRequest{Verb: segno.Verb(r.Verb), Thread: m.head.Thread, Turns: r.Turns, Turn: r.Turn, Paths: r.paths(), Force: r.Force, WhileRunning: r.WhileRunning}
	switch r.Verb {
	case verbOpUndo:
		if m.root == "" {
			return m.refusePointers("op undo")
		}
		m.ask.Verb, m.ask.Op = segno.VerbOpUndo, r.Operation
	case verbRestore:
		if err := m.readyRestore(ctx); err != nil {
			return err
		}
	default:
		if r.Turns == 0 && r.Turn == 0 {
			m.ask.Turns = 1
		}
		if r.Turn > 0 {
			m.ask.Name = fmt.Sprintf("t%d", r.Turn)
		}
		if r.Only {
			m.ask.Turn, m.ask.Only = 0, []int{r.Turn}
		}
	}
	if m.root == "" && (len(m.ask.Paths) > 0 || r.Only || r.Verb == verbRestore && m.ask.Scope != timeline.ScopeBoth) {
		return m.refusePointers(r.Verb)
	}
	return m.refuseRunning(ctx)
}

// readyRestore is ready for the fields of a restore.
func (m *fileMove) readyRestore(ctx context.Context) error {
	r := &m.request
	c, err := m.ownCheckpoint(ctx, r.To)
	if err != nil {
		return err
	}
	m.ask.To, m.ask.Name, m.ask.Scope = c.ID, printable.Label(c), r.Scope
	if r.Scope == "" && len(m.ask.Paths) > 0 {
		m.ask.Scope = timeline.ScopeFiles
	} else if r.Scope == "" {
		m.ask.Scope = timeline.ScopeBoth
	}
	return nil
}

// refuseRunning refuses a move of pointers while a run or a turn of the thread is under way. In a workspace, the
// timeline refuses the move because of its open turns.
func (m *fileMove) refuseRunning(ctx context.Context) error {
	if m.root != "" || m.request.WhileRunning {
		return nil
	}
	refuse := func(why string) error {
		return segno.Errorf(segno.KindRefused, m.request.Verb, string(m.head.Thread), "%s", why).WithHint("wait for it to end, or use --while-running")
	}
	if leaser, ok := m.Store.(segno.Leaser); ok {
		l, err := leaser.LeaseOf(ctx, m.head.Thread)
		if err != nil {
			return err
		}
		if l.Owner != "" {
			return refuse("a run holds the thread: " + l.Owner)
		}
	}
	if m.Local == nil {
		return nil
	}
	running, err := m.Local.OpenThreads(ctx)
	if err == nil && running[m.head.Thread] {
		err = refuse("a turn is open")
	}
	return err
}

// refusePointers returns the error of a move that needs the files of the thread.
func (t *target) refusePointers(verb string) error {
	return segno.Errorf(segno.KindRefused, verb, string(t.head.Thread), "the files of the thread are not on this machine").
		WithHint("run the command on the machine with the workspace; here only undo, redo and restore of the whole thread move")
}

// fill describes the plan.
func (m *fileMove) fill(ctx context.Context, p *Preview) error {
	p.Landing, p.Tip, p.Git, p.Dir, p.Only = m.plan.Target, m.plan.Tip, m.plan.Git, m.root, m.plan.Only
	p.Turns = append(p.Turns, m.plan.Turns...)
	if m.root == "" {
		p.Summary = []string{fmt.Sprintf("%s %s of thread %s", m.plan.Verb, m.name(), printable.Short(m.head.Thread)),
			"  only the thread moves: its files are not on this machine"}
		p.Sentence, p.Effect = pointerSentence(m.plan), Effect(m.plan, Result{})
		return nil
	}
	res, err := NewResult(ctx, m.timeline, m.plan, nil)
	if err != nil {
		return err
	}
	p.Steps, p.Conflicts, p.Kept = res.Changes, res.Conflicts, res.Kept
	text := new(Text)
	text.Plan(m.root, m.plan, res)
	p.Summary, p.Sentence, p.Effect = text.Lines(), Sentence(m.plan, res), Effect(m.plan, res)
	if at := m.plan.Session; at != nil && at.Leaf != "" {
		p.Session = &PreviewSession{Agent: at.Agent, Session: at.Session, Dir: at.Dir}
		if reader := m.timeline.Transcripts[at.Agent]; reader != nil {
			p.Run = append(p.Run, reader.Resume(segno.Source{Session: "…", Dir: at.Dir})...)
		}
	}
	return nil
}

// name returns the turns or the checkpoint of the move as text.
func (m *fileMove) name() string {
	if m.ask.Name != "" && len(m.plan.Turns) == 0 {
		return m.ask.Name
	}
	return Turns(m.plan)
}

func (m *fileMove) apply(ctx context.Context, id segno.OperationID, force bool, o *Outcome) error {
	if m.other != nil {
		return m.applyOpUndo(ctx, o)
	}
	if err := m.refuseRunning(ctx); err != nil {
		return err
	}
	ask, seen := m.ask, m.plan
	ask.Operation = id
	if force && !ask.Force && m.forced != nil {
		if m.forced.Finishes != "" && !seen.Only || !slices.Equal(m.forced.Turns, seen.Turns) {
			return segno.Errorf(segno.KindRefused, string(ask.Verb), string(m.head.Thread), "to overwrite its conflicts is another move").
				WithHint("preview that move")
		}
		ask.Force, seen = true, m.forced
	}
	moved, err := m.timeline.Move(ctx, ask, seen)
	if err != nil {
		return err
	}
	return m.report(ctx, moved, o)
}

// report fills in the outcome of a finished move.
func (m *fileMove) report(ctx context.Context, moved *timeline.MoveResult, o *Outcome) error {
	o.Files, o.Chat = moved.Files, moved.Chat
	if m.root == "" {
		o.Undo = m.pointerUndo(moved.Plan)
		o.Notice = "only the thread moved: its files are not on this machine"
		return nil
	}
	res, err := NewResult(ctx, m.timeline, moved.Plan, moved)
	if err != nil {
		return err
	}
	o.Operation, o.Changes, o.Conflicts, o.Kept = moved.Plan.Operation, res.Changes, res.Conflicts, res.Kept
	o.Sentence = Report(moved.Plan, res)
	o.Run, o.Dir = append(o.Run, res.Command...), res.Dir
	if pid := Client(ctx, m.Local, moved.Plan.Thread); pid != 0 && (moved.Link != nil || moved.Chat != "") {
		o.Notice = fmt.Sprintf("the next prompt in the client of 'segno acp' (pid %d) continues the conversation there", pid)
	} else if moved.Live != 0 {
		o.Notice = fmt.Sprintf("the conversation continues in a new session; end the running one (pid %d)", moved.Live)
	}
	o.Undo = &Request{Verb: verbOpUndo, Thread: m.head.Thread, Operation: o.Operation}
	return nil
}

// Client returns the pid of a 'segno acp' that recorded a turn of a thread, or 0.
func Client(ctx context.Context, store *local.Store, thread segno.ThreadID) int {
	runners, _ := store.Spool().Runners(ctx, thread) // without them, the message is that for a thread without a client
	for _, r := range runners {
		if r.Verb == "acp" && proc.Alive(r.PID, r.Start) {
			return r.PID
		}
	}
	return 0
}

// pointerUndo returns the request that undoes a move of pointers, for which the log has no
// operation.
func (m *fileMove) pointerUndo(p *timeline.Plan) *Request {
	switch m.request.Verb {
	case verbUndo:
		return &Request{Verb: verbRedo, Thread: m.head.Thread, Turns: len(p.Turns)}
	case verbRedo:
		return &Request{Verb: verbUndo, Thread: m.head.Thread, Turns: len(p.Turns)}
	}
	return &Request{Verb: verbRestore, Thread: m.head.Thread, To: p.Before.Head}
}

// describeOpUndo describes the undo of an operation that moves no files. It returns false for
// other operations.
func (m *fileMove) describeOpUndo(ctx context.Context, p *Preview) (bool, error) {
	op, err := m.timeline.FindOperation(ctx, m.ask.Op)
	if err != nil {
		return false, err
	}
	if op.Thread != m.head.Thread {
		return false, segno.Errorf(segno.KindRefused, verbOpUndo, string(op.ID), "it moved another thread").
			WithHint("preview a move of thread " + string(op.Thread))
	}
	m.ask.Op = op.ID // a later operation must not replace the previewed one
	if op.MovesFiles() {
		return false, nil
	}
	if err := m.timeline.RefuseUndo(ctx, op); err != nil {
		return false, err
	}
	m.other = &op
	p.Summary = []string{fmt.Sprintf("undo %s %s", op.Verb, printable.Clean(op.Args))}
	if op.Forked != "" {
		again, err := m.timeline.MakesFork(ctx, op)
		if err != nil {
			return false, err
		}
		m.about, m.forgets = "the fork's thread is forgotten; its files are kept", !again
		if again {
			m.about = "the fork gets a new thread; its files are as they are now"
		}
		p.Summary = append(p.Summary, "  "+m.about)
	}
	return true, nil
}

// applyOpUndo undoes an operation that moves no files.
func (m *fileMove) applyOpUndo(ctx context.Context, o *Outcome) error {
	op, err := m.timeline.FindOperation(ctx, m.other.ID)
	if err != nil {
		return err // another process undid it in the meantime
	}
	if err := m.timeline.UndoOperation(ctx, op); err != nil {
		return err
	}
	for undo, err := range m.Local.Operations(ctx, op.Workspace) {
		if err != nil {
			return err
		}
		if undo.Undoes == op.ID {
			o.Operation = undo.ID
			break
		}
	}
	o.Notice = m.about
	if m.forgets {
		o.Forgot = op.Forked
	}
	o.Undo = &Request{Verb: verbOpUndo, Thread: m.head.Thread, Operation: o.Operation}
	return nil
}

// IsOutdated reports whether an error is about a plan that differs from the previewed one.
func IsOutdated(err error) bool { return errors.As(err, new(*timeline.OutdatedError)) }
