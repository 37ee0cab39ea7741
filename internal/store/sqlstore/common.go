package sqlstore

import (
	"context"
	"errors"
	"iter"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
	"github.com/dalsegno/segno/internal/store/phase"
)

// Common implements the methods of a store that are the same for all databases. A store embeds it.
type Common struct {
	store   segno.Store
	db      Database
	records *Records
	watch   *Watch
	dialect Dialect
}

// Dialect has the queries and checks that differ between the databases. A function that returns a query also returns
// its arguments.
type Dialect struct {
	// Checkpoints returns up to count checkpoints before a position, newest first. The columns are the
	// position, id, seq, thread, parent, checkpoint, the name of the pin, the damage of the row or NULL,
	// and those of [LeaseRow.Dest]. The row of a deleted thread has only a lease, which is verified.
	Checkpoints func(q *segno.CheckpointQuery, before int64, count int) (string, []any)
	// FirstPage is the size of the first page of a query without a limit.
	FirstPage int
	// VerifyPage returns a function that verifies the pages of a list of checkpoints, one after the
	// other. nil verifies nothing.
	VerifyPage func(ctx context.Context, q *segno.CheckpointQuery) func(page []segno.Node, isLast bool) error
	// Threads returns at least the threads of a query that names no phase, the most recently changed
	// first. The columns are id, record, whether the row is sound, and those of [LeaseRow.Dest].
	Threads func(q *segno.ThreadQuery) (string, []any)
	// VerifyThreads verifies rows that a list of threads does not read. isEmpty is set if the list found no thread. nil
	// verifies nothing.
	VerifyThreads func(ctx context.Context, q *segno.ThreadQuery, isEmpty bool) error
	// InPhase returns the first count threads with the recorded phase p, by id. The columns are id,
	// record, head, seq and whether the row is sound. The query is "" if the database records no phases.
	InPhase func(p segno.Phase, after segno.ThreadID, count int) (string, []any)
	// Remember implements [phase.Index].
	Remember func(ctx context.Context, f phase.Found, p segno.Phase) error
	// Chain returns the record of each link of thread ?1, oldest first, and the last part of the place for which the
	// record was sealed.
	Chain string
	// Workspaces returns the workspaces at paths or with an inode, or all if there are neither, longest
	// path first. The columns are id, record, state and whether the row is sound.
	Workspaces func(paths [][]byte, device, inode int64) (string, []any)
	// InodeBits are set in the keyed hash of an inode, so that it is not 0.
	InodeBits int64
	// HasChanged reports whether another process may have changed the database since the last call on this connection.
	// nil means always.
	HasChanged func(ctx context.Context, q Querier) (bool, error)
	// Seqs returns id and seq of the given threads, except deleted ones.
	Seqs func(ids []segno.ThreadID) (string, []any)
	// Pointers returns pairs of ids: the head and the tip of each thread that is not deleted and changed in a commit
	// above ?1, and the commit of each pin, twice. It may also return older pairs.
	Pointers string
	// Operations returns id, workspace and record of each operation of a commit above ?1. It may also return older
	// operations.
	Operations string
	// Log returns id and record of each operation on workspace ?1, newest first, and whether the row is sound.
	Log string
}

// NewCommon returns the common part of a store, and sets the poller of w.
func NewCommon(s segno.Store, db Database, r *Records, w *Watch, d Dialect) *Common {
	c := &Common{s, db, r, w, d}
	w.Poller = notify.NewSharedPoller(c.poll)
	return c
}

// Chain implements [segno.Chains]. A link ends when the next link that is not detached starts. The error is
// [segno.KindCorrupt] if the link of the head is missing.
func (c *Common) Chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	const op = "read chain"
	return yieldAll(func() ([]segno.Link, error) {
		head, err := c.store.Head(ctx, thread)
		if err != nil {
			return nil, err
		}
		var rec []byte
		var place Text
		links, err := List(ctx, c.db, op, string(thread), c.dialect.Chain, []any{c.db.ID(string(thread))}, []any{&rec, &place},
			func() (segno.Link, error) { return c.records.Link(thread, rec, "link", string(thread), string(place)) })
		if err != nil {
			return nil, err
		}
		open, hasHead := -1, head.Link == segno.Link{}
		for i := range links {
			l := &links[i]
			hasHead = hasHead || l.Session == head.Link.Session
			if l.Detached {
				continue
			}
			if open >= 0 {
				links[open].End = l.Start
			}
			open = i
		}
		if !hasHead {
			return nil, c.records.Corrupt(op, string(thread), errors.New("the head's session is missing"))
		}
		return links, nil
	})
}
