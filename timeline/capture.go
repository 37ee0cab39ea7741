package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// previousPosition is where the newest capture of the turn's session ended, or nil.
func (tx *txn) previousPosition(ctx context.Context, turn OpenTurn) (*segno.Position, error) {
	if turn.Thread == "" {
		return nil, nil
	}
	last, err := tx.newestOfSession(ctx, turn.Source.Session)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Session.Leaf != "" {
		return last.Session, nil
	}
	return tx.cutAt(ctx, turn)
}

// cutAt is where a session that was cut ended then, or nil.
func (tx *txn) cutAt(ctx context.Context, turn OpenTurn) (*segno.Position, error) {
	head, _, err := tx.headAndCheckpoint(ctx, turn.Thread)
	if err != nil {
		return nil, err
	}
	l, err := tx.linkOf(ctx, head, turn.Source.Session)
	if err != nil || l == nil {
		return nil, err
	}
	return l.Position, nil
}

// captureStart is the offset in the transcript at which a turn began: where the capture
// before it ended. For a turn that is ended again that is its parent's.
func (tx *txn) captureStart(ctx context.Context, done *segno.Checkpoint, prev *segno.Position) (int64, error) {
	if done == nil || done.Session == nil || prev == nil || prev.Session != done.Session.Session {
		return offsetOf(prev), nil
	}
	parent, err := tx.checkpointWithDeferred(ctx, done.Parent)
	if err != nil || parent.Session == nil || parent.Session.Session != prev.Session {
		return 0, err
	}
	return parent.Session.Offset, nil
}

func offsetOf(p *segno.Position) int64 {
	if p == nil {
		return 0
	}
	return p.Offset
}

// capture reads what the agent wrote. Without a transcript the turn still
// counts; its session tier then ends where the one before it did.
func (tx *txn) capture(ctx context.Context, turn OpenTurn, prev *segno.Position, batch segno.Batch) (segno.Captured, error) {
	t := tx.Transcripts[turn.Agent]
	if t == nil {
		return segno.Captured{Position: segno.Position{Agent: turn.Agent, Session: turn.Source.Session, Dir: turn.Source.Dir}}, nil
	}
	known := func(leaf string) bool { return tx.isKnownLeaf(ctx, leaf) }
	got, err := t.Capture(ctx, turn.Source, prev, batch, known)
	switch segno.KindOf(err) {
	case segno.KindBusy, segno.KindCancelled:
		return got, fmt.Errorf("read transcript: %w", err)
	}
	if err == nil {
		return got, nil
	}
	// An agent killed before its first line leaves no transcript, and one that
	// cannot be read must not cost the turn its files.
	got = segno.Captured{Position: segno.Position{Agent: turn.Agent, Session: turn.Source.Session, Dir: turn.Source.Dir, Path: turn.Source.Path}}
	if prev != nil {
		got.Position = *prev
	}
	if segno.KindOf(err) != segno.KindNotFound {
		got.Damage = []segno.Damage{{Why: err.Error()}}
	}
	return got, nil
}
