package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
)

// ForkResult is a thread that was made from a checkpoint of another one.
type ForkResult struct {
	Thread segno.ThreadID
	At     *segno.Checkpoint // its first checkpoint
	From   *segno.Checkpoint
	Report segno.ForkReport
	Dir    string // the directory of its session: Report.Root or a subdirectory of it, like the source's
	Link   *segno.Link
	Run    []string
	Chat   string // why no session continues the conversation, or ""
}

// Fork makes a thread that begins at a checkpoint, in a new directory with its files or on the same
// files. It cuts the session of the new thread there, or uses the session in ask. It only reads the
// source.
func (tl *Timeline) Fork(ctx context.Context, ask MoveRequest) (*ForkResult, error) {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if err := tx.refuseRepeated(ctx, ask); err != nil {
		return nil, err
	}
	x, err := tx.checkpoint(ctx, ask.To)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Store.Head(ctx, x.Thread); err != nil {
		return nil, err // the thread was deleted
	}
	f := &ForkResult{From: x, Thread: segno.ThreadID(segno.NewID()), Report: segno.ForkReport{Root: tx.Workspace.Root(), How: "none"}, Link: ask.Link}
	if err := tx.forkTiers(ctx, ask, f); err != nil {
		return nil, err
	}
	source := segno.Pointers{Head: x.ID, Tip: x.ID, Tree: x.Tree()}
	op := &segno.Operation{ID: ask.operation(), Workspace: tx.Workspace.ID(), Thread: x.Thread, Verb: segno.VerbFork, Actor: tx.Actor,
		Args: strings.TrimSuffix(fmt.Sprintf("%s --to %s", ask.name(), ask.Dir), " --to "), Time: tx.Now(), Before: source, After: source, Forked: f.Thread}
	if err := tx.commitFork(ctx, ask, f, op, ask.Dir != ""); err != nil {
		return nil, err
	}
	if f.Link != nil && tx.Transcripts[f.Link.Agent] != nil {
		f.Run = tx.resumeCommand(f.Link)
	}
	f.At, err = tx.checkpoint(ctx, baseID(f.Thread))
	return f, err
}

// forkTiers copies the files of a fork's checkpoint, if the fork has a new directory, and cuts
// its conversation.
func (tx *txn) forkTiers(ctx context.Context, ask MoveRequest, f *ForkResult) (err error) {
	x := f.From
	if ask.Dir != "" {
		if x.Workspace == nil {
			return segno.Errorf(segno.KindNotFound, "fork", string(x.ID), "the checkpoint has no files").
				WithHint("fork at a turn with files, or only the conversation: 'segno fork --chat'")
		}
		if err := tx.refuseUntrustedFork(ctx, ask.Verb, x); err != nil {
			return err
		}
		if f.Report, err = tx.Workspace.Fork(ctx, *x.Workspace, ask.Dir); err != nil {
			return err
		}
	}
	return tx.forkSession(ctx, ask, f)
}

// forkSession cuts the conversation of a fork.
func (tx *txn) forkSession(ctx context.Context, ask MoveRequest, f *ForkResult) (err error) {
	x := f.From
	if f.Dir, err = tx.sessionDir(ctx, x, f.Report.Root); err != nil || f.Link != nil || x.Session == nil || x.Session.Agent == "" {
		return err
	}
	// Never reuse a session that already ends there, because it stays with the source.
	f.Link, err = tx.cutSession(ctx, *x.Session, f.Dir, string(segno.VerbFork), ask.Dir == "")
	var none noSession
	if errors.As(err, &none) {
		f.Chat, err = none.at(x), nil
	}
	if err != nil {
		return segno.Errorf(segno.KindOf(err), "fork", f.Report.Root, "the files are there, but the conversation could not be cut: %w", err).
			WithHint("fork at another turn, or start the agent again in that directory")
	}
	return nil
}

// ForkNote returns the note that the agent of a fork in another directory gets once.
func ForkNote(from, to string) string {
	return fmt.Sprintf("Note from segno: you are now working in a fork of this project at %s. Paths under %s in the conversation so far mean the same files under %s; do not touch the original.", to, from, to)
}

// commitFork makes the thread of a fork. If takesDir is set, that thread becomes the one that works
// in its directory.
func (tx *txn) commitFork(ctx context.Context, ask MoveRequest, f *ForkResult, op *segno.Operation, takesDir bool) error {
	ws, err := tx.Register(ctx, f.Report.Root)
	if err != nil {
		return err
	}
	var snap *segno.Snapshot
	if f.From.Workspace != nil {
		there := *f.From.Workspace
		there.Workspace, there.Root, snap = ws.ID, ws.Path, &there
	}
	c := tx.baseCommit(f.Thread, f.From.Agent, cmp.Or(ask.Title, f.From.Prompt), snap, tx.Now())
	c.Parent, c.Create.Parent, c.Create.Workspace = f.From.ID, f.From.ID, ws.ID
	if c.Workspace != nil {
		c.Workspace.Workspace = ws.ID
	}
	if !takesDir {
		c.Workspace = nil // the state of the workspace does not change
	}
	c.Checkpoint.Session, c.Checkpoint.Turn = f.From.Session, f.From.Turn
	if f.Link != nil {
		f.Link.At = f.From.ID
		if !ask.NoNote && ask.Dir != "" {
			root, _, err := tx.workspaceOf(ctx, f.From.Session.Dir, f.From)
			if err != nil {
				return err
			}
			f.Link.Note = strings.TrimPrefix(f.Link.Note+"\n\n"+ForkNote(root, ws.Path), "\n\n")
		}
		c.Link = f.Link
	}
	c.Operation = op
	if _, err := tx.commitRetryingCAS(ctx, c); err != nil {
		return fmt.Errorf("commit fork: %w", err)
	}
	return nil
}
