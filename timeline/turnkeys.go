package timeline

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// turnKeys are the keys of the turns that one call takes from a transcript. Claude Code gives a message that the user queued
// while hooks ran at the end of a turn the id of that turn, so two turns can have the same id. The commit of a turn is named
// after its key.
type turnKeys map[segno.TurnKey]bool

// choose returns the key of a turn, which is byNumber if the agent gave it none. If another turn has the key, the key also
// names the record at which the turn ends, if that is known. It depends on the transcript only, so that a repeated call makes the same commit.
func (used turnKeys) choose(t segno.TranscriptTurn, byNumber string, isTaken bool) segno.TurnKey {
	key := cmp.Or(t.Key, segno.TurnKey(byNumber))
	if isTaken || used[key] {
		key = segno.TurnKey(fmt.Sprintf("%s/%s", key, cmp.Or(t.Position.Leaf, byNumber)))
	}
	used[key] = true
	return key
}

// recordedTurn returns the checkpoint of a turn that a thread has already, or nil. isTaken is set if another turn of the thread
// has the turn's key. after is the end of the turn before. The same turn may have been recorded at an earlier record of it.
func (tx *txn) recordedTurn(ctx context.Context, thread segno.ThreadID, t segno.TranscriptTurn, after int64) (found *segno.Checkpoint, isTaken bool, err error) {
	if found, err = tx.turnIn(ctx, thread, t.Position.Leaf); found != nil || err != nil || t.Key == "" {
		return found, false, err
	}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread, Key: t.Key}) {
		if err != nil {
			return nil, false, err
		}
		isTaken = true
		if p := c.Session; p != nil && p.Session == t.Position.Session && p.Offset > after && p.Offset <= t.Position.Offset {
			return &c, true, nil
		}
	}
	return nil, isTaken, nil
}
