package segnoeino

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/cloudwego/eino/compose"
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/timeline"
)

// Checkpoints is a [compose.CheckPointStore] on a store of segno. A checkpoint id is the id of a
// thread, and each Set makes a version: a checkpoint of the thread. All methods may be called
// concurrently.
//
// Eino's interface has no version. Outside of [Invoke] and [Stream], Set therefore follows the newest version
// that a Get returned and that no Set has followed, unless the context of that Get has ended. If another writer made a newer version
// meanwhile, Set returns [segno.KindConflict] and writes nothing. A Set without a Get, as of a run
// that ignores the old checkpoint, follows the newest version of the thread.
type Checkpoints struct {
	// Timeline adds the files of a directory to the versions of [Invoke] and [Stream], and to Undo, Redo and Restore.
	// Set it before the first call. [agent.OpenTimeline] makes it.
	Timeline *timeline.Timeline

	saver *saver.StoreSaver

	mu    sync.Mutex
	reads map[string][]read // by checkpoint id: versions that Get returned, oldest first
}

// read is a version that Get returned to a run.
type read struct {
	version segno.CommitID  // "" if there was none
	over    <-chan struct{} // closed when the run has ended, as far as its context shows that; nil if it never ends
}

// isOver reports whether the run has ended. Eino writes nothing for a run that completed or failed.
func (r read) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

var _ compose.CheckPointStore = (*Checkpoints)(nil)

// New returns the checkpoints in a store. The caller closes the store.
func New(store segno.Store) *Checkpoints {
	return &Checkpoints{saver: saver.New(store), reads: map[string][]read{}}
}

// valueCheckpoint is the name of the state value with Eino's checkpoint.
const valueCheckpoint = "eino.checkpoint"

// encoded is the form of a checkpoint in the state of a thread. A graph's checkpoint is JSON, which
// is smaller and readable as a text; that of an agent is binary.
type encoded struct {
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
}

func encode(checkpoint []byte) (json.RawMessage, error) {
	e := encoded{Data: checkpoint}
	if utf8.Valid(checkpoint) {
		e = encoded{Text: string(checkpoint)}
	}
	return segno.Encode(e)
}

// decode returns nil if there is no checkpoint.
func decode(thread string, value json.RawMessage) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	var e encoded
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read checkpoint", thread, err)
	}
	if e.Data != nil {
		return e.Data, nil
	}
	return []byte(e.Text), nil
}

// Get implements [compose.CheckPointStore].
func (c *Checkpoints) Get(ctx context.Context, id string) ([]byte, bool, error) {
	if r := runOf(ctx, id); r != nil {
		checkpoint := r.loaded()
		return checkpoint, checkpoint != nil, nil
	}
	s, err := c.saver.Load(ctx, saver.ThreadKey{Thread: id})
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return nil, false, err
	}
	checkpoint, err := decode(id, s.State[valueCheckpoint])
	if err != nil {
		return nil, false, err
	}
	c.addRead(id, read{s.ID, ctx.Done()})
	return checkpoint, checkpoint != nil, nil
}

// Set implements [compose.CheckPointStore].
func (c *Checkpoints) Set(ctx context.Context, id string, checkpoint []byte) error {
	value, err := encode(checkpoint)
	if err != nil {
		return err
	}
	if r := runOf(ctx, id); r != nil {
		return r.save(ctx, checkpoint, value)
	}
	return c.setVersion(ctx, id, value)
}

// Delete removes the checkpoint from the newest version of a thread, so that the next run begins
// again. Older versions stay in the history. Eino's agents call it when they complete.
func (c *Checkpoints) Delete(ctx context.Context, id string) error {
	s, err := c.saver.Load(ctx, saver.ThreadKey{Thread: id})
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	// The run that read this version has ended without a Set. A later Set must not follow its version.
	c.forgetRead(id, s.ID)
	if _, found := s.State[valueCheckpoint]; !found {
		return nil
	}
	delete(s.State, valueCheckpoint)
	_, err = c.saver.Save(ctx, s)
	return err
}

