package saver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// StoreSaver is a [Saver] on a [segno.Store] that also has history, undo, redo, restore and
// forks.
type StoreSaver struct {
	Store segno.Store
	Now   func() time.Time // nil is time.Now
	// Durability is that of the commits by Save and SaveWrites. The zero value is [segno.Synced]. With
	// [segno.Batched], a power failure may remove the newest snapshots, but no kill does. Undo, Redo,
	// Restore, Fork and Delete are always synced.
	Durability segno.Durability
}

func (v *StoreSaver) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}

var _ Saver = (*StoreSaver)(nil)

// New returns a saver that keeps its snapshots in s. The caller closes s.
func New(s segno.Store) *StoreSaver { return &StoreSaver{Store: s, Now: time.Now} }

// Save implements [Saver].
func (v *StoreSaver) Save(ctx context.Context, s Snapshot) (Snapshot, error) {
	base, err := v.begin(ctx, &s)
	if err != nil {
		return s, err
	}
	return v.save(ctx, s, base, base.unchanged(s.Messages))
}

// Append is Save for a conversation that only grows. It saves s with more messages after its own, which must be as many as
// Load, Save or Append returned, and returns s unchanged if there is an error. Save reads all messages to find one that
// was changed; Append reads only the new ones. If an earlier message was changed, the next Save stores the change. The Messages
// of the result and of s may have their common part in one array.
func (v *StoreSaver) Append(ctx context.Context, s Snapshot, messages ...json.RawMessage) (Snapshot, error) {
	base, err := v.begin(ctx, &s)
	if err != nil {
		return s, err
	}
	if len(s.Messages) != base.messages {
		return s, segno.Errorf(segno.KindInvalid, "save", s.Thread, "the snapshot has %d messages, and its checkpoint has %d", len(s.Messages), base.messages).
			WithHint("call Save, which compares them")
	}
	longer := s
	longer.Messages = base.log.extend(s.Messages, messages)
	if longer, err = v.save(ctx, longer, base, base.messages); err != nil {
		return s, err
	}
	return longer, nil
}

// begin checks a snapshot and returns the base that it is saved onto.
func (v *StoreSaver) begin(ctx context.Context, s *Snapshot) (*base, error) {
	if err := s.check("save"); err != nil {
		return nil, err
	}
	if s.Aside && s.ID == "" {
		return nil, segno.Errorf(segno.KindInvalid, "save", s.Thread, "a thread cannot begin beside its head").WithHint("set Aside on a snapshot that At returned")
	}
	return v.baseOf(ctx, s)
}

// save saves s onto base. The first kept messages are those of base.
func (v *StoreSaver) save(ctx context.Context, s Snapshot, base *base, kept int) (Snapshot, error) {
	now := v.now()
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: s.ThreadKey.ID(), Parent: s.ID, Expect: cmp.Or(base.head, s.ID), Epoch: base.epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Step: s.Step, Turn: base.turn, Time: now, Meta: s.Meta}}
	if s.Step <= base.step {
		c.Checkpoint.Step = base.step + 1
	}
	if s.ID == "" {
		c.Create = &segno.Thread{ID: c.Thread, Created: now}
		if s.Namespace != "" {
			c.Create.ParentThread, c.Create.Name = segno.ThreadID(s.Thread), s.Namespace
		}
		base.created = now
	}
	var err error
	if c.Entries, err = base.changes(s, kept, now); err != nil {
		return s, err
	}
	head, err := v.commitAfterWrites(ctx, c, s.Aside)
	if segno.KindOf(err) == segno.KindNotFound && c.Create != nil {
		err = segno.Errorf(segno.KindRefused, "save", s.Thread, "a thread of that name was deleted").WithHint("save under another name")
	}
	if segno.KindOf(err) == segno.KindInvalid {
		if n := slices.IndexFunc(s.Messages[kept:], func(m json.RawMessage) bool { return !json.Valid(m) }); n >= 0 {
			err = errNotJSON(s, kept+n)
		}
	}
	if err != nil {
		return s, err
	}
	s.Messages = slices.Clip(s.Messages) // two callers may append to it
	s.ID, s.Step, s.Created, s.Updated = c.ID, c.Checkpoint.Step, base.created, now
	s.base = base.next(s, kept, head.Epoch, c.Entries)
	s.Interrupts, s.Decisions, s.Writes = copyInterrupts(s.base.interrupts), nil, nil
	return s, nil
}

