package threadlog

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// Commit implements [segno.Store]. The objects of c are durable before the record is written, and
// stay in the store if it cannot be written.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	digest, err := ledger.Prepare(&c)
	if err != nil {
		return segno.Head{}, err
	}
	var repeated *Commit
	head, err := s.update(ctx, "commit", c.Thread, true, func(x *Index, t *Thread) (*Record, []segno.Entry, error) {
		if repeated = x.commits[c.ID]; repeated != nil {
			return nil, nil, ledger.Repeat(&c, repeated.Log.Deleted, repeated.digest == digest)
		}
		if err := ledger.Admit(&t.Thread, &c, reader{s.logs, x, c.Staged.Packs}); err != nil {
			return nil, nil, err
		}
		if err := s.logs.KeepObjects(c.Staged); err != nil {
			return nil, nil, err
		}
		parentTurn := 0
		if parent := x.commits[c.Parent]; parent != nil {
			parentTurn = parent.turn
		}
		next := ledger.Next(&t.Thread, &c, parentTurn)
		r := &Record{Commit: &CommitRecord{Commit: c, Entries: len(c.Entries)}, Digest: digest,
			Head: &HeadRecord{Head: next.Head, Phase: next.Phase}, Turn: ledger.Turn(&c, parentTurn)}
		if c.Checkpoint != nil {
			r.Commit.Checkpoint = &CheckpointRecord{Checkpoint: *c.Checkpoint}
		}
		r.Head.Head.Link = segno.Link{}
		r.Commit.Commit.Entries, r.Commit.Commit.Checkpoint, r.Commit.Commit.Staged = nil, nil, segno.Staged{}
		return r, c.Entries, nil
	})
	if err != nil {
		return segno.Head{}, err
	}
	if repeated != nil {
		head = cloneHead(repeated.result)
	}
	return head, nil
}

// reader is the [ledger.Reader] of a commit with packs. A commit that is missing from the index does not exist, unless
// a damaged log may contain it. The look-up then fails with that damage. The caller holds the index for writing, so the
// results stay true until the record is written.
type reader struct {
	logs  Logs
	x     *Index
	packs []string
}

func (r reader) HasNode(id segno.CommitID) (bool, error) {
	c, err := r.x.find(id)
	return c != nil && c.isNode, ignoreNotFound(err)
}

func (r reader) HasCheckpoint(id segno.CommitID) (bool, error) {
	c, err := r.x.find(id)
	return c != nil && c.Checkpoint != nil, ignoreNotFound(err)
}

func (r reader) HasOperation(id segno.OperationID) (bool, error) {
	_, found := r.x.operations[id]
	return found, nil
}

func (r reader) MissingObject(names []segno.Hash) (segno.Hash, error) {
	return r.logs.Missing(names, r.packs)
}

// Delete implements [segno.Store].
func (s *Store) Delete(ctx context.Context, id segno.ThreadID) error {
	_, err := s.update(ctx, "delete thread", id, false, func(*Index, *Thread) (*Record, []segno.Entry, error) {
		return &Record{Hidden: true}, nil, nil
	})
	return err
}
