package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// previousPosition returns the position at which the newest capture of the turn's session
// ended, or at which the session was cut, or nil.
func (tx *txn) previousPosition(ctx context.Context, turn OpenTurn) (*segno.Position, error) {
	if turn.Thread == "" {
		return nil, nil
	}
	last, err := tx.newest(ctx, segno.CheckpointQuery{Session: turn.Source.Session})
	if err != nil {
		return nil, err
	}
	if last != nil && last.Session.Leaf != "" {
		return last.Session, nil
	}
	s, err := tx.threadState(ctx, turn.Thread)
	if err != nil {
		return nil, err
	}
	_, l, err := tx.linksOf(ctx, s.head, turn.Source.Session)
	if err != nil || l == nil {
		return nil, err
	}
	return l.Position, nil
}

// captureStart returns the offset in the transcript at which a turn began: the previous capture
// ended there. A turn that ends again began at the end of its parent's capture.
func (tx *txn) captureStart(ctx context.Context, done *segno.Checkpoint, prev *segno.Position) (int64, error) {
	if done == nil || done.Session == nil || prev == nil || prev.Session != done.Session.Session {
		return offsetOf(prev), nil
	}
	parent, err := tx.checkpoint(ctx, done.Parent)
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

// capture reads the new records of the agent's transcript. A turn without a readable transcript
// is still recorded. Its session tier then ends at the position of the previous turn.
func (tx *txn) capture(ctx context.Context, turn OpenTurn, prev *segno.Position, batch segno.Batch) (segno.Captured, error) {
	none := segno.Captured{Position: segno.Position{Agent: turn.Agent, Session: turn.Source.Session, Dir: turn.Source.Dir}}
	t := tx.Transcripts[turn.Agent]
	if t == nil {
		return none, nil
	}
	got, err := t.Capture(ctx, turn.Source, prev, batch, tx.isKnownLeaf(ctx))
	switch segno.KindOf(err) {
	case segno.KindBusy, segno.KindCancelled:
		return got, fmt.Errorf("read transcript: %w", err)
	}
	if err == nil {
		return got, nil
	}
	// An agent killed before its first line leaves no transcript, and a transcript that
	// cannot be read must not cost the turn its files.
	none.Position.Path = turn.Source.Path
	if prev != nil {
		none.Position = *prev
	}
	if segno.KindOf(err) != segno.KindNotFound {
		none.Damage = []segno.Damage{{Why: err.Error()}}
	}
	return none, nil
}
