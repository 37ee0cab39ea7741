package timeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

const opHeal = "heal session"

// Healed has the damage that [Timeline.HealSession] found, and the copy without it.
type Healed struct {
	transcript.Diagnosis                // if it has no findings, HealSession wrote nothing
	To                   segno.Source   // the repaired copy; it has no session if HealSession wrote none
	Thread               segno.ThreadID // the thread of the session, or ""
	Run                  []string       // the command that continues the copy
}

// HealSession writes a repaired copy of a session under a new id. If the session belongs to a
// thread, the copy becomes the next session of the thread's chain. The copy's first prompt tells the
// agent once which files changed in turns that lost the result of a tool call, if the timeline has
// the workspace. HealSession refuses a session that a process has open. It writes nothing if the agent
// would not continue the copy. The damaged session stays as it is.
func (tl *Timeline) HealSession(ctx context.Context, r KeepRequest, o transcript.LintOptions) (h Healed, err error) {
	if tl.Workspace != nil {
		// If the agent was killed in a turn, the turn is still open. Close it, because its files are compared below.
		if err := tl.CloseAbandonedTurns(ctx); err != nil {
			return h, err
		}
	}
	tx, err := tl.lockSessions(ctx)
	if err != nil {
		return h, err
	}
	defer tx.unlock()
	if err := tx.checkIdle(ctx, opHeal, r); err != nil {
		return h, err
	}
	linter, ok := tx.Transcripts[r.Agent].(transcript.Linter)
	if !ok {
		return h, segno.Errorf(segno.KindNotFound, opHeal, r.Agent, "sessions of that agent cannot be checked")
	}
	k := &keeping{KeepRequest: r}
	if err := tx.findKept(ctx, k); err != nil {
		return h, err
	}
	h.Thread = k.thread
	h.To, h.Diagnosis, err = linter.Repair(ctx, r.Source, segno.Target{Session: newSession(), Dir: r.Source.Dir}, o)
	if err != nil || h.To.Session == "" {
		return h, err
	}
	h.Run = tx.Transcripts[r.Agent].Resume(h.To)
	return h, tx.linkHealed(ctx, k, h)
}

// linkHealed records a repaired copy as a session of its thread.
func (tx *txn) linkHealed(ctx context.Context, k *keeping, h Healed) error {
	if k.thread == "" {
		return nil
	}
	s, err := tx.threadState(ctx, k.thread)
	if err != nil {
		return err
	}
	link := segno.Link{Agent: k.Agent, Session: h.To.Session, Dir: h.To.Dir, Path: h.To.Path, Start: tx.Now(), Reason: "heal",
		Fidelity: segno.FidelityRebuilt, Detached: s.head.Link.Session != k.Source.Session}
	if k.last != nil {
		link.At = k.last.ID
	}
	if link.Position, err = tx.captureHealed(ctx, k, h.To); err != nil {
		return fmt.Errorf("read the repaired session: %w", err)
	}
	if link.Note, err = tx.lostCallsNote(ctx, k.thread, h.Findings); err != nil {
		return err
	}
	return tx.commitLink(ctx, s.head, &link)
}

// captureHealed stores a repaired copy, so that its next turn stores only new records.
func (tx *txn) captureHealed(ctx context.Context, k *keeping, to segno.Source) (*segno.Position, error) {
	t, objects := tx.Transcripts[k.Agent], tx.Store.Objects()
	batch := objects.Batch()
	defer batch.Close()
	var at segno.Position
	var err error
	if k.prev != nil {
		at, err = t.CaptureCut(ctx, to, *k.prev, objects, batch)
	} else {
		var got segno.Captured
		got, err = t.Capture(ctx, to, nil, batch, func(string) bool { return false })
		at = got.Position
	}
	if err != nil {
		return nil, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, err
	}
	return &at, tx.keepStaged(ctx, staged)
}

// lostCallsNote returns the note for the agent about files that changed in turns with a tool call
// whose result was lost, or "".
func (tx *txn) lostCallsNote(ctx context.Context, thread segno.ThreadID, findings []transcript.Finding) (string, error) {
	if tx.Workspace == nil {
		return "", nil
	}
	lost := map[segno.TurnKey]bool{}
	for _, f := range findings {
		lost[f.Turn] = f.Turn != ""
	}
	var parts []string
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err != nil {
			return "", err
		}
		if !endsTurn(&c) || !lost[c.Key] || len(parts) == maxLostTurns {
			continue
		}
		lost[c.Key] = false // an amendment has the same key
		line, err := tx.line(ctx, c.ID)
		if err != nil {
			return "", err
		}
		before := newestTree(line[1+countParts(&c, line[1:]):])
		if before.IsZero() || c.Tree().IsZero() {
			continue
		}
		changes, err := tx.diff(ctx, before, c.Tree())
		if err != nil {
			return "", err
		}
		if len(changes) > 0 {
			parts = append(parts, fmt.Sprintf("in turn %d (“%s”): %s", c.Turn, Title(c.Prompt), changeList(changes)))
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	return "Note from segno: the result of a tool call was lost from this conversation, but the tool had run. These files changed " +
		strings.Join(parts, "; ") + ". Re-read them before you rely on them, and do not repeat the call without need.", nil
}

const (
	maxLostTurns   = 3  // the turns in a note
	maxLostChanges = 10 // the changes of each turn in a note
)

// changeList returns a text with the names of changed files.
func changeList(changes []segno.Change) string {
	var names []string
	for _, c := range changes[:min(len(changes), maxLostChanges)] {
		how := "changed"
		switch {
		case c.From.Type == "":
			how = "added"
		case c.To.Type == "":
			how = "deleted"
		}
		names = append(names, fmt.Sprintf("%s (%s)", segno.QuotePath(c.Path), how))
	}
	if more := len(changes) - maxLostChanges; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
