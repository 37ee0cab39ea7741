package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
)

const op = "copy thread"

// Copy copies a thread from one store to another. If it fails, another call continues the copy.
//
// The error has [segno.KindNotFound] if the source has no such thread, if the target has deleted it, or if a collection of the target
// has dropped a commit on the line of the head; [segno.KindCorrupt] if an object or a record of the source is damaged; and
// [segno.KindConflict] if the target has another commit with the same id.
func Copy(ctx context.Context, from, to segno.Store, thread segno.ThreadID, o Options) (*Result, error) {
	c := &copier{mover: mover{from: from, to: to, progress: o.Progress, isDry: o.DryRun, seen: map[segno.Hash]bool{{}: true}},
		options: o, heads: map[segno.ThreadID]*segno.Head{}, whole: map[segno.ThreadID]bool{}}
	if err := c.thread(ctx, thread); err != nil {
		return nil, err
	}
	res := c.result
	if err := c.parts(ctx, thread); err != nil {
		return nil, err
	}
	res.Commits, res.Pins, res.Links, res.Parts = c.result.Commits, c.result.Pins, c.result.Links, c.result.Parts
	res.Objects, res.Bytes = int(c.sent.Load()), c.bytes.Load()
	return &res, nil
}

// copier copies a thread and its parts.
type copier struct {
	mover
	options Options
	result  Result
	heads   map[segno.ThreadID]*segno.Head // in the target; nil for a thread that it lacks
	moved   map[segno.CommitID]bool        // commits that this copy made
	dropped map[segno.CommitID]bool        // commits that a collection of the target has dropped
	whole   map[segno.ThreadID]bool        // threads whose parts were listed
	// isRefused is set once the target has refused to move the head of the thread.
	isRefused bool
}