// commitAfterWrites commits c, a checkpoint. If only writes of branches follow its parent on the thread's line,
// they are no conflict, and c does not include them. If aside is set, the thread stays where it is, so no
// other commit is a conflict.
func (v *StoreSaver) commitAfterWrites(ctx context.Context, c segno.Commit, aside bool) (segno.Head, error) {
	if aside {
		head, err := v.Store.Head(ctx, c.Thread)
		if err != nil {
			return head, err
		}
		c.Expect, c.Epoch, c.Move = head.Head, head.Epoch, &segno.Move{Head: head.Head, Tip: head.Tip}
	}
	for {
		head, err := v.commit(ctx, c)
		var late *segno.ConflictError
		if !errors.As(err, &late) || late.Actual.Head == c.Expect || c.Parent == "" {
			return head, err
		}
		if aside {
			c.Move = &segno.Move{Head: late.Actual.Head, Tip: late.Actual.Tip}
		} else if _, since := v.writesSince(ctx, late.Actual, c.Parent); segno.KindOf(since) == segno.KindConflict {
			return head, err
		} else if since != nil {
			return head, since
		}
		c.Expect, c.Epoch = late.Actual.Head, late.Actual.Epoch
	}
}

// commit commits c. A saver holds no lease. It relies on the comparison of heads, so a lease that
// another writer took meanwhile excludes the saver only while it is in force.
func (v *StoreSaver) commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	c.Durability = v.Durability
	head, err := v.Store.Commit(ctx, c)
	if segno.KindOf(err) != segno.KindFenced {
		return head, err
	}
	now, err := v.Store.Head(ctx, c.Thread)
	if err != nil {
		return now, err
	}
	held := false
	if leaser, ok := v.Store.(segno.Leaser); ok {
		l, err := leaser.LeaseOf(ctx, c.Thread)
		if err != nil {
			return now, err
		}
		held = l.Owner != ""
	}
	if held || now.Head != c.Expect || c.Create != nil {
		return now, segno.NewError(segno.KindConflict, "save", string(c.Thread), &segno.ConflictError{Actual: now}).
			WithHint("load it again")
	}
	c.Epoch = now.Epoch
	return v.Store.Commit(ctx, c)
}

// baseOf returns the base that s is saved onto. It takes the base from s or, if s was decoded from
// JSON, from the store.
func (v *StoreSaver) baseOf(ctx context.Context, s *Snapshot) (*base, error) {
	switch {
	case s.ID == "":
		return &base{}, nil
	case s.base != nil && s.base.at == s.ID:
		return s.base, nil
	}
	head, err := v.Store.Head(ctx, s.ThreadKey.ID())
	if err != nil {
		return nil, err
	}
	got, err := v.at(ctx, s.ThreadKey, s.ID, head)
	if err != nil {
		return nil, err
	}
	return got.base, nil
}

// Load implements [Saver].
func (v *StoreSaver) Load(ctx context.Context, at ThreadKey) (Snapshot, error) {
	return v.At(ctx, at, "")
}

func (v *StoreSaver) head(ctx context.Context, at ThreadKey) (segno.Head, error) {
	if err := at.check("load"); err != nil {
		return segno.Head{}, err
	}
	return v.Store.Head(ctx, at.ID())
}

// At returns any checkpoint of a thread, or of its ancestors in the thread from which it was forked.
// If id is empty, At returns the thread's head. Only the head may be saved onto; see
// [StoreSaver.Restore].
func (v *StoreSaver) At(ctx context.Context, at ThreadKey, id segno.CommitID) (Snapshot, error) {
	head, err := v.head(ctx, at)
	if err != nil {
		return Snapshot{ThreadKey: at}, err
	}
	return v.at(ctx, at, cmp.Or(id, head.Head), head)
}

