package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

const (
	// maxTogether is the number of turns in one transaction. Hooks wait for the store during the transaction.
	maxTogether = 128
	// A group of sessions is committed when it has maxGroupCommits commits or maxGroupBytes bytes of transcripts.
	maxGroupCommits = 8 * maxTogether
	maxGroupBytes   = 256 << 20
	// maxLocked is the time after which KeepSessions begins no other group before it releases its lock, because other
	// operations on sessions wait only some seconds for it.
	maxLocked = 5 * time.Second
	// lockPause is the time for which KeepSessions then leaves the lock free. Those that wait for it try again each millisecond.
	lockPause = 20 * time.Millisecond
)

// KeepSessions is [Timeline.KeepSession] for many sessions. It stores several sessions at once, so that one
// sync of the disk serves all of them. It calls done for each session in order, once the session is durable
// or has failed. KeepSessions itself returns only errors of a lock or of ctx; done receives the other errors.
func (tl *Timeline) KeepSessions(ctx context.Context, all []KeepRequest, done func(r KeepRequest, k Kept, err error)) error {
	threadOf, err := tl.findThreads(ctx, len(all))
	if err != nil {
		return err
	}
	run := &keepRun{threadOf: threadOf}
	for len(all) > 0 {
		n, err := tl.keepSome(ctx, all, run, done)
		if err != nil {
			return err
		}
		if all = all[n:]; len(all) > 0 {
			select {
			case <-time.After(lockPause):
			case <-ctx.Done():
			}
		}
		if err := ctx.Err(); err != nil {
			return segno.NewError(segno.KindCancelled, opKeep, "", err)
		}
	}
	return nil
}

// keepRun is one call of KeepSessions.
type keepRun struct {
	threadOf threadFinder // nil if each session needs a query to the store
	bytes    int64        // the bytes of transcripts in the groups so far
}

// longBatcher is the ability of [segno.Objects] to store a large amount of data in several batches.
type longBatcher interface {
	// BatchAfter is Batch for objects that follow some bytes of other batches of the same caller. A store compresses the
	// beginning of a large amount of data better than the rest, because the caller waits.
	BatchAfter(bytes int64) segno.Batch
}

// batch returns the batch of the next group.
func (r *keepRun) batch(o segno.Objects) segno.Batch {
	if long, ok := o.(longBatcher); ok {
		return long.BatchAfter(r.bytes)
	}
	return o.Batch()
}

// linkLister is the ability of a [segno.Store] to read the links of all threads at the cost of one scan.
type linkLister interface {
	// EachLink calls visit for each link of the threads that are not deleted.
	EachLink(ctx context.Context, visit func(thread segno.ThreadID, seq int64, l segno.Link, isHead bool)) error
}

// threadFinder returns the thread that had a session of an agent when findThreads read the threads, or "" if no
// thread had it.
type threadFinder func(agent string, session segno.SessionID) segno.ThreadID

// findThreads reads the threads of all sessions. For few sessions it returns nil, because a query for each costs less
// than the scan. If a hook later creates the first thread of a session, commitKept finds that thread.
func (tl *Timeline) findThreads(ctx context.Context, sessions int) (threadFinder, error) {
	const many = 64
	store, ok := tl.Store.(linkLister)
	if !ok || sessions < many {
		return nil, nil
	}
	type found struct {
		agent  string
		thread segno.ThreadID
	}
	known := map[segno.SessionID][]found{}
	err := store.EachLink(ctx, func(thread segno.ThreadID, _ int64, l segno.Link, _ bool) {
		known[l.Session] = append(known[l.Session], found{l.Agent, thread})
	})
	return func(agent string, session segno.SessionID) segno.ThreadID {
		for _, f := range known[session] {
			if f.agent == agent || f.agent == "" {
				return f.thread
			}
		}
		return ""
	}, err
}

