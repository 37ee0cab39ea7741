package segno

import (
	"context"
	"fmt"
	"time"
)

// Ending is the end of a turn.
type Ending struct {
	Key         TurnKey
	Interrupted bool
	Message     string // the agent's last words, or ""
	// Source replaces the open turn's when the agent has said more of it since.
	Source Source
	Agent  string
	// Settle, if set, is called once the files are scanned and before the
	// transcript is read. It waits until the agent has written its last line,
	// somewhere after the offset since.
	Settle func(ctx context.Context, src Source, since int64)
}

// End closes a turn: one commit makes its entries, its checkpoint, its objects
// and the new head durable, and only then is the open turn forgotten. A second
// end of the same turn amends it. An end whose beginning was not seen still makes
// a turn, from the state the workspace was last known in.
func (r *Recorder) End(ctx context.Context, e Ending) (*Checkpoint, error) {
	if e.Key == "" || e.Source.Session == "" {
		return nil, &Error{Op: "end turn", Kind: KindInvalid, Err: errText("it needs a key and a session")}
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	turn, err := r.openTurn(ctx, e)
	if err != nil {
		return nil, err
	}
	c, err := r.end(ctx, e, turn)
	if err == nil {
		err = r.stuck
	}
	return c, err
}

func (r *Recorder) openTurn(ctx context.Context, e Ending) (OpenTurn, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return OpenTurn{}, err
	}
	for _, t := range turns {
		if t.Key == e.Key {
			return t, nil
		}
	}
	t := OpenTurn{Key: e.Key, Agent: e.Agent, Source: e.Source, Workspace: r.Workspace.ID()}
	if t.Thread, err = r.threadHere(ctx, e.Source.Session); err != nil {
		return OpenTurn{}, err
	}
	t.Before, err = r.lastKnown(ctx)
	return t, err
}

// end does the work of End for a site that is locked.
func (r *Recorder) end(ctx context.Context, e Ending, turn OpenTurn) (*Checkpoint, error) {
	if e.Source.Session != "" {
		turn.Source = e.Source
	}
	done, err := r.ended(ctx, turn.Key, turn.Source.Session)
	if err != nil {
		return nil, fmt.Errorf("look for the turn: %w", err)
	}
	if done != nil && !turn.Start.IsZero() && !done.Time.Before(turn.Start) {
		// The commit was made and the process ended before the spool was cleared.
		return done, r.Spool.Close(ctx, turn.Key)
	}
	if e.Interrupted && done != nil && !done.Interrupted {
		return done, r.Spool.Close(ctx, turn.Key) // it had its proper end already
	}
	if err := r.settleThread(ctx, &turn); err != nil {
		return nil, err
	}
	batch := r.Store.Objects().Batch()
	defer batch.Close()
	after, err := r.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	prev, err := r.previous(ctx, turn)
	if err != nil {
		return nil, err
	}
	if e.Settle != nil {
		since, err := r.since(ctx, done, prev)
		if err != nil {
			return nil, err
		}
		e.Settle(ctx, turn.Source, since)
	}
	cap, err := r.capture(ctx, turn, prev, batch)
	if err != nil {
		return nil, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage turn: %w", err)
	}
	w := &ending{Ending: e, turn: turn, after: after, cap: cap, staged: turn.Staged.with(staged), amends: done}
	if w.entries, err = r.entries(ctx, w); err != nil {
		return nil, err
	}
	if w.nothingNew() {
		return done, r.Spool.Close(ctx, turn.Key)
	}
	if err := r.place(ctx, w); err != nil {
		return nil, err
	}
	return r.commitTurn(ctx, w)
}

// settleThread names the thread of a turn that began when it was not known, or
// could not be asked for. A thread this very turn began to make, before its end
// was broken off, is still to be finished and counts as not known.
func (r *Recorder) settleThread(ctx context.Context, turn *OpenTurn) error {
	if turn.Thread != "" {
		return nil
	}
	thread, err := r.threadHere(ctx, turn.Source.Session)
	if err != nil || thread == "" {
		return err
	}
	base, err := r.at(ctx, baseOf(thread))
	if KindOf(err) == KindNotFound {
		turn.Thread = thread // a fork's
		return nil
	}
	if err == nil && (turn.Start.IsZero() || !base.Time.Equal(turn.Start)) {
		turn.Thread = thread
	}
	return err
}

// ending is an End under way.
type ending struct {
	Ending
	turn    OpenTurn
	after   Snapshot
	cap     Captured
	staged  Staged
	entries []Entry
	noted   int         // entries since the turn began, or since it was ended before
	amends  *Checkpoint // the checkpoint of an earlier end of the same turn

	head   Head
	parent *Checkpoint
}