func (v *StoreSaver) at(ctx context.Context, at ThreadKey, id segno.CommitID, head segno.Head) (Snapshot, error) {
	s := Snapshot{ThreadKey: at}
	line, err := v.Store.Load(ctx, id, segno.Window{Entries: true})
	if err != nil {
		return s, err
	}
	if err := v.within(ctx, head, line); err != nil {
		return s, err
	}
	n := len(line.Commits)
	for n > 1 && isWrites(&line.Commits[n-1]) {
		n--
	}
	line.Commits = line.Commits[:n] // the snapshot is of the checkpoint before them
	id = line.Commits[n-1].ID
	kept, err := v.writesSince(ctx, head, id)
	follows := err == nil
	if err != nil && segno.KindOf(err) != segno.KindConflict {
		return s, err
	}
	if s.Writes, err = decodeWrites(at, kept); err != nil {
		return s, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return s, err
	}
	s.ID, s.Step, s.Messages, s.State = id, state.Step, slices.Clip(state.Messages), state.Values
	s.Interrupts = copyInterrupts(state.Interrupts)
	if err := v.times(ctx, &s, line, head); err != nil {
		return s, err
	}
	s.base = &base{at: id, epoch: head.Epoch, step: s.Step, turn: state.Turn, log: &messageLog{all: copyMessages(s.Messages)}, messages: len(s.Messages),
		interrupts: state.Interrupts, created: s.Created, values: make(map[string]json.RawMessage, len(s.State))}
	if follows {
		s.base.head = head.Head
	}
	s.base.decide(state)
	for k, value := range s.State {
		s.base.values[k] = bytes.Clone(value)
	}
	return s, nil
}

// within returns an error unless a line ends in the thread or is an ancestor of the thread's tip.
func (v *StoreSaver) within(ctx context.Context, head segno.Head, line *segno.Line) error {
	last := line.Commits[len(line.Commits)-1]
	if last.Thread == head.Thread || last.ID == head.Head {
		return nil
	}
	tip, err := v.Store.Load(ctx, head.Tip, segno.Window{})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(tip.Commits, func(n segno.Node) bool { return n.ID == last.ID }) {
		return nil
	}
	return segno.Errorf(segno.KindNotFound, "load", string(last.ID), "the thread has no such checkpoint")
}

// times sets the times of the thread and of the checkpoint in s, and the checkpoint's Meta.
func (v *StoreSaver) times(ctx context.Context, s *Snapshot, line *segno.Line, head segno.Head) error {
	for _, n := range line.Commits {
		if n.Checkpoint == nil {
			continue
		}
		begins := n.Parent == "" || n.Checkpoint.Kind == segno.CheckpointBase
		if n.Thread == head.Thread && begins && s.Created.IsZero() {
			s.Created = n.Checkpoint.Time
		}
		s.Updated, s.Meta = n.Checkpoint.Time, n.Checkpoint.Meta
	}
	if !s.Created.IsZero() {
		return nil
	}
	t, _, err := segno.FindThread(ctx, v.Store, head.Thread)
	s.Created = t.Created
	return err
}

