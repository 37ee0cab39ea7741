package saver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
)

// Write is one value that a branch of a parallel step produced.
type Write struct {
	Name  string          `json:"name"` // the program's name for it: a key, a channel
	Value json.RawMessage `json:"value"`
}

// noteWrites is the name of a note with the writes of a branch. Its id is the branch.
const noteWrites = "branch-writes"

// SaveWrites keeps the writes of one branch of the step that follows s. If another branch fails,
// Load returns the writes of the branches that succeeded in [Snapshot.Writes]. The step can then
// resume with them and run only the other branches. The next Save of the thread ends
// the step: the writes do not belong to its checkpoint.
//
// Branches may call SaveWrites concurrently, with the same s. The writes are durable on return; see
// [StoreSaver.Durability]. Saving the same writes of a branch again, as a retry does, changes nothing.
// The error is [segno.KindConflict] if the branch was saved with other writes, or if another writer
// has ended the step.
func (v *StoreSaver) SaveWrites(ctx context.Context, s Snapshot, branch string, writes ...Write) error {
	const op = "save writes"
	if err := s.check(op); err != nil {
		return err
	}
	switch {
	case branch == "":
		return segno.Errorf(segno.KindInvalid, op, s.Thread, "the branch has no name")
	case s.ID == "":
		return segno.Errorf(segno.KindInvalid, op, s.Thread, "the step follows no checkpoint").WithHint("save the thread before its first parallel step")
	case s.Aside:
		return segno.Errorf(segno.KindInvalid, op, s.Thread, "the snapshot is beside the thread's head").WithHint("fork the thread for parallel steps")
	}
	body, err := encodeWrites(s, writes)
	if err != nil {
		return err
	}
	head, err := v.Store.Head(ctx, s.ThreadKey.ID())
	for err == nil {
		var kept map[string]json.RawMessage
		if kept, err = v.writesSince(ctx, head, s.ID); err != nil {
			return err
		}
		if had, ok := kept[branch]; ok {
			if bytes.Equal(had, body) {
				return nil
			}
			return segno.Errorf(segno.KindConflict, op, branch, "the branch was saved with other writes").WithHint("load the thread and use the writes that it has")
		}
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
			Entries: []segno.Entry{{Kind: segno.EntryNote, Name: noteWrites, ID: branch, Time: v.now(), Body: body}}}
		_, err = v.commit(ctx, c)
		var late *segno.ConflictError
		if !errors.As(err, &late) || late.Actual.Head == c.Expect {
			return err
		}
		head, err = late.Actual, nil // perhaps another branch
	}
	return err
}

func encodeWrites(s Snapshot, writes []Write) (json.RawMessage, error) {
	writes = slices.Clone(writes)
	for i := range writes {
		if len(writes[i].Value) == 0 {
			writes[i].Value = json.RawMessage("null")
		}
		if !json.Valid(writes[i].Value) {
			return nil, segno.Errorf(segno.KindInvalid, "save writes", s.Thread, "the write %q is not JSON", writes[i].Name)
		}
	}
	return segno.Encode(writes)
}

// isWrites reports whether a commit contains only writes of branches.
func isWrites(n *segno.Node) bool {
	isNote := func(e segno.Entry) bool { return e.Kind == segno.EntryNote && e.Name == noteWrites }
	return n.Checkpoint == nil && len(n.Entries) > 0 && !slices.ContainsFunc(n.Entries, func(e segno.Entry) bool { return !isNote(e) })
}

// writesSince returns the bodies of the writes that follow a checkpoint, by branch. The error is a
// [segno.ConflictError] with the head if any other commit follows the checkpoint on the line of the
// head, or if the checkpoint is not on that line.
func (v *StoreSaver) writesSince(ctx context.Context, head segno.Head, id segno.CommitID) (map[string]json.RawMessage, error) {
	conflict := segno.NewError(segno.KindConflict, "save writes", string(head.Thread), &segno.ConflictError{Actual: head}).WithHint("load it again")
	if head.Head == id {
		return nil, nil
	}
	kept := map[string]json.RawMessage{}
	for last := 16; ; last *= 4 {
		line, err := v.Store.Load(ctx, head.Head, segno.Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		for i := range slices.Backward(line.Commits) {
			n := &line.Commits[i]
			if n.ID == id {
				return kept, nil
			}
			if !isWrites(n) {
				return nil, conflict
			}
			for _, e := range n.Entries {
				kept[e.ID] = e.Body
			}
		}
		if len(line.Commits) < last {
			return nil, conflict
		}
	}
}

// decodeWrites decodes the writes that writesSince returns.
func decodeWrites(at ThreadKey, kept map[string]json.RawMessage) (map[string][]Write, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	writes := make(map[string][]Write, len(kept))
	for branch, body := range kept {
		var all []Write
		if err := json.Unmarshal(body, &all); err != nil {
			return nil, segno.NewError(segno.KindCorrupt, "read writes", branch+" of "+at.Thread, err)
		}
		writes[branch] = all
	}
	return writes, nil
}
