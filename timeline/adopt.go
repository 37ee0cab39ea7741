package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// Adoption is a session that is about to get its first turn in our sight.
type Adoption struct {
	Agent  string
	Source segno.Source
	Title  string // the first prompt, or ""
	// Name tells the session from an earlier one of the same id, for an agent that
	// gives an id twice; "" if it does not.
	Name string
	// Earlier are the session's turns so far, oldest first, as its agent shows them. They
	// count only for an agent without a transcript; their positions need not be set.
	Earlier []segno.TranscriptTurn
}

// AdoptSession returns the thread of a session. If the session has none, AdoptSession makes
// it, with the earlier turns of the session if the agent keeps a transcript. The proxy
// calls it before the first prompt, so that it can lease the thread. Hooks need not call
// it: the first EndTurn makes the thread.
func (tl *Timeline) AdoptSession(ctx context.Context, o Adoption) (segno.ThreadID, error) {
	if o.Source.Session == "" {
		return "", segno.Errorf(segno.KindInvalid, "open thread", "", "it needs a session")
	}
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return "", err
	}
	defer tx.unlock()
	thread, err := tx.knownThread(ctx, o)
	if err != nil {
		return "", err
	}
	if thread != "" {
		half, err := tx.isHalfAdopted(ctx, thread, o)
		if err != nil || !half {
			return thread, err
		}
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	snap, err := tx.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return "", fmt.Errorf("snapshot workspace: %w", err)
	}
	turn := OpenTurn{Agent: o.Agent, Source: o.Source, Workspace: tx.Workspace.ID(), Prompt: o.Title, Before: &snap, Start: tx.Now()}
	got, err := tx.capture(ctx, turn, nil, batch)
	if err != nil {
		return "", err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return "", fmt.Errorf("stage snapshot: %w", err)
	}
	if tx.Transcripts[o.Agent] == nil && len(o.Earlier) > 0 {
		turn.Prompt = o.Earlier[0].Prompt
		for _, t := range o.Earlier {
			t.Position = got.Position
			got.Earlier = append(got.Earlier, t)
		}
	}
	if got.Prompt != "" { // its newest turn is over, too
		got.Earlier = append(got.Earlier, segno.TranscriptTurn{Key: got.Key, Prompt: got.Text, Position: got.Position})
		if turn.Prompt = got.Earlier[0].Prompt; got.Origin != nil {
			turn.Prompt = o.Title
		}
	}
	head, _, err := tx.startThread(ctx, &turnEnd{turn: turn, after: snap, got: got, staged: staged, name: o.Name})
	if err != nil {
		return "", fmt.Errorf("start thread: %w", err)
	}
	return head.Thread, nil
}

// knownThread returns the thread that an opening made before, or "".
func (tx *txn) knownThread(ctx context.Context, o Adoption) (segno.ThreadID, error) {
	if o.Name == "" {
		return tx.threadWithDeferred(ctx, o.Source.Session)
	}
	thread := threadOfSession(o.Agent, o.Source.Session, o.Name)
	_, _, err := tx.headAndCheckpoint(ctx, thread)
	if segno.KindOf(err) == segno.KindNotFound {
		return "", nil
	}
	return thread, err
}

// isHalfAdopted reports whether an adoption was interrupted before it had recorded all
// turns of its session. Only the last commit of an adoption pins the files.
func (tx *txn) isHalfAdopted(ctx context.Context, thread segno.ThreadID, o Adoption) (bool, error) {
	if thread != threadOfSession(o.Agent, o.Source.Session, o.Name) || slices.ContainsFunc(tx.queue.waiting, func(c segno.Commit) bool { return c.Thread == thread }) {
		return false, nil
	}
	newest, err := tx.first(ctx, segno.CheckpointQuery{Thread: thread})
	return newest != nil && newest.Workspace == nil, err
}

// JoinSession makes a session the head session of a thread. It is durable on return.
func (tl *Timeline) JoinSession(ctx context.Context, thread segno.ThreadID, link segno.Link) error {
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	head, _, err := tx.headAndCheckpoint(ctx, thread)
	if err != nil {
		return err
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Expect: head.Head, Epoch: head.Epoch, Link: &link}
	if _, _, err := tx.commitOrDefer(ctx, head, c); err != nil {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

// UpdateTurn edits the record of an open turn, for example when the turn continues in
// another session or process. The edit is durable on return. A turn that is not open is
// left alone.
func (tl *Timeline) UpdateTurn(ctx context.Context, key segno.TurnKey, edit func(*OpenTurn)) error {
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Key == key {
			edit(&t)
			return tx.Spool.Open(ctx, t)
		}
	}
	return nil
}

// PromptState reports whether the agent's transcript has the prompt of an open turn,
// and whether there is a transcript to tell: a prompt that never reached it may be
// sent again.
func (tl *Timeline) PromptState(ctx context.Context, key segno.TurnKey) (reached, told bool, err error) {
	tx := tl.begin()
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return false, false, err
	}
	for _, t := range turns {
		if t.Key != key || tx.Transcripts[t.Agent] == nil {
			continue
		}
		prev, err := tx.previousPosition(ctx, t)
		if err != nil {
			return false, false, err
		}
		batch := tx.Store.Objects().Batch()
		defer batch.Close()
		known := func(leaf string) bool { return tx.isKnownLeaf(ctx, leaf) }
		got, err := tx.Transcripts[t.Agent].Capture(ctx, t.Source, prev, batch, known)
		if segno.KindOf(err) == segno.KindNotFound {
			return false, true, nil
		}
		return got.Prompt != "", err == nil, err
	}
	return false, false, nil
}

// TurnChanges lists the paths of the workspace that were changed since an open turn began,
// by the turn or by another author.
func (tl *Timeline) TurnChanges(ctx context.Context, key segno.TurnKey) ([]string, error) {
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	turns, err := tx.Spool.Turns(ctx)
	at := slices.IndexFunc(turns, func(t OpenTurn) bool { return t.Key == key && t.Before != nil })
	if err != nil || at < 0 {
		return nil, err
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	now, err := tx.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage snapshot: %w", err)
	}
	if err := tx.keepStaged(ctx, staged); err != nil {
		return nil, fmt.Errorf("keep snapshot: %w", err)
	}
	changes, err := tx.Workspace.Diff(ctx, turns[at].Before.Tree, now.Tree)
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths, err
}
