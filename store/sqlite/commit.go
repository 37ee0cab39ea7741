package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
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

// Commit implements [segno.Store].
func (s *Store) Commit(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	const op = "commit"
	if err := c.Check(); err != nil {
		return head, err
	}
	w, err := s.workOut(ctx, c)
	if err != nil {
		return head, fail(op, string(c.ID), err)
	}
	err = s.write(ctx, op, string(c.Thread), func(ctx context.Context, tx *conn) error {
		at, err := findSlot(ctx, tx, w)
		if err != nil {
			return err
		}
		if at.isTaken {
			head, err = s.repeated(ctx, tx, w)
			return err
		}
		head, err = s.apply(ctx, tx, w, at)
		return err
	})
	if err == nil {
		s.watch.notifier.Notify(c.Thread)
	}
	return head, err
}

// workOut hashes, encodes and compresses, before the write lock is asked for.
func (s *Store) workOut(ctx context.Context, c segno.Commit) (*written, error) {
	digest, err := c.Digest()
	if err != nil {
		return nil, err
	}
	digest = s.seal.Hash("commit", digest)
	w := &written{Commit: c, digest: digest[:16], needs: c.Refs()}
	thread, id, parent := string(c.Thread), string(c.ID), string(c.Parent)
	if c.Checkpoint != nil {
		rec, err := record.EncodeCheckpoint(c.Checkpoint, len(c.Entries) > 0)
		if err != nil {
			return nil, invalid(c.ID, err)
		}
		w.checkpoint = s.seal.Seal(s.squeeze.Pack(rec), "checkpoint", thread, id, parent)
	}
	if len(c.Entries) > 0 {
		rec, err := record.EncodeEntries(c.Entries, c.Checkpoint != nil)
		if err != nil {
			return nil, invalid(c.ID, err)
		}
		w.entries = s.seal.Seal(s.squeeze.Pack(rec), "entries", thread, id, parent)
	}
	w.staged, err = s.openStaged(ctx, c.Staged)
	return w, err
}

func invalid(id segno.CommitID, err error) error {
	return segno.NewError(segno.KindInvalid, "commit", string(id), err)
}

// repeated returns the result of a commit whose id the store has. The other commit of that
// id must be the same one.
func (s *Store) repeated(ctx context.Context, tx *conn, w *written) (h segno.Head, err error) {
	var thread, headN, tipN, link int64
	var sum []byte
	h.Thread = w.Thread
	if _, err = tx.row(ctx, `SELECT thread, digest, head, tip, seq, high, epoch, link FROM commits WHERE id = ?`,
		[]any{string(w.ID)}, &thread, &sum, &headN, &tipN, &h.Seq, &h.Turn, &h.Epoch, &link); err != nil {
		return segno.Head{}, err
	}
	var hidden bool
	found, err := tx.row(ctx, `SELECT hidden FROM threads WHERE n = ?`, []any{thread}, &hidden)
	if err != nil {
		return segno.Head{}, err
	}
	if !found || hidden {
		return segno.Head{}, notFound("commit", string(w.Thread))
	}
	if string(sum) != string(w.digest) {
		return segno.Head{}, segno.Errorf(segno.KindConflict, "commit", string(w.ID), "another commit has that id")
	}
	if h.Head, err = commitID(ctx, tx, headN); err != nil {
		return segno.Head{}, err
	}
	if h.Tip, err = commitID(ctx, tx, tipN); err != nil {
		return segno.Head{}, err
	}
	if link != 0 {
		if h.Link, err = s.loadLink(ctx, tx, w.Thread, link); err != nil {
			return segno.Head{}, err
		}
		h.Link.End = segno.Link{}.End // it was the newest then
	}
	return h, nil
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