// keepSome keeps some sessions from the beginning of all, and returns their number. While one group is committed, which
// takes one core and waits for the disk, keepSome captures the next one.
func (tl *Timeline) keepSome(ctx context.Context, all []KeepRequest, run *keepRun, done func(KeepRequest, Kept, error)) (n int, err error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.unlock()
	var committing *keepGroup
	finish := func() error {
		if committing == nil {
			return nil
		}
		err := <-committing.committed
		for _, k := range committing.all {
			done(k.KeepRequest, k.out, k.err)
		}
		n += len(committing.all)
		return err
	}
	leaves, captured := &leafIndex{all: map[string]bool{}}, 0
	for start := time.Now(); captured < len(all) && err == nil && ctx.Err() == nil; {
		tx := tl.unlocked()
		g := tx.captureGroup(ctx, all[captured:], run, leaves, committing)
		run.bytes += g.bytes
		err = finish()
		committing = g
		captured += len(g.all)
		go func() { g.committed <- tx.storeGroup(ctx, g) }()
		if time.Since(start) >= maxLocked {
			break
		}
	}
	err = errors.Join(err, finish()) // finish also changes n
	return n, err
}

// keepGroup is a group of sessions that are committed together, with one batch of objects. Several sessions
// are captured at the same time.
type keepGroup struct {
	batch    segno.Batch
	threadOf threadFinder // nil if each session needs a query to the store
	before   *keepGroup   // the group before it, which may not be in the store yet, or nil
	all      []*keeping
	commits  int
	bytes    int64

	committed chan error // receives the result of storeGroup
	known     *leafIndex

	mu     sync.Mutex      // guards leaves
	leaves map[string]bool // the records at which turns of the group end
}

// leafIndex answers whether a checkpoint in the store ends at a record. The groups that are kept under one lock share it.
type leafIndex struct {
	mu     sync.Mutex             // guards the fields below
	all    map[string]bool        // the records at which turns of the groups end
	asked  int                    // the number of calls of isKnown
	mayEnd func(leaf string) bool // false for a record at which no checkpoint ended when it was made; nil while single queries cost less
}

func (g *keepGroup) add(k *keeping) {
	g.all, g.commits, g.bytes = append(g.all, k), g.commits+len(k.commits), g.bytes+k.out.Bytes
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	for _, c := range k.commits {
		leaf := c.Checkpoint.Session.Leaf
		g.leaves[leaf], g.known.all[leaf] = true, true
	}
}

// hasLeaf reports whether a turn of the group, or of the group before it, ends at one of the records leaves.
func (g *keepGroup) hasLeaf(leaves ...string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(leaves, func(leaf string) bool { return g.leaves[leaf] }) || g.before.hasLeaf(leaves...)
}

// leafFilter is the ability of a [segno.Store] to rule out many leaves at the cost of one scan.
type leafFilter interface {
	// LeafFilter returns a function that returns false only for a leaf at which no checkpoint ended
	// when LeafFilter was called.
	LeafFilter(ctx context.Context) (mayEnd func(leaf string) bool, err error)
}

// isKnown reports whether a checkpoint in the store ends at a record. A capture calls it for each record of a
// session. After many calls, isKnown reads a filter from the store, which answers most of the later calls
// without a query.
func (x *leafIndex) isKnown(ctx context.Context, tx *txn, leaf string) bool {
	const many = 256
	x.mu.Lock()
	if x.asked++; x.asked == many {
		if f, ok := tx.Store.(leafFilter); ok {
			x.mayEnd, _ = f.LeafFilter(ctx) // after an error, each record costs a query
		}
	}
	mayEnd := x.mayEnd
	if x.all[leaf] {
		mayEnd = nil
	}
	x.mu.Unlock()
	return (mayEnd == nil || mayEnd(leaf)) && tx.isKnownLeaf(ctx)(leaf)
}

// untilRepeated returns the requests before the first one that repeats the session of an earlier request, or of one in
// before, which may be nil.
func untilRepeated(all []KeepRequest, before *keepGroup) []KeepRequest {
	seen := map[[2]string]bool{}
	if before != nil {
		for _, k := range before.all {
			seen[[2]string{k.Agent, string(k.Source.Session)}] = true
		}
	}
	for i, r := range all {
		key := [2]string{r.Agent, string(r.Source.Session)}
		if seen[key] {
			return all[:i]
		}
		seen[key] = true
	}
	return all
}