// setVersion saves a new version of a thread that follows the version which the caller read.
func (c *Checkpoints) setVersion(ctx context.Context, id string, value json.RawMessage) error {
	key := saver.ThreadKey{Thread: id}
	version, hasRead := c.takeRead(id)
	s := saver.Snapshot{ThreadKey: key}
	if !hasRead || version != "" {
		var err error
		if s, err = c.saver.At(ctx, key, version); err != nil && (segno.KindOf(err) != segno.KindNotFound || hasRead) {
			return err
		}
	}
	if s.State == nil {
		s.State = map[string]json.RawMessage{}
	}
	s.State[valueCheckpoint] = value
	_, err := c.saver.Save(ctx, s)
	return err
}

// maxReads limits the reads that are remembered for one thread: runs that complete never write.
const maxReads = 64

func (c *Checkpoints) addRead(id string, r read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(slices.DeleteFunc(c.reads[id], read.isOver), r)
	c.reads[id] = all[max(0, len(all)-maxReads):]
}

func (c *Checkpoints) takeRead(id string) (version segno.CommitID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.DeleteFunc(c.reads[id], read.isOver)
	last := len(all) - 1
	if last <= 0 {
		delete(c.reads, id)
	} else {
		c.reads[id] = all[:last]
	}
	if last < 0 {
		return "", false
	}
	return all[last].version, true
}

// forgetRead forgets the newest read if it returned this version.
func (c *Checkpoints) forgetRead(id string, version segno.CommitID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.reads[id]
	last := len(all) - 1
	if last < 0 || all[last].version != version {
		return
	}
	if c.reads[id] = all[:last]; last == 0 {
		delete(c.reads, id)
	}
}

// Answers returns the same answer to all open questions of a thread, for [Call.Resume]. A question that was answered is open
// until the step of its node is saved: if the node fails or crashes, it needs the answer again.
func (c *Checkpoints) Answers(ctx context.Context, thread string, answer any) (map[string]any, error) {
	s, err := c.saver.Load(ctx, saver.ThreadKey{Thread: thread})
	if err != nil {
		return nil, err
	}
	all := make(map[string]any, len(s.Interrupts))
	for _, i := range s.Interrupts {
		all[i.ID] = answer
	}
	for n, err := range segno.Ancestors(ctx, c.saver.Store, s.ID, segno.Window{Entries: true}) {
		if err != nil {
			return nil, err
		}
		if n.Checkpoint != nil {
			break
		}
		for _, e := range n.Entries {
			if e.Kind == segno.EntryDecision {
				all[e.ID] = answer
			}
		}
	}
	return all, nil
}

// History yields the versions of a thread, newest first, also those that were undone.
func (c *Checkpoints) History(ctx context.Context, thread string) iter.Seq2[segno.Checkpoint, error] {
	return c.saver.History(ctx, saver.ThreadKey{Thread: thread}, segno.CheckpointQuery{})
}

// Undo moves a thread, and its files, back by n versions. The next run continues there. Redo moves it forward again.
func (c *Checkpoints) Undo(ctx context.Context, thread string, n int) error {
	return c.move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Thread: segno.ThreadID(thread), Turns: n})
}

// Redo moves a thread n versions forward after Undo.
func (c *Checkpoints) Redo(ctx context.Context, thread string, n int) error {
	return c.move(ctx, timeline.MoveRequest{Verb: segno.VerbRedo, Thread: segno.ThreadID(thread), Turns: n})
}

// Restore moves a thread, and its files, to any of its versions.
func (c *Checkpoints) Restore(ctx context.Context, thread string, version segno.CommitID) error {
	return c.move(ctx, timeline.MoveRequest{Verb: segno.VerbRestore, Thread: segno.ThreadID(thread), To: version})
}

func (c *Checkpoints) move(ctx context.Context, ask timeline.MoveRequest) error {
	ask.Steps = true
	tl := c.Timeline
	if tl == nil {
		tl = timeline.Open(timeline.Config{Store: c.saver.Store})
	}
	_, err := tl.Move(ctx, ask, nil)
	return err
}

// Fork makes a new thread that begins at a version of another one. A run of the new thread continues
// there, and the two threads are independent.
func (c *Checkpoints) Fork(ctx context.Context, version segno.CommitID, thread string) error {
	_, err := c.saver.Fork(ctx, version, saver.ThreadKey{Thread: thread})
	return err
}
