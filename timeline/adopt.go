package timeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Adoption describes a session that began before segno recorded its turns.
type Adoption struct {
	Agent  string
	Source segno.Source
	Title  string // the first prompt, or ""
	// Name distinguishes the session from an earlier one with the same id. Only agents that reuse
	// ids need it; it is "" for other agents.
	Name string
	// Earlier are the turns of the session so far, oldest first, as its agent shows them. If the
	// agent also keeps a readable transcript, AdoptSession only uses their entries. Their
	// positions may be zero.
	Earlier []segno.TranscriptTurn
}

// AdoptSession returns the thread of a session. If the session has none, AdoptSession makes one,
// with the earlier turns of the session if the agent keeps a transcript. The proxy calls it
// before the first prompt, so that it can lease the thread. Hooks need not call it: the first
// EndTurn makes the thread.
func (tl *Timeline) AdoptSession(ctx context.Context, o Adoption) (segno.ThreadID, error) {
	if o.Source.Session == "" {
		return "", segno.Errorf(segno.KindInvalid, "open thread", "", "it needs a session")
	}
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return "", err
	}
	defer tx.unlock()
	thread, err := tx.adoptedThread(ctx, o)
	if err != nil || thread != "" {
		return thread, err
	}
	w := &turnEnd{name: o.Name, batch: tx.Store.Objects().Batch()}
	defer w.batch.Close()
	if w.after, err = tx.Workspace.Snapshot(ctx, w.batch); err != nil {
		return "", fmt.Errorf("snapshot workspace: %w", err)
	}
	w.turn = OpenTurn{Agent: o.Agent, Source: o.Source, Workspace: tx.Workspace.ID(), Prompt: o.Title, Before: &w.after, Start: tx.Now()}
	if w.got, err = tx.capture(ctx, w.turn, nil, w.batch); err != nil {
		return "", err
	}
	if w.staged, err = w.batch.Stage(ctx); err != nil {
		return "", fmt.Errorf("stage snapshot: %w", err)
	}
	if got := &w.got; got.Position.Leaf == "" && len(o.Earlier) > 0 {
		w.turn.Prompt = o.Earlier[0].Prompt
		for _, t := range o.Earlier {
			t.Position = got.Position
			got.Earlier = append(got.Earlier, t)
		}
	} else if got.Prompt != "" { // the newest turn of the session is over, too
		got.Earlier = append(got.Earlier, segno.TranscriptTurn{Key: got.Key, Prompt: got.Text, Position: got.Position})
		if got.Origin == nil {
			w.turn.Prompt = got.Earlier[0].Prompt
		}
		addEntries(got.Earlier, o.Earlier)
	}
	begun, err := tx.startThread(ctx, w)
	if err != nil {
		return "", fmt.Errorf("start thread: %w", err)
	}
	return begun.head.Thread, nil
}

// addEntries adds the entries of the turns that the agent showed to the same turns as read from a
// transcript. Turns are the same if they have the same prompt and order. addEntries compares the
// newest ones first, because an agent may leave out old ones.
func addEntries(turns, shown []segno.TranscriptTurn) {
	words := func(t segno.TranscriptTurn) string { return strings.Join(strings.Fields(t.Prompt), " ") }
	for i := range slices.Backward(turns) {
		for j, t := range slices.Backward(shown) {
			if words(t) == words(turns[i]) {
				turns[i].Entries, shown = t.Entries, shown[:j]
				break
			}
		}
	}
}

// adoptedThread returns the thread that an earlier call made, or "". That call may have been
// interrupted before it had recorded all turns of its session. adoptedThread returns "" for such
// a thread, so that this adoption completes it. Only the last commit of an adoption pins the
// files, so a thread without them is incomplete.
func (tx *txn) adoptedThread(ctx context.Context, o Adoption) (thread segno.ThreadID, err error) {
	first := threadOfSession(o.Agent, o.Source.Session, o.Name)
	if o.Name == "" {
		thread, err = tx.threadOf(ctx, o.Source.Session)
	} else if _, err = tx.threadState(ctx, first); err == nil {
		thread = first
	} else if segno.KindOf(err) == segno.KindNotFound {
		return "", nil
	}
	if err != nil || thread != first || tx.hasWaiting(thread) {
		return thread, err
	}
	newest, err := tx.newest(ctx, segno.CheckpointQuery{Thread: thread})
	if newest != nil && newest.Workspace == nil {
		thread = ""
	}
	return thread, err
}

// JoinSession makes a session the head session of a thread. It is durable on return.
func (tl *Timeline) JoinSession(ctx context.Context, thread segno.ThreadID, link segno.Link) error {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	s, err := tx.threadState(ctx, thread)
	if err != nil {
		return err
	}
	c := newCommit(s.head)
	c.Link = &link
	if _, err := tx.commitOrDefer(ctx, s.head, c); err != nil {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

// UpdateTurn edits the record of an open turn, for example when the turn continues in another
// session or process. The edit is durable on return. If the turn is not open, UpdateTurn does
// nothing.
func (tl *Timeline) UpdateTurn(ctx context.Context, key segno.TurnKey, edit func(*OpenTurn)) error {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	t, open := tx.openTurn(key)
	if !open {
		return nil
	}
	edit(&t)
	return tx.Spool.SaveTurn(ctx, t)
}

// PromptState reports whether the agent's transcript has the prompt of an open turn, and whether
// there is a transcript that shows this. The caller may send a prompt again if it never reached
// the transcript.
func (tl *Timeline) PromptState(ctx context.Context, key segno.TurnKey) (reached, told bool, err error) {
	tx := tl.unlocked()
	if err := tx.loadTurns(ctx); err != nil {
		return false, false, err
	}
	t, _ := tx.openTurn(key)
	transcript := tx.Transcripts[t.Agent]
	if transcript == nil {
		return false, false, nil
	}
	prev, err := tx.previousPosition(ctx, t)
	if err != nil {
		return false, false, err
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	got, err := transcript.Capture(ctx, t.Source, prev, batch, tx.isKnownLeaf(ctx))
	if segno.KindOf(err) == segno.KindNotFound {
		return false, true, nil
	}
	return got.Prompt != "", err == nil, err
}

// TurnChanges lists the paths of the workspace that the turn or another author changed since an
// open turn began.
func (tl *Timeline) TurnChanges(ctx context.Context, key segno.TurnKey) (paths []string, err error) {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	t, _ := tx.openTurn(key)
	if t.Before == nil {
		return nil, nil
	}
	now, staged, err := tx.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if err := tx.keepStaged(ctx, staged); err != nil {
		return nil, fmt.Errorf("keep snapshot: %w", err)
	}
	changes, err := tx.diff(ctx, t.Before.Tree, now.Tree)
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths, err
}