// nothingNew reports whether a turn that is ended again is what it was.
func (w *ending) nothingNew() bool {
	d := w.amends
	return d != nil && w.noted == 0 && d.Interrupted == w.Interrupted && d.Tree() == w.after.Tree && d.Session != nil && d.Session.Offset == w.cap.Position.Offset
}

// began is when the turn began. Commits that come before the turn's own carry it,
// so that an end repeated after a crash makes the same ones again.
func (w *ending) began(now time.Time) time.Time {
	if w.turn.Start.IsZero() {
		return now
	}
	return w.turn.Start
}

// previous is where the newest capture of the turn's session ended, or nil.
func (r *Recorder) previous(ctx context.Context, turn OpenTurn) (*Position, error) {
	if turn.Thread == "" {
		return nil, nil
	}
	last, err := r.lastOf(ctx, turn.Source.Session)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Session.Leaf != "" {
		return last.Session, nil
	}
	return r.cutAt(ctx, turn)
}

// cutAt is where a session that was cut ended then, or nil.
func (r *Recorder) cutAt(ctx context.Context, turn OpenTurn) (*Position, error) {
	head, _, err := r.where(ctx, turn.Thread)
	if err != nil {
		return nil, err
	}
	l, err := r.linkOf(ctx, head, turn.Source.Session)
	if err != nil || l == nil {
		return nil, err
	}
	return l.Position, nil
}

// since is the offset in the transcript at which a turn began: where the capture
// before it ended. For a turn that is ended again that is its parent's.
func (r *Recorder) since(ctx context.Context, done *Checkpoint, prev *Position) (int64, error) {
	if done == nil || done.Session == nil || prev == nil || prev.Session != done.Session.Session {
		return prev.offset(), nil
	}
	parent, err := r.at(ctx, done.Parent)
	if err != nil || parent.Session == nil || parent.Session.Session != prev.Session {
		return 0, err
	}
	return parent.Session.Offset, nil
}

func (p *Position) offset() int64 {
	if p == nil {
		return 0
	}
	return p.Offset
}

// capture reads what the agent wrote. Without a transcript the turn still
// counts; its session tier then ends where the one before it did.
func (r *Recorder) capture(ctx context.Context, turn OpenTurn, prev *Position, batch Batch) (Captured, error) {
	t := r.Transcripts[turn.Agent]
	if t == nil {
		return Captured{Position: Position{Agent: turn.Agent, Session: turn.Source.Session, Dir: turn.Source.Dir}}, nil
	}
	known := func(leaf string) bool { return r.known(ctx, leaf) }
	cap, err := t.Capture(ctx, turn.Source, prev, batch, known)
	switch KindOf(err) {
	case KindBusy, KindCancelled:
		return cap, fmt.Errorf("read transcript: %w", err)
	}
	if err == nil {
		return cap, nil
	}
	// An agent killed before its first line leaves no transcript, and one that
	// cannot be read must not cost the turn its files.
	cap = Captured{Position: Position{Agent: turn.Agent, Session: turn.Source.Session, Dir: turn.Source.Dir, Path: turn.Source.Path}}
	if prev != nil {
		cap.Position = *prev
	}
	if KindOf(err) != KindNotFound {
		cap.Damage = []Damage{{Why: err.Error()}}
	}
	return cap, nil
}

// place decides the thread and the parent of the turn.
func (r *Recorder) place(ctx context.Context, w *ending) (err error) {
	if w.turn.Thread == "" {
		// An end that was broken off may have made the thread already; making it
		// again gives the same commits.
		if w.head, w.parent, err = r.startThread(ctx, w); err != nil {
			return fmt.Errorf("start thread: %w", err)
		}
		return nil
	}
	if w.head, w.parent, err = r.where(ctx, w.turn.Thread); err != nil {
		return err
	}
	at := w.turn.Parent
	if w.amends != nil {
		at = w.amends.Parent
	}
	if at != "" {
		if w.parent, err = r.at(ctx, at); err != nil {
			return err
		}
	}
	if w.amends != nil {
		return nil
	}
	if err := r.followRewind(ctx, w); err != nil {
		return err
	}
	return r.bridge(ctx, w)
}

