package timeline

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
)

// overlay reads the threads of a store as they will be once the store has the commits that wait in the
// spool. Its methods are all reads of threads by operations that record while the store is busy. Without
// waiting commits, they return what the store has. Only files of waiting commits cannot be read.
type overlay struct {
	store segno.Store
	// deferred is set once the store was busy: the operation then writes its commits to the spool.
	deferred bool
	waiting  []segno.Commit // all commits in the spool, also those of earlier operations, oldest first
}

// add adds a commit that now waits in the spool. head is the thread's head before it.
func (o *overlay) add(c segno.Commit, head segno.Head) threadState {
	o.waiting = append(o.waiting, c)
	return threadState{headAfter(&c, head), checkpointOf(&c)}
}

// hasWaiting reports whether a commit of a thread waits.
func (o *overlay) hasWaiting(thread segno.ThreadID) bool {
	return slices.ContainsFunc(o.waiting, func(c segno.Commit) bool { return c.Thread == thread })
}

// threadState is the head of a thread and the newest checkpoint at or before the head.
type threadState struct {
	head segno.Head
	at   *segno.Checkpoint
}

// threadState returns the state of a thread as it is once the store has the deferred commits.
func (o *overlay) threadState(ctx context.Context, thread segno.ThreadID) (threadState, error) {
	created := slices.ContainsFunc(o.waiting, func(c segno.Commit) bool { return c.Thread == thread && c.Create != nil })
	head, err := o.store.Head(ctx, thread)
	if err != nil && !(created && segno.KindOf(err) == segno.KindNotFound) {
		return threadState{head: head}, err
	}
	for _, c := range o.waiting {
		if c.Thread == thread {
			head = headAfter(&c, head)
		}
	}
	at, err := o.checkpoint(ctx, head.Head)
	return threadState{head, at}, err
}

// checkpoint returns the newest checkpoint at or before a commit.
func (o *overlay) checkpoint(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, error) {
	for _, c := range o.waiting {
		if c.ID == at && c.Checkpoint != nil {
			return checkpointOf(&c), nil
		}
	}
	for n, err := range segno.Ancestors(ctx, o.store, at, segno.Window{}) {
		if err != nil {
			return nil, err
		}
		if n.Checkpoint != nil {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "find checkpoint", string(at), nil)
}

// line returns the checkpoints at and before a commit, newest first. It does not include deferred
// commits.
func (o *overlay) line(ctx context.Context, at segno.CommitID) (cs []*segno.Checkpoint, err error) {
	line, err := o.store.Load(ctx, at, segno.Window{})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil {
			cs = append(cs, n.Checkpoint)
		}
	}
	return cs, nil
}

// checkpoints yields the checkpoints that a query selects, newest first.
func (o *overlay) checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[*segno.Checkpoint, error] {
	return func(yield func(*segno.Checkpoint, error) bool) {
		for _, c := range slices.Backward(o.waiting) {
			if cp := checkpointOf(&c); cp != nil && q.Matches(cp) && !yield(cp, nil) {
				return
			}
		}
		for c, err := range o.store.Checkpoints(ctx, q) {
			if !yield(&c, err) {
				return
			}
		}
	}
}

// newest returns the newest checkpoint that a query selects, or nil.
func (o *overlay) newest(ctx context.Context, q segno.CheckpointQuery) (*segno.Checkpoint, error) {
	q.Limit = 1
	for c, err := range o.checkpoints(ctx, q) {
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	return nil, nil
}

// newestTurn returns the newest turn of a session in a thread, or nil.
func (o *overlay) newestTurn(ctx context.Context, thread segno.ThreadID, session segno.SessionID) (*segno.Checkpoint, error) {
	for c, err := range o.checkpoints(ctx, segno.CheckpointQuery{Thread: thread, Session: session}) {
		if err != nil {
			return nil, err
		}
		if c.Kind == segno.CheckpointTurn {
			return c, nil
		}
	}
	return nil, nil
}

// isKnownLeaf returns a function that reports whether the position of a checkpoint ends at a given
// record of a transcript.
func (o *overlay) isKnownLeaf(ctx context.Context) func(leaf string) bool {
	return func(leaf string) bool {
		c, err := o.newest(ctx, segno.CheckpointQuery{Leaf: leaf})
		return err == nil && c != nil
	}
}

// threadOf returns the thread with a session in its chain, or "".
func (o *overlay) threadOf(ctx context.Context, session segno.SessionID) (segno.ThreadID, error) {
	if session == "" {
		return "", nil
	}
	for _, c := range o.waiting {
		if c.Link != nil && c.Link.Session == session {
			return c.Thread, nil
		}
	}
	for t, err := range o.store.Threads(ctx, segno.ThreadQuery{Session: session, Limit: 1}) {
		return t.ID, err
	}
	return "", nil
}

// threadOfAgent is threadOf for the session of one agent, because sessions of two agents can have the
// same id.
func (o *overlay) threadOfAgent(ctx context.Context, agent string, session segno.SessionID) (segno.ThreadID, error) {
	isIn := func(l *segno.Link) bool {
		return l != nil && l.Session == session && (l.Agent == agent || l.Agent == "")
	}
	for _, c := range o.waiting {
		if isIn(c.Link) {
			return c.Thread, nil
		}
	}
	for t, err := range o.store.Threads(ctx, segno.ThreadQuery{Session: session}) {
		if err != nil {
			return "", err
		}
		for l, err := range o.chain(ctx, t.ID) {
			if err != nil || isIn(&l) {
				return t.ID, err
			}
		}
	}
	return "", nil
}

func (o *overlay) commitEntries(ctx context.Context, id segno.CommitID) ([]segno.Entry, error) {
	for _, c := range o.waiting {
		if c.ID == id {
			return c.Entries, nil
		}
	}
	line, err := o.store.Load(ctx, id, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return nil, err
	}
	return line.Commits[len(line.Commits)-1].Entries, nil
}

// chain yields the links of a thread, oldest first.
func (o *overlay) chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	if chains, ok := o.store.(segno.Chains); ok {
		return chains.Chain(ctx, thread)
	}
	return func(func(segno.Link, error) bool) {}
}

// linksOf returns the first and the newest link of a session in the thread's chain, or nil. Each
// link but the first records a return of the user to the session.
func (o *overlay) linksOf(ctx context.Context, head segno.Head, session segno.SessionID) (first, newest *segno.Link, err error) {
	for l, err := range o.chain(ctx, head.Thread) {
		if segno.KindOf(err) == segno.KindNotFound {
			break // the commit of the thread is deferred
		}
		if err != nil {
			return nil, nil, err
		}
		if l.Session == session {
			first, newest = cmp.Or(first, &l), &l
		}
	}
	if head.Link.Session == session {
		first, newest = cmp.Or(first, &head.Link), &head.Link
	}
	return first, newest, nil
}
