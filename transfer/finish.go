package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
)

// finish moves the head of the thread to that of the source, if that is possible, and records the outcome.
func (c *copier) finish(ctx context.Context, t *oneThread) error {
	for try := 0; ; try++ {
		head := c.heads[t.record.ID]
		if c.isDry {
			c.result.Outcome, c.result.Head = c.foresee(t)
			return nil
		}
		c.result.Head, c.result.Why = head.Head, nil
		c.result.Outcome = c.outcome(t, head)
		if c.result.Outcome != Forwarded || t.isSame(head) {
			return nil
		}
		if why := c.mayMove(ctx, t); why != nil {
			c.result.Outcome, c.result.Why = Kept, refusal(why)
			return nil
		}
		moved, err := c.commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: t.record.ID, Expect: head.Head, Epoch: head.Epoch,
			Move: &segno.Move{Head: t.source.Head.Head, Tip: t.source.Head.Tip}})
		switch kind := segno.KindOf(err); {
		case err == nil:
			if c.result.Head = moved.Head; t.target == nil {
				c.result.Outcome = Created
			}
			return nil
		case kind == segno.KindRefused, kind == segno.KindBusy:
			c.result.Outcome, c.result.Why = Kept, err
			return nil
		case kind != segno.KindConflict || try == maxTries:
			return err
		}
		if err := c.readHeadAgain(ctx, t.record.ID); err != nil {
			return err
		}
	}
}

// outcome compares the head of the target with the source. The target has all commits of the source.
func (c *copier) outcome(t *oneThread, head *segno.Head) Outcome {
	source := t.source.Head
	before := ""
	if t.target != nil {
		before = string(t.target.Head.Head)
	}
	switch {
	case t.target == nil && (head.Head == source.Head && head.Tip == source.Tip):
		return Created
	case before == string(source.Head) && t.isSame(head):
		return UpToDate
	case t.source.Contains(source.Head, head.Head), t.source.Nodes[head.Head] != nil && !c.hasOthers(t):
		return Forwarded
	case t.target != nil && t.target.Contains(head.Head, source.Head):
		return Behind
	}
	return Diverged
}

// isSame reports whether the head of the target is that of the source, and the tip, too, unless the target has undone turns that the
// source lacks. A redo in the target can then still reach these.
func (t *oneThread) isSame(head *segno.Head) bool {
	source := t.source.Head
	return head.Head == source.Head && (head.Tip == source.Tip || t.source.Nodes[head.Tip] == nil)
}

// foresee returns the outcome and the head of a copy that is only counted.
func (c *copier) foresee(t *oneThread) (Outcome, segno.CommitID) {
	if t.target == nil {
		return Created, t.source.Head.Head
	}
	outcome := c.outcome(t, &t.target.Head)
	if outcome == Forwarded && c.options.KeepHead && t.target.Head.Head != t.source.Head.Head {
		outcome = Kept
	}
	if outcome == Forwarded {
		return outcome, t.source.Head.Head
	}
	return outcome, t.target.Head.Head
}

// hasOthers reports whether the target had commits of the thread that the source lacks.
func (c *copier) hasOthers(t *oneThread) bool {
	return t.target != nil && hasOthers(t.target, t.source)
}

// errKeep is the reason of KeepHead, which [Result] does not report.
const errKeep = keepHead("the caller keeps the head")

type keepHead string

func (e keepHead) Error() string { return string(e) }

// refusal returns the error that a result reports.
func refusal(err error) error {
	if err == errKeep {
		return nil
	}
	return err
}

// mayMove returns why the head of a thread that the target has must stay, or nil.
func (c *copier) mayMove(ctx context.Context, t *oneThread) error {
	if t.target == nil {
		return nil
	}
	head := c.heads[t.record.ID]
	if c.options.KeepHead && head.Head != t.source.Head.Head {
		return errKeep
	}
	if outcome := c.outcome(t, head); outcome != Forwarded {
		return segno.Errorf(segno.KindConflict, op, string(t.record.ID), "both sides have new commits")
	}
	isRunning, err := c.isRunning(ctx, t.record.ID)
	if err == nil && isRunning {
		err = segno.Errorf(segno.KindBusy, op, string(t.record.ID), "a run of the thread is in progress there")
	}
	return err
}

// pins sets the names of pins that the target lacks.
func (c *copier) pins(ctx context.Context, t *oneThread) error {
	there, err := labels(ctx, c.to, t)
	if err != nil {
		return err
	}
	wanted, err := labels(ctx, c.from, t)
	if err != nil {
		return err
	}
	for id, label := range wanted {
		union := there[id]
		for _, name := range segno.PinNames(label) {
			union = segno.WithPinName(union, name)
		}
		if union == there[id] {
			continue
		}
		if c.dropped[id] {
			return droppedThere(id)
		}
		c.result.Pins++
		if err := c.pointer(ctx, segno.Commit{Thread: t.record.ID, Pin: &segno.Pin{Checkpoint: id, Name: union}}); err != nil {
			return err
		}
	}
	return nil
}