// followRewind moves the parent when the user went back inside the agent first:
// the prompt then hangs from an older record than the parent's.
func (r *Recorder) followRewind(ctx context.Context, w *ending) error {
	p := w.parent.Session
	if w.cap.Prompt == "" || p == nil || w.cap.Follows == p.Leaf {
		return nil
	}
	line, err := r.line(ctx, w.parent.ID)
	if err != nil {
		return err
	}
	if w.cap.Follows == "" {
		w.parent = line[len(line)-1]
		return nil
	}
	above := map[CommitID]bool{}
	for _, c := range line {
		above[c.ID] = true
	}
	found, err := r.turnAt(ctx, w.cap.Follows, func(c *Checkpoint) bool { return above[c.ID] })
	if found == nil && err == nil {
		found, err = r.turnAt(ctx, w.cap.Follows, func(c *Checkpoint) bool { return c.Thread == w.head.Thread })
	}
	if found != nil {
		w.parent = found
	}
	return err
}

// bridge commits an external checkpoint between the parent and the turn if the
// workspace at the turn's beginning was not what the parent pins.
func (r *Recorder) bridge(ctx context.Context, w *ending) error {
	before := w.turn.Before
	if before == nil || w.parent.Tree() == before.Tree {
		return nil
	}
	c, err := r.external(ctx, w.head, w.parent, *before, w.turn.Key)
	if err != nil {
		return err
	}
	c.Checkpoint.Time = w.began(r.Now())
	c.Workspace = nil
	c.Move = nil
	c.Staged, w.staged = w.staged, Staged{}
	if w.head, _, err = r.putOnce(ctx, w.head, c); err != nil {
		return err
	}
	w.parent, err = r.at(ctx, c.ID)
	return err
}

func (r *Recorder) commitTurn(ctx context.Context, w *ending) (*Checkpoint, error) {
	id := CommitID(DerivedID("turn", string(w.turn.Key), string(w.head.Thread)))
	turn := w.head.Turn + 1
	cp := &Checkpoint{Kind: KindTurn, Turn: turn, Time: r.Now(), Agent: w.turn.Agent, Prompt: w.turn.Prompt,
		Key: w.turn.Key, Interrupted: w.Interrupted, Session: &w.cap.Position, Workspace: &w.after}
	if w.amends != nil {
		id = CommitID(DerivedID("amend", string(w.amends.ID)))
		cp.Turn, cp.Amends, cp.Prompt = w.amends.Turn, w.amends.ID, w.amends.Prompt
	}
	var err error
	if cp.Shared, err = r.shared(ctx, w); err != nil {
		return nil, err
	}
	if cp.Files, err = r.count(ctx, w.parent.Tree(), w.after.Tree); err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	for i := range w.entries {
		w.entries[i].Turn = cp.Turn
		if w.entries[i].Kind == EntryIntent && w.entries[i].Name == "Bash" {
			cp.Shell++
		}
	}
	c := Commit{ID: id, Thread: w.head.Thread, Parent: w.parent.ID, Expect: w.head.Head, Epoch: w.head.Epoch,
		Entries: w.entries, Checkpoint: cp, Staged: w.staged, Workspace: r.state(w.head.Thread, id, &w.after)}
	if w.amends != nil && w.head.Head != w.amends.ID {
		c.Move = &Move{Head: w.head.Head, Tip: w.head.Tip} // the thread moved on meanwhile
	}
	if w.head.Link.Session != w.turn.Source.Session {
		c.Link = r.link(w.turn, "start", w.parent.ID)
	}
	_, made, err := r.put(ctx, w.head, c)
	if err != nil {
		return nil, fmt.Errorf("commit turn: %w", err)
	}
	return made, r.Spool.Close(ctx, w.turn.Key)
}

func (s *Site) link(t OpenTurn, reason string, at CommitID) *Link {
	return &Link{Agent: t.Agent, Session: t.Source.Session, Dir: t.Source.Dir, Path: t.Source.Path,
		Start: s.Now(), Reason: reason, Fidelity: FidelityNative, At: at}
}

// shared reports whether a turn of another thread overlapped in the workspace.
func (r *Recorder) shared(ctx context.Context, w *ending) (bool, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range turns {
		if t.Workspace == w.turn.Workspace && t.Key != w.turn.Key && t.Source.Session != w.turn.Source.Session {
			return true, nil
		}
	}
	if w.turn.Start.IsZero() {
		return false, nil
	}
	for c, err := range r.Store.Checkpoints(ctx, CheckpointQuery{Workspace: w.turn.Workspace, Limit: 16}) {
		if err != nil {
			return false, err
		}
		if c.Kind == KindTurn && c.Thread != w.head.Thread && c.Time.After(w.turn.Start) {
			return true, nil
		}
	}
	return false, nil
}