// captureAhead yields the sessions in order. Each is captured into the group's batch or has an error. While
// the caller handles a session, captureAhead captures the next ones, so a session that it did not yield may
// have left objects in the batch.
func (tx *txn) captureAhead(ctx context.Context, g *keepGroup, all []KeepRequest) iter.Seq[*keeping] {
	return func(yield func(*keeping) bool) {
		var running sync.WaitGroup
		defer running.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var window []chan *keeping
		for next := 0; next < len(all) || len(window) > 0; {
			for ; next < len(all) && len(window) < runtime.GOMAXPROCS(0); next++ {
				k, done := &keeping{KeepRequest: all[next]}, make(chan *keeping, 1)
				if g.threadOf != nil {
					k.known = g.threadOf(k.Agent, k.Source.Session)
					k.isNew = k.known == ""
				}
				running.Go(func() {
					if k.err = tx.findKept(ctx, k); k.err == nil {
						k.err = tx.captureKept(ctx, k, g)
					}
					done <- k
				})
				window = append(window, done)
			}
			k := <-window[0]
			if window = window[1:]; !yield(k) {
				return
			}
		}
	}
}

// keepGroup keeps at least one session from the beginning of all. It returns these sessions with their results.
func (tx *txn) keepGroup(ctx context.Context, all []KeepRequest) (done []*keeping, err error) {
	g := tx.captureGroup(ctx, all, &keepRun{}, &leafIndex{all: map[string]bool{}}, nil)
	return g.all, tx.storeGroup(ctx, g)
}

// captureGroup captures sessions from the beginning of all. The group has at least one session, unless the first one
// depends on the group before, which may be nil. The caller must pass the group to storeGroup.
func (tx *txn) captureGroup(ctx context.Context, all []KeepRequest, run *keepRun, known *leafIndex, before *keepGroup) *keepGroup {
	g := &keepGroup{batch: run.batch(tx.Store.Objects()), threadOf: run.threadOf, before: before, committed: make(chan error, 1), known: known, leaves: map[string]bool{}}
	for k := range tx.captureAhead(ctx, g, untilRepeated(all, before)) {
		if errors.Is(k.err, errForkInGroup) || g.hasLeaf(k.asked...) {
			break // the fork begins the next group; by then the store knows its source
		}
		if k.err == nil {
			k.err = tx.prepareKept(ctx, k)
		}
		if g.add(k); g.commits >= maxGroupCommits || g.bytes >= maxGroupBytes {
			break
		}
	}
	g.before = nil // storeGroup begins when the store has that group
	return g
}

// storeGroup makes the sessions of a group durable, and sets their results.
func (tx *txn) storeGroup(ctx context.Context, g *keepGroup) (err error) {
	defer func() { err = errors.Join(err, g.batch.Close()) }()
	if g.commits == 0 {
		return nil
	}
	staged, err := g.batch.Stage(ctx)
	if err == nil {
		err = tx.commitGroup(ctx, g, staged)
	}
	for _, k := range g.all {
		if n := len(k.commits); n > 0 {
			k.err = cmp.Or(k.err, err)
			if p := k.commits[n-1].Checkpoint.Session; !p.Log.IsZero() {
				k.out.Stored = p.Offset
			}
		}
	}
	return nil
}