// List implements [Saver].
func (v *StoreSaver) List(ctx context.Context, namespace string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for t, err := range v.Store.Threads(ctx, segno.ThreadQuery{TopLevel: namespace == ""}) {
			at := ThreadKey{Thread: string(t.ID)}
			if namespace != "" {
				at = ThreadKey{Thread: string(t.ParentThread), Namespace: t.Name}
			}
			if err == nil && (at.Namespace != namespace || at.ID() != t.ID) {
				continue
			}
			var info Info
			if err == nil {
				info, err = v.info(ctx, at, t)
			}
			if segno.KindOf(err) == segno.KindNotFound {
				continue // deleted meanwhile
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

func (v *StoreSaver) info(ctx context.Context, at ThreadKey, t segno.Thread) (Info, error) {
	info := Info{ThreadKey: at, Created: t.Created, Updated: t.Created}
	head, err := v.Store.Head(ctx, t.ID)
	if err != nil {
		return info, err
	}
	info.ID = head.Head
	found := false
	for n, err := range segno.Ancestors(ctx, v.Store, head.Head, segno.Window{}) {
		if err != nil {
			return info, err
		}
		c := n.Checkpoint
		if c == nil {
			continue // a commit without a checkpoint
		}
		if !found {
			found, info.Updated = true, c.Time
			_, err := v.writesSince(ctx, head, n.ID)
			if err == nil {
				info.ID = n.ID // as Load returns it
			} else if segno.KindOf(err) != segno.KindConflict {
				return info, err
			}
		}
		if info.Step = c.Step; info.Step != 0 {
			break
		}
	}
	return info, nil
}

// Delete implements [Saver].
func (v *StoreSaver) Delete(ctx context.Context, at ThreadKey) error {
	if err := at.check("delete"); err != nil {
		return err
	}
	ids := []segno.ThreadID{at.ID()}
	if at.Namespace == "" {
		for t, err := range v.Store.Threads(ctx, segno.ThreadQuery{ParentThread: segno.ThreadID(at.Thread)}) {
			if err != nil {
				return err
			}
			ids = append(ids, t.ID)
		}
	}
	var errs error
	for _, id := range ids {
		if err := v.Store.Delete(ctx, id); segno.KindOf(err) != segno.KindNotFound {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// Exists implements [Saver].
func (v *StoreSaver) Exists(ctx context.Context, at ThreadKey) (bool, error) {
	_, err := v.head(ctx, at)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	return err == nil, err
}

// History yields a thread's checkpoints, newest first, without their states. It includes undone
// lines. It sets q.Thread.
func (v *StoreSaver) History(ctx context.Context, at ThreadKey, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	q.Thread = at.ID()
	return v.Store.Checkpoints(ctx, q)
}

// Undo moves a thread back by n saves, Redo moves it forward again, and Restore moves it to any
// checkpoint. Each returns the snapshot there. History still lists every checkpoint.
func (v *StoreSaver) Undo(ctx context.Context, at ThreadKey, n int) (Snapshot, error) {
	return v.move(ctx, at, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: n})
}

// Redo moves a thread n saves forward; see [StoreSaver.Undo].
func (v *StoreSaver) Redo(ctx context.Context, at ThreadKey, n int) (Snapshot, error) {
	return v.move(ctx, at, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: n})
}

// Restore moves a thread to any of its checkpoints; see [StoreSaver.Undo].
func (v *StoreSaver) Restore(ctx context.Context, at ThreadKey, to segno.CommitID) (Snapshot, error) {
	return v.move(ctx, at, timeline.MoveRequest{Verb: segno.VerbRestore, To: to})
}

// Fork makes a new thread under the key that begins at a checkpoint.
func (v *StoreSaver) Fork(ctx context.Context, from segno.CommitID, to ThreadKey) (Snapshot, error) {
	if err := to.check("fork"); err != nil {
		return Snapshot{ThreadKey: to}, err
	}
	as := segno.Thread{ID: to.ID(), Created: v.now()}
	if to.Namespace != "" {
		as.ParentThread, as.Name = segno.ThreadID(to.Thread), to.Namespace
	}
	head, err := v.timeline().ForkThread(ctx, from, as, false)
	return v.arrive(ctx, to, head, err)
}

func (v *StoreSaver) timeline() *timeline.Timeline {
	return timeline.Open(timeline.Config{Store: v.Store})
}

// move moves a thread and loads the snapshot there.
func (v *StoreSaver) move(ctx context.Context, at ThreadKey, ask timeline.MoveRequest) (Snapshot, error) {
	ask.Thread, ask.Steps = at.ID(), true
	head, err := v.timeline().MoveHead(ctx, ask)
	return v.arrive(ctx, at, head, err)
}

func (v *StoreSaver) arrive(ctx context.Context, at ThreadKey, head segno.Head, err error) (Snapshot, error) {
	if err != nil {
		return Snapshot{ThreadKey: at}, err
	}
	return v.at(ctx, at, head.Head, head)
}
