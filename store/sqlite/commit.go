package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// written is a commit worked out as far as it goes without the database.
type written struct {
	segno.Commit
	digest     []byte
	checkpoint []byte // packed record, nil without a checkpoint
	entries    []byte // packed record, nil without entries
	staged     staging
	needs      []segno.Hash
}

// Commit implements [segno.Store]. Two commits are the same if their JSON is,
// without what is staged and the seq of the checkpoint.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	const op = "commit"
	if err := checkCommit(&c); err != nil {
		return head, err
	}
	w, err := s.workOut(ctx, c)
	if err != nil {
		return head, fail(op, string(c.ID), err)
	}
	err = s.write(ctx, op, string(c.Thread), func(ctx context.Context, tx *conn) error {
		done, err := s.repeated(ctx, tx, w, &head)
		if err != nil || done {
			return err
		}
		head, err = s.apply(ctx, tx, w)
		return err
	})
	return head, err
}

func checkCommit(c *segno.Commit) error {
	const op = "commit"
	ids := []string{string(c.ID), string(c.Thread)}
	if c.Workspace != nil {
		ids = append(ids, string(c.Workspace.Workspace))
	}
	if c.Operation != nil {
		ids = append(ids, string(c.Operation.ID), string(c.Operation.Workspace))
	}
	for _, id := range ids {
		if err := segno.CheckID(op, id); err != nil {
			return err
		}
	}
	var why string
	switch {
	case c.Create != nil && c.Create.ID != c.Thread:
		why = "the thread it creates is not its thread"
	case c.Create != nil && c.Expect != "":
		why = "a new thread has no head to expect"
	case c.Move != nil && (c.Move.Head == "" || c.Move.Tip == ""):
		why = "a move names a head and a tip"
	case c.Move != nil && !c.IsNode() && (c.Move.Head == segno.Self || c.Move.Tip == segno.Self):
		why = "it moves to itself and is no node"
	case c.ID == segno.CommitID(segno.Self):
		why = "that id stands for the commit itself"
	case c.Pin != nil && c.Pin.Checkpoint == "":
		why = "the pin names no checkpoint"
	default:
		return nil
	}
	return &segno.Error{Op: op, Name: string(c.ID), Kind: segno.KindInvalid, Err: errors.New(why)}
}

// workOut hashes, encodes and compresses, before the write lock is asked for.
func (s *Store) workOut(ctx context.Context, c segno.Commit) (*written, error) {
	w := &written{Commit: c}
	var err error
	if w.digest, err = digest(c); err != nil {
		return nil, err
	}
	if c.Checkpoint != nil {
		record, err := encodeCheckpoint(c.Checkpoint)
		if err != nil {
			return nil, invalid(c.ID, err)
		}
		w.checkpoint = s.packRecord(record)
	}
	if len(c.Entries) > 0 {
		record, err := encodeEntries(c.Entries)
		if err != nil {
			return nil, invalid(c.ID, err)
		}
		w.entries = s.packRecord(record)
	}
	w.needs = needs(&c)
	w.staged, err = s.openStaged(ctx, c.Staged)
	return w, err
}

func invalid(id segno.CommitID, err error) error {
	return &segno.Error{Op: "commit", Name: string(id), Kind: segno.KindInvalid, Err: err}
}

// digest stands for a commit's content. It is taken from the JSON, so that a
// commit that was spooled and read back is itself.
func digest(c segno.Commit) ([]byte, error) {
	c.Staged = segno.Staged{}
	if c.Checkpoint != nil {
		cp := *c.Checkpoint
		cp.ID, cp.Thread, cp.Parent, cp.Seq = "", "", "", 0
		c.Checkpoint = &cp
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, invalid(c.ID, err)
	}
	sum := sha256.Sum256(data)
	return sum[:16], nil
}

// needs are the objects that must be there once c is in.
func needs(c *segno.Commit) []segno.Hash {
	all := append([]segno.Hash(nil), c.Needs...)
	if c.Checkpoint != nil {
		all = append(all, direct(c.Checkpoint)...)
	}
	if c.Workspace != nil && c.Workspace.Snapshot != nil {
		all = append(all, c.Workspace.Snapshot.Tree, c.Workspace.Snapshot.Times)
	}
	out := all[:0]
	seen := map[segno.Hash]bool{{}: true}
	for _, h := range all {
		if !seen[h] {
			seen[h] = true
			out = append(out, h)
		}
	}
	return out
}

// direct are the objects a checkpoint names itself.
func direct(c *segno.Checkpoint) (all []segno.Hash) {
	if c.Workspace != nil {
		all = append(all, c.Workspace.Tree, c.Workspace.Times)
	}
	if c.Session != nil {
		all = append(all, c.Session.Log, c.Session.Sidecars)
	}
	for _, d := range []*segno.Document{c.State, c.World} {
		if d != nil {
			all = append(all, d.Data)
		}
	}
	return all
}

// repeated reports whether the store has a commit of that id, and if it is the
// same one gives its result again.
func (s *Store) repeated(ctx context.Context, tx *conn, w *written, head *segno.Head) (bool, error) {
	var thread, headN, tipN, link int64
	var sum []byte
	h := segno.Head{Thread: w.Thread}
	found, err := tx.row(ctx, `SELECT thread, digest, head, tip, seq, high, epoch, link FROM commits WHERE id = ?`,
		[]any{string(w.ID)}, &thread, &sum, &headN, &tipN, &h.Seq, &h.Turn, &h.Epoch, &link)
	if err != nil || !found {
		return false, err
	}
	var hidden bool
	if found, err = tx.row(ctx, `SELECT hidden FROM threads WHERE n = ?`, []any{thread}, &hidden); err != nil {
		return false, err
	}
	if !found || hidden {
		return false, notFound("commit", string(w.Thread))
	}
	if string(sum) != string(w.digest) {
		return false, &segno.Error{Op: "commit", Name: string(w.ID), Kind: segno.KindConflict,
			Err: errors.New("another commit has that id")}
	}
	if h.Head, err = commitID(ctx, tx, headN); err != nil {
		return false, err
	}
	if h.Tip, err = commitID(ctx, tx, tipN); err != nil {
		return false, err
	}
	if link != 0 {
		if h.Link, err = loadLink(ctx, tx, link); err != nil {
			return false, err
		}
		h.Link.End = segno.Link{}.End // it was the newest then
	}
	*head = h
	return true, nil
}

func commitID(ctx context.Context, tx *conn, n int64) (id segno.CommitID, err error) {
	if n == 0 {
		return "", nil
	}
	found, err := tx.row(ctx, `SELECT id FROM commits WHERE n = ?`, []any{n}, &id)
	if err == nil && !found {
		err = corrupt("read commit", fmt.Sprint(n), errors.New("the record is missing"))
	}
	return id, err
}