// prepareKept sets the commits of a captured session.
func (tx *txn) prepareKept(ctx context.Context, k *keeping) error {
	// A hook opens a turn before the agent writes the prompt. If the capture has the prompt, the
	// turn is in the spool now.
	if err := tx.loadTurns(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(tx.turns, func(t OpenTurn) bool { return t.Source.Session == k.Source.Session && t.Ended == "" }) {
		k.out = Kept{Thread: k.thread, IsOpen: true}
		return nil
	}
	id := threadOfSession(k.Agent, k.Source.Session, "")
	if k.thread == "" {
		if isOther, err := tx.isOtherThread(ctx, id); err != nil {
			return err
		} else if isOther {
			id = threadOfSession(k.Agent, k.Source.Session, segno.NewID())
		}
	}
	return tx.planKept(ctx, k, id)
}

// commitGroup makes the commits of a group durable. It uses few transactions if the store supports that and
// no other writer has moved a head. Otherwise it makes one commit after the other.
func (tx *txn) commitGroup(ctx context.Context, g *keepGroup, staged segno.Staged) error {
	many, ok := tx.Store.(manyCommitter)
	if ok && g.commits > 1 {
		err := tx.commitTogether(ctx, many, g, staged)
		switch segno.KindOf(err) {
		case segno.KindConflict, segno.KindFenced, segno.KindNotFound:
		default:
			return err
		}
	}
	if err := tx.keepStaged(ctx, staged); err != nil {
		return fmt.Errorf("store session: %w", err)
	}
	for _, k := range g.all {
		if k.err == nil {
			k.err = tx.commitKept(ctx, k)
		}
	}
	return nil
}

// commitTogether makes the commits in transactions of maxTogether.
func (tx *txn) commitTogether(ctx context.Context, many manyCommitter, g *keepGroup, staged segno.Staged) error {
	var commits []segno.Commit
	for _, k := range g.all {
		commits = append(commits, k.commits...)
	}
	if len(commits) <= maxTogether {
		commits[0].Staged = staged
	} else if err := tx.keepStaged(ctx, staged); err != nil {
		return err
	}
	for some := range slices.Chunk(commits, maxTogether) {
		if _, err := many.CommitAll(ctx, some); err != nil {
			return fmt.Errorf("record turns: %w", err)
		}
	}
	return nil
}

// commitKept makes the commits of one session. The caller has stored their objects.
func (tx *txn) commitKept(ctx context.Context, k *keeping) error {
	if k.thread == "" && len(k.commits) > 0 {
		// A hook may have created the thread since the group began.
		thread, err := tx.threadOfAgent(ctx, k.Agent, k.Source.Session)
		if err == nil && thread != "" {
			k.isNew, k.known = false, ""
			if err = tx.findKept(ctx, k); err == nil {
				err = tx.planKept(ctx, k, thread)
			}
		}
		if err != nil {
			return err
		}
	}
	renamed := map[segno.CommitID]segno.CommitID{}
	for _, c := range k.commits {
		c.Parent, c.Expect = cmp.Or(renamed[c.Parent], c.Parent), cmp.Or(renamed[c.Expect], c.Expect)
		id := c.ID
		_, err := tx.commitRetryingCAS(ctx, c)
		for tx.isDropped(ctx, &c, err) {
			// The store never uses the id of a dropped commit again. The next id is derived, too, so that no turn is kept twice.
			c.ID = segno.CommitID(segno.DerivedID("kept again", string(c.ID)))
			renamed[id] = c.ID
			_, err = tx.commitRetryingCAS(ctx, c)
		}
		if c.Create != nil && segno.KindOf(err) == segno.KindNotFound && c.Thread == threadOfSession(k.Agent, k.Source.Session, "") {
			// The user deleted that thread, and the store never uses the id of a deleted thread again.
			if err := tx.planKept(ctx, k, threadOfSession(k.Agent, k.Source.Session, segno.NewID())); err != nil {
				return err
			}
			return tx.commitKept(ctx, k)
		}
		if err != nil {
			return fmt.Errorf("record turns: %w", err)
		}
	}
	return nil
}

// isDropped reports whether the store refused to make a commit because it once had another one with that id, which a collection
// has dropped.
func (tx *txn) isDropped(ctx context.Context, c *segno.Commit, refusal error) bool {
	var late *segno.ConflictError
	if segno.KindOf(refusal) != segno.KindConflict || errors.As(refusal, &late) || c.Create != nil {
		return false
	}
	_, err := tx.checkpoint(ctx, c.ID)
	return segno.KindOf(err) == segno.KindNotFound
}

// manyCommitter is the ability of a [segno.Store] to make several commits durable at once, at
// the cost of one.
type manyCommitter interface {
	// CommitAll applies commits in order, all of them or none. Each has the same effect as with
	// Commit. It returns the head after the last one. Other writers wait until it returns, so a
	// caller should pass no more than a few hundred commits.
	CommitAll(ctx context.Context, commits []segno.Commit) (segno.Head, error)
}