// labels returns the names of the pinned checkpoints of a thread. A thread that a dry run did not create has none.
func labels(ctx context.Context, s segno.Store, t *oneThread) (map[segno.CommitID]string, error) {
	all := map[segno.CommitID]string{}
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: t.record.ID, Pinned: true}) {
		if segno.KindOf(err) == segno.KindNotFound {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all[c.ID] = c.Label
	}
	return all, nil
}

// links adds those of the wanted sessions to the chain that it lacks. If the head stayed, its session stays the head session.
func (c *copier) links(ctx context.Context, t *oneThread, wanted []segno.Link) error {
	if len(wanted) == 0 {
		return nil
	}
	there, err := chain(ctx, c.to, t)
	if err != nil {
		return err
	}
	isHead := c.result.Outcome == Created || c.result.Outcome == Forwarded || c.result.Outcome == UpToDate
	for _, l := range wanted {
		if slices.ContainsFunc(there, func(x segno.Link) bool { return linkKey(&x) == linkKey(&l) }) {
			continue
		}
		c.result.Links++
		l.Detached = l.Detached || !isHead
		if c.isDry {
			continue
		}
		err := c.link(ctx, t, &l)
		if segno.KindOf(err) == segno.KindNotFound { // the target may have collected an object meanwhile
			if err = c.again().move(ctx, reachable.Query{Thread: t.record.ID}, refsOf(&l)); err == nil {
				err = c.link(ctx, t, &l)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link adds a session to the chain.
func (c *copier) link(ctx context.Context, t *oneThread, l *segno.Link) error {
	if c.options.Arriving != nil {
		if err := c.options.Arriving(ctx, []segno.Commit{{Thread: t.record.ID, Link: l}}); err != nil {
			return err
		}
	}
	return c.pointer(ctx, segno.Commit{Thread: t.record.ID, Link: l, Needs: refsOf(l)})
}

// refsOf returns the objects that a link names.
func refsOf(l *segno.Link) []segno.Hash { return (&segno.Checkpoint{Session: l.Position}).Refs() }

// linkKey identifies a link of a chain.
func linkKey(l *segno.Link) string {
	return strings.Join([]string{l.Agent, string(l.Session), fmt.Sprint(l.Start.UnixNano()), l.Reason, string(l.At)}, "\x00")
}

// chain returns the links of a thread, oldest first. If the store does not keep the chain, it returns the head session.
func chain(ctx context.Context, s segno.Store, t *oneThread) (all []segno.Link, err error) {
	chains, ok := s.(segno.Chains)
	if !ok {
		head, err := s.Head(ctx, t.record.ID)
		if err == nil && head.Link.Session != "" {
			all = append(all, head.Link)
		}
		return all, err
	}
	for l, err := range chains.Chain(ctx, t.record.ID) {
		if segno.KindOf(err) == segno.KindNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// pointer makes a commit that is not a node, at whatever head the thread has.
func (c *copier) pointer(ctx context.Context, made segno.Commit) error {
	if c.isDry {
		return nil
	}
	made.ID = segno.CommitID(segno.NewID())
	for try := 0; ; try++ {
		head := c.heads[made.Thread]
		made.Expect, made.Epoch = head.Head, head.Epoch
		_, err := c.commit(ctx, made)
		if segno.KindOf(err) != segno.KindConflict || try == maxTries {
			return err
		}
		if err := c.readHeadAgain(ctx, made.Thread); err != nil {
			return err
		}
	}
}

// readHeadAgain reads the head of a thread that the target had, after another writer moved it.
func (c *copier) readHeadAgain(ctx context.Context, thread segno.ThreadID) error {
	if err := c.readHead(ctx, thread); err != nil {
		return err
	}
	if c.heads[thread] == nil {
		return deletedThere(thread)
	}
	return nil
}

// droppedThere returns the error for a commit that a collection of the target has dropped, and that the copy needs.
func droppedThere(id segno.CommitID) error {
	return segno.Errorf(segno.KindNotFound, op, string(id), "the commit was there, and a collection has dropped it").
		WithHint(hintArchive)
}

// hintArchive is the way to copy a thread of which the target has lost commits.
const hintArchive = "'segno pack --thread' and 'segno unpack' copy the thread with other ids"

// deletedThere returns the error for a thread that the target has deleted.
func deletedThere(thread segno.ThreadID) *segno.Error {
	return segno.Errorf(segno.KindNotFound, op, string(thread), "the thread was deleted there").WithHint("copy a fork of the thread instead")
}
