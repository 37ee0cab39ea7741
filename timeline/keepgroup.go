package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

const (
	// maxTogether is how many turns are committed at once. Hooks wait for the store meanwhile.
	maxTogether = 128
	// A group of sessions is committed when it has so many commits or bytes of transcripts.
	maxGroupCommits = 8 * maxTogether
	maxGroupBytes   = 256 << 20
)

// KeepSessions is [Timeline.KeepSession] for many sessions. It stores several of them at once, so that
// the disk is synced once for all of them. It calls done for each session in order, once the session is
// durable. The error is that of a lock or of ctx; other errors concern one session.
func (tl *Timeline) KeepSessions(ctx context.Context, all []KeepRequest, done func(r KeepRequest, k Kept, err error)) error {
	for len(all) > 0 {
		if err := ctx.Err(); err != nil {
			return segno.NewError(segno.KindCancelled, opKeep, "", err)
		}
		n, err := tl.keepSome(ctx, all, done)
		if err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// keepSome keeps the first sessions and returns how many.
func (tl *Timeline) keepSome(ctx context.Context, all []KeepRequest, done func(KeepRequest, Kept, error)) (int, error) {
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.unlock()
	kept, err := tx.keepGroup(ctx, all)
	for _, k := range kept {
		done(k.KeepRequest, k.out, k.err)
	}
	return len(kept), err
}

// keepGroup is sessions that are committed together, with one batch of objects.
type keepGroup struct {
	batch   segno.Batch
	all     []*keeping
	leaves  map[string]bool // the records at which turns of the group end
	commits int
	bytes   int64

	asked  int                    // how often isKnown has asked the store
	mayEnd func(leaf string) bool // false for a record at which no checkpoint ends; nil until it is worth its price
}

func (g *keepGroup) add(k *keeping) {
	g.all, g.commits, g.bytes = append(g.all, k), g.commits+len(k.commits), g.bytes+k.out.Bytes
	for _, c := range k.commits {
		g.leaves[c.Checkpoint.Session.Leaf] = true
	}
}

// leafFilter is the ability of a [segno.Store] to rule out many leaves at the cost of one scan.
type leafFilter interface {
	// LeafFilter returns a function that returns false only for a leaf at which no checkpoint ended
	// when LeafFilter was called.
	LeafFilter(ctx context.Context) (mayEnd func(leaf string) bool, err error)
}

// isKnown reports whether a checkpoint in the store ends at a record. A session is asked for record by
// record, so after many questions it reads from the store what it needs to answer the rest.
func (g *keepGroup) isKnown(ctx context.Context, tx *txn, leaf string) bool {
	const many = 256
	if g.asked++; g.asked == many {
		if f, ok := tx.Store.(leafFilter); ok {
			g.mayEnd, _ = f.LeafFilter(ctx) // without it each record costs a query
		}
	}
	return (g.mayEnd == nil || g.mayEnd(leaf)) && tx.isKnownLeaf(ctx)(leaf)
}

// hasSession reports whether a session is in the group already.
func (g *keepGroup) hasSession(r KeepRequest) bool {
	return slices.ContainsFunc(g.all, func(k *keeping) bool { return k.Agent == r.Agent && k.Source.Session == r.Source.Session })
}

// keepGroup keeps the first sessions of all, at least one. It returns them with their results.
func (tx *txn) keepGroup(ctx context.Context, all []KeepRequest) (done []*keeping, err error) {
	g := &keepGroup{batch: tx.Store.Objects().Batch(), leaves: map[string]bool{}}
	defer func() { err = errors.Join(err, g.batch.Close()) }()
	for _, r := range all {
		if g.hasSession(r) {
			break
		}
		k := &keeping{KeepRequest: r}
		k.err = tx.prepareKept(ctx, k, g)
		if errors.Is(k.err, errForkInGroup) {
			break // it begins the next group
		}
		if g.add(k); g.commits >= maxGroupCommits || g.bytes >= maxGroupBytes {
			break
		}
	}
	if g.commits == 0 {
		return g.all, nil
	}
	staged, err := g.batch.Stage(ctx)
	if err == nil {
		err = tx.commitGroup(ctx, g, staged)
	}
	for _, k := range g.all {
		if len(k.commits) > 0 {
			k.err = cmp.Or(k.err, err)
		}
	}
	return g.all, nil
}

// prepareKept captures a session into the group's batch and sets its commits.
func (tx *txn) prepareKept(ctx context.Context, k *keeping, g *keepGroup) error {
	if err := tx.findKept(ctx, k); err != nil {
		return err
	}
	if err := tx.captureKept(ctx, k, g); err != nil {
		return err
	}
	// A hook opens a turn before the agent writes the prompt. If the capture has the prompt, the
	// turn is in the spool by now.
	if err := tx.loadTurns(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(tx.turns, func(t OpenTurn) bool { return t.Source.Session == k.Source.Session && t.Ended == "" }) {
		k.out = Kept{Thread: k.thread, IsOpen: true}
		return nil
	}
	return tx.planKept(ctx, k, threadOfSession(k.Agent, k.Source.Session, ""))
}

// commitGroup makes the commits of a group durable: in few transactions if the store can and no other
// writer has moved a head, else one after the other.
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

// commitKept makes the commits of one session. Their objects are in the store.
func (tx *txn) commitKept(ctx context.Context, k *keeping) error {
	for _, c := range k.commits {
		_, err := tx.commitRetryingCAS(ctx, c)
		if c.Create != nil && segno.KindOf(err) == segno.KindNotFound && c.Thread == threadOfSession(k.Agent, k.Source.Session, "") {
			// The user deleted that thread, and the store keeps its id.
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

// manyCommitter is the ability of a [segno.Store] to make several commits durable at once, at
// the cost of one.
type manyCommitter interface {
	// CommitAll applies commits in order, all or none, as Commit does each of them. It returns
	// the head after the last one. Other writers wait meanwhile, so a caller passes no more than
	// a few hundred.
	CommitAll(ctx context.Context, commits []segno.Commit) (segno.Head, error)
}