// parts copies the threads that are parts of a thread. No store prevents that a thread is a part of itself.
func (c *copier) parts(ctx context.Context, thread segno.ThreadID) error {
	c.whole[thread] = true
	var parts []segno.ThreadID
	for t, err := range c.from.Threads(ctx, segno.ThreadQuery{ParentThread: thread}) {
		if err == nil {
			err = c.checkPart(ctx, &t, thread)
		}
		if err != nil {
			return err
		}
		parts = append(parts, t.ID)
	}
	for _, part := range parts {
		if c.whole[part] {
			continue
		}
		c.result.Parts++
		if err := c.thread(ctx, part); err != nil {
			return err
		}
		if err := c.parts(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// checkPart refuses a thread of the source that is not a part of the given one, or that is another thread in the target. The
// copy of a thread must not move the head of one to which it is not related.
func (c *copier) checkPart(ctx context.Context, part *segno.Thread, of segno.ThreadID) error {
	if part.ParentThread != of {
		return segno.Errorf(segno.KindCorrupt, op, string(of), "the source lists the thread %s, which is not a part of it", part.ID)
	}
	// A record without a time is that of an ancestor whose thread the source had deleted.
	there, ok, err := segno.FindThread(ctx, c.to, part.ID)
	if err != nil || !ok || there.ParentThread == of || there.Created.IsZero() {
		return err
	}
	return segno.Errorf(segno.KindConflict, op, string(part.ID), "the target has another thread with this id").WithHint("nothing was overwritten")
}

// oneThread is a thread in both stores.
type oneThread struct {
	record segno.Thread
	source *reachable.Thread
	target *reachable.Thread // nil if the target lacks it
	// there are the commits of the target: those of the thread, and those of the threads in which its ancestors are.
	there map[segno.CommitID]*segno.Node
	// incomplete are the threads of ancestors that the copy continues: it moves their heads. The target has only their commits on the line to this thread.
	incomplete map[segno.ThreadID]bool
}

func (c *copier) thread(ctx context.Context, id segno.ThreadID) error {
	t, err := c.look(ctx, id)
	if err != nil {
		return err
	}
	var missing []*segno.Node
	for _, n := range t.source.Order() {
		have := t.there[n.ID]
		if have == nil {
			missing = append(missing, n)
		} else if err := sameNode(n, have); err != nil {
			return err
		}
	}
	c.moved, c.dropped, c.isRefused = map[segno.CommitID]bool{}, map[segno.CommitID]bool{}, false
	if err := c.commits(ctx, t, missing); err != nil {
		return err
	}
	for _, id := range []segno.CommitID{t.source.Head.Head, t.source.Head.Tip} {
		if c.dropped[id] {
			return droppedThere(id)
		}
	}
	wanted, err := chain(ctx, c.from, t)
	if err != nil {
		return err
	}
	var roots []segno.Hash
	for i := range wanted {
		roots = append(roots, refsOf(&wanted[i])...)
	}
	if err := c.move(ctx, reachable.Query{Thread: id}, roots); err != nil {
		return err
	}
	if c.isDry {
		c.result.Commits += len(missing)
	}
	c.result.Thread, c.result.Source = id, t.source.Head.Head
	if err := c.finish(ctx, t); err != nil {
		return err
	}
	if c.result.Left = ""; c.result.Outcome == Forwarded && t.target != nil && !t.source.Contains(c.result.Head, t.target.Head.Head) {
		c.result.Left = t.target.Head.Head
	}
	if err := c.pins(ctx, t); err != nil {
		return err
	}
	return c.links(ctx, t, wanted)
}

// look reads the thread in both stores.
func (c *copier) look(ctx context.Context, id segno.ThreadID) (*oneThread, error) {
	t := &oneThread{there: map[segno.CommitID]*segno.Node{}, incomplete: map[segno.ThreadID]bool{}}
	var ok bool
	var err error
	if t.record, ok, err = segno.FindThread(ctx, c.from, id); err == nil && !ok {
		err = segno.NewError(segno.KindNotFound, op, string(id), nil)
	}
	if err == nil {
		t.source, err = reachable.Commits(ctx, c.from, id)
	}
	if err == nil {
		t.target, err = c.lookThere(ctx, t, id)
	}
	if err != nil {
		return nil, err
	}
	return t, c.lookForAncestors(ctx, t)
}

// lookForAncestors reads the threads of the target in which the ancestors of the thread are. If the target has deleted
// one of them, it may still have the commits.
func (c *copier) lookForAncestors(ctx context.Context, t *oneThread) error {
	order := t.source.Order()
	known := map[segno.ThreadID]bool{t.record.ID: true}
	for i, n := range slices.Backward(order) {
		if n.Thread == t.record.ID || t.there[n.ID] != nil {
			continue
		}
		if !known[n.Thread] {
			known[n.Thread] = true
			other, err := c.lookThere(ctx, t, n.Thread)
			if err != nil {
				return err
			}
			if t.incomplete[n.Thread], err = c.mayFollow(ctx, t, n.Thread, other); err != nil {
				return err
			}
		}
		if isForked := i+1 < len(order) && order[i+1].Thread != n.Thread; !isForked || c.heads[n.Thread] != nil {
			continue
		}
		line, err := c.to.Load(ctx, n.ID, segno.Window{})
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return err
		}
		for i := 0; err == nil && i < len(line.Commits); i++ {
			t.there[line.Commits[i].ID] = &line.Commits[i]
		}
	}
	return nil
}

// hasOthers reports whether a thread has a commit that is not among the commits of another one and its ancestors.
func hasOthers(t, among *reachable.Thread) bool {
	for id, n := range t.Nodes {
		if n.Thread == t.Head.Thread && among.Nodes[id] == nil {
			return true
		}
	}
	return false
}

// mayFollow reports whether the head of a thread of ancestors moves to the commits that the copy adds. there is the thread in the target,
// or nil. The head stays if a run or a directory of the target is at the thread: the files of the directory would be those of an
// earlier commit.
func (c *copier) mayFollow(ctx context.Context, t *oneThread, id segno.ThreadID, there *reachable.Thread) (bool, error) {
	if there == nil {
		return true, nil
	}
	if hasOthers(there, t.source) {
		return false, nil
	}
	if isRunning, err := c.isRunning(ctx, id); err != nil || isRunning {
		return false, err
	}
	w, ok := c.to.(segno.Workspaces)
	if _, isServer := c.to.(ObjectFinder); !ok || isServer { // a server refuses to move the head, see keepHead
		return true, nil
	}
	for rec, err := range w.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil || rec.State.Thread == id {
			return false, err
		}
	}
	return true, nil
}

// isRunning reports whether a run of the target holds a thread.
func (c *copier) isRunning(ctx context.Context, id segno.ThreadID) (bool, error) {
	l, ok := c.to.(segno.Leaser)
	if !ok {
		return false, nil
	}
	lease, err := l.LeaseOf(ctx, id)
	return err == nil && lease.Owner != "", err
}

// lookThere reads a thread of the target, or returns nil if the target lacks it.
func (c *copier) lookThere(ctx context.Context, t *oneThread, id segno.ThreadID) (*reachable.Thread, error) {
	there, err := reachable.Commits(ctx, c.to, id)
	if segno.KindOf(err) == segno.KindNotFound {
		c.heads[id] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for id, n := range there.Nodes {
		t.there[id] = n
	}
	c.heads[id] = &there.Head
	return there, nil
}

// sameNode compares a commit of the source with the commit of the target that has the same id.
func sameNode(a, b *segno.Node) error {
	x, err := nodeText(a)
	if err != nil {
		return err
	}
	y, err := nodeText(b)
	if err != nil || bytes.Equal(x, y) {
		return err
	}
	return segno.Errorf(segno.KindConflict, op, string(a.ID), "the target has another commit with this id").
		WithHint("nothing was overwritten; copy a fork of the thread instead")
}

// nodeText encodes what must be equal in both stores.
func nodeText(n *segno.Node) ([]byte, error) {
	x := struct {
		Thread     segno.ThreadID
		Parent     segno.CommitID
		Checkpoint *segno.Checkpoint
	}{n.Thread, n.Parent, nil}
	if n.Checkpoint != nil {
		cp := *n.Checkpoint
		cp.Seq, cp.Time = 0, cp.Time.UTC()
		x.Checkpoint = &cp
	}
	text, err := json.Marshal(x)
	if err != nil {
		return nil, segno.NewError(segno.KindInternal, op, string(n.ID), err)
	}
	return text, nil
}

// The limits of the commits whose objects are copied together, and of those whose entries are read together.
const (
	windowCommits = 128
	readCommits   = 32
)

// commits makes the missing commits in the target, each after its objects.
func (c *copier) commits(ctx context.Context, t *oneThread, missing []*segno.Node) error {
	if len(missing) == 0 && t.target == nil && !c.isDry { // a thread without commits
		_, err := c.commit(ctx, segno.Commit{ID: segno.CommitID(segno.DerivedID("copied thread", string(t.record.ID))), Thread: t.record.ID, Create: &t.record})
		return err
	}
	for window := range slices.Chunk(missing, windowCommits) {
		q := reachable.Query{}
		var roots []segno.Hash
		for _, n := range window {
			q.At, roots = append(q.At, n.ID), append(roots, n.Checkpoint.Refs()...)
			if t.there[n.Parent] != nil || c.moved[n.Parent] {
				q.Without = append(q.Without, n.Parent)
			}
		}
		if err := c.move(ctx, q, roots); err != nil {
			return err
		}
		if c.isDry {
			continue
		}
		for len(window) > 0 {
			run := lineOf(window)
			if err := c.line(ctx, t, window[:run], missing[len(missing)-1].ID); err != nil {
				return err
			}
			window = window[run:]
		}
	}
	return nil
}

// lineOf returns how many of the first commits follow one another, so that one request can read them.
func lineOf(nodes []*segno.Node) int {
	n := 1
	for n < len(nodes) && n < readCommits && nodes[n].Parent == nodes[n-1].ID {
		n++
	}
	return n
}

// line makes commits that follow one another. last is the last commit of the copy.
func (c *copier) line(ctx context.Context, t *oneThread, nodes []*segno.Node, last segno.CommitID) error {
	line, err := c.from.Load(ctx, nodes[len(nodes)-1].ID, segno.Window{Last: len(nodes), Entries: true})
	if err != nil {
		return err
	}
	if len(line.Commits) != len(nodes) {
		return segno.Errorf(segno.KindCorrupt, op, string(nodes[0].ID), "the line has %d commits and not %d", len(line.Commits), len(nodes))
	}
	for i := range line.Commits {
		if n := &line.Commits[i]; n.ID != nodes[i].ID {
			return segno.Errorf(segno.KindCorrupt, op, string(nodes[i].ID), "the line has the commit %s instead", n.ID)
		}
	}
	if err := c.announce(ctx, line.Commits); err != nil {
		return err
	}
	for i := range line.Commits {
		n := &line.Commits[i]
		if err := c.node(ctx, t, n, n.ID == last); err != nil {
			return err
		}
		c.moved[n.ID] = !c.dropped[n.ID]
	}
	return nil
}

// announce calls Arriving with commits that the copy is about to make.
func (c *copier) announce(ctx context.Context, nodes []segno.Node) error {
	if c.options.Arriving == nil {
		return nil
	}
	arriving := make([]segno.Commit, len(nodes))
	for i := range nodes {
		arriving[i] = segno.Commit{ID: nodes[i].ID, Thread: nodes[i].Thread, Parent: nodes[i].Parent, Checkpoint: nodes[i].Checkpoint}
	}
	err := c.options.Arriving(ctx, arriving)
	if segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	for i := range nodes { // the target may have collected an object meanwhile
		if _, err := c.sendAgain(ctx, &nodes[i]); err != nil {
			return err
		}
	}
	return reachable.MissingIsCorrupt(c.options.Arriving(ctx, arriving))
}

// node makes one commit. It makes none if a collection of the target has dropped the commit, which no store makes again: one that
// another amends, or one of a line that an undo left.
func (c *copier) node(ctx context.Context, t *oneThread, n *segno.Node, isLast bool) error {
	made := segno.Commit{ID: n.ID, Thread: n.Thread, Parent: n.Parent, Entries: n.Entries, Checkpoint: n.Checkpoint}
	for try := 0; ; try++ {
		if err := c.fill(ctx, t, &made, isLast); err != nil {
			return err
		}
		_, failure := c.commit(ctx, made)
		err := failure
		switch kind := segno.KindOf(err); {
		case kind == segno.KindConflict:
			var done bool
			if done, err = c.afterConflict(ctx, n, failure); done || err != nil {
				return err
			}
		case kind == segno.KindNotFound:
			err = c.afterMissing(ctx, t, n)
		case kind == segno.KindBusy || kind == segno.KindRefused:
			err = c.keepHead(t, &made, failure)
		case err == nil:
			c.result.Commits++
			return nil
		}
		if err != nil {
			return err
		}
		if try == maxTries {
			return failure // the target does not have the commit
		}
	}
}

// afterConflict reports whether nothing remains to do for a commit that the target refused. Otherwise it reads the head again.
func (c *copier) afterConflict(ctx context.Context, n *segno.Node, failure error) (done bool, err error) {
	if done, err := c.isMade(ctx, n); done || err != nil {
		return done, err
	}
	if moved := (*segno.ConflictError)(nil); !errors.As(failure, &moved) {
		c.dropped[n.ID] = true // the target knows the id, and lacks the commit
		return true, nil
	}
	return false, c.readHead(ctx, n.Thread) // another writer moved the head
}

// afterMissing sends the objects of a commit again that the target refused because it lacks one. It returns an error if it lacks
// something else.
func (c *copier) afterMissing(ctx context.Context, t *oneThread, n *segno.Node) error {
	if c.dropped[n.Parent] {
		return droppedThere(n.Parent)
	}
	isSent, err := c.sendAgain(ctx, n)
	if err == nil && !isSent {
		gone := deletedThere(n.Thread)
		if n.Thread != t.record.ID { // a fork of a thread, and the target has erased the commits of that thread
			gone = gone.WithHint(hintArchive)
		}
		err = gone
	}
	return err
}

// keepHead makes the next try of a commit leave the head where it is, because a run or a directory of the target is at the thread. It returns
// the failure if the commit did not move the head.
func (c *copier) keepHead(t *oneThread, made *segno.Commit, failure error) error {
	switch {
	case movesTo(made):
		c.isRefused = true // finish reports why
	case t.incomplete[made.Thread]:
		t.incomplete[made.Thread] = false
	default:
		return failure
	}
	return nil
}

// movesTo reports whether a commit moves the head of an existing thread to itself by a [segno.Move].
func movesTo(made *segno.Commit) bool {
	return made.Move != nil && made.Move.Head == segno.Self
}

// maxTries is how often a commit is repeated because another writer moved the head at the same time.
const maxTries = 20

// fill completes a commit for the present state of its thread in the target.
func (c *copier) fill(ctx context.Context, t *oneThread, made *segno.Commit, isLast bool) error {
	made.Create, made.Move, made.Expect, made.Epoch = nil, nil, "", 0
	head := c.heads[made.Thread]
	if head == nil {
		record := t.record
		if made.Thread != record.ID {
			var err error
			if record, err = c.ancestorThread(ctx, made.Thread); err != nil {
				return err
			}
		}
		made.Create = &record
		return nil
	}
	made.Expect, made.Epoch = head.Head, head.Epoch
	follows := made.Parent == head.Head && head.Head == head.Tip
	switch {
	case head.Head == "", made.Thread != t.record.ID && t.incomplete[made.Thread] && follows:
		// The commit becomes the head.
	case isLast && made.ID == t.source.Head.Head && !c.isRefused && c.mayMove(ctx, t) == nil:
		// One commit brings the last turn and the head, so that the store knows the phase of the thread.
		made.Move = &segno.Move{Head: segno.Self, Tip: segno.Self}
		if tip := t.source.Head.Tip; tip != made.ID {
			made.Move.Tip = tip
		}
	default:
		made.Move = &segno.Move{Head: head.Head, Tip: head.Tip}
	}
	return nil
}

// ancestorThread returns the record of a thread that has ancestors. It has no title if the source has deleted it.
func (c *copier) ancestorThread(ctx context.Context, id segno.ThreadID) (segno.Thread, error) {
	record, ok, err := segno.FindThread(ctx, c.from, id)
	if err == nil && !ok {
		record = segno.Thread{ID: id}
	}
	return record, err
}

// isMade reports whether the target has a commit of the source.
func (c *copier) isMade(ctx context.Context, n *segno.Node) (bool, error) {
	line, err := c.to.Load(ctx, n.ID, segno.Window{Last: 1})
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := sameNode(n, &line.Commits[0]); err != nil {
		return false, err
	}
	return true, c.readHead(ctx, n.Thread)
}

// sendAgain copies the objects of a commit that the target lacks, because it may have collected one meanwhile. isSent is
// false if the target has them all.
func (c *copier) sendAgain(ctx context.Context, n *segno.Node) (isSent bool, err error) {
	again := c.again()
	err = again.move(ctx, reachable.Query{At: []segno.CommitID{n.ID}}, n.Checkpoint.Refs())
	return again.sent.Load() > 0, err
}

// commit makes a commit in the target, and remembers the head of the thread.
func (c *copier) commit(ctx context.Context, made segno.Commit) (segno.Head, error) {
	head, err := c.to.Commit(ctx, made)
	if err == nil {
		c.heads[made.Thread] = &head
	}
	return head, err
}

// readHead reads the head of a thread of the target.
func (c *copier) readHead(ctx context.Context, thread segno.ThreadID) error {
	head, err := c.to.Head(ctx, thread)
	if segno.KindOf(err) == segno.KindNotFound {
		c.heads[thread] = nil
		return nil
	}
	if err == nil {
		c.heads[thread] = &head
	}
	return err
}
