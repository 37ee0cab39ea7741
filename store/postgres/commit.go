package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/jackc/pgx/v5"
)

// encodedCommit is a commit with everything that its statement writes.
type encodedCommit struct {
	*sqlstore.Commit
	body     string // the name of the entries' body; if set, Encoded.Entries is nil
	link     []byte
	headLink []byte // Encoded's link, sealed to the thread's row
	session  []byte // the hash by which queries find the link's session
	staged   []stagedObject
	needs    [][]byte   // stored names of the objects that must exist, sorted
	expired  segno.Hash // a staged object; its body may have been deleted
}

// Commit implements [segno.Store].
func (s *Store) Commit(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	err = s.once(ctx, "commit", string(c.ID), func(ctx context.Context) error {
		w, err := s.encode(ctx, c)
		if err == nil {
			head, err = s.execute(ctx, w)
		}
		return err
	})
	if err == nil {
		s.watch.Notify(c.Thread)
	}
	return head, err
}

// encode computes the digest, encodes and compresses, and writes the body of large entries.
func (s *Store) encode(ctx context.Context, c segno.Commit) (*encodedCommit, error) {
	records, err := s.records.EncodeCommit(c)
	if err != nil {
		return nil, err
	}
	w := &encodedCommit{Commit: records}
	if c.Link != nil {
		w.link = s.records.Sealer.Seal(w.Encoded.Link, "link", string(c.Thread), string(c.ID))
		w.headLink = s.records.Sealer.Seal(w.Encoded.Link, "head link", string(c.Thread))
		w.session = hashOf(s.records.Sealer.Name("session", string(c.Link.Session)))
	}
	if w.staged, w.expired, err = s.stagedObjects(c.Staged); err != nil {
		return nil, err
	}
	for _, name := range ledger.Objects(&c) {
		stored := s.records.ObjectName(name)
		w.needs = append(w.needs, stored[:])
	}
	slices.SortFunc(w.needs, bytes.Compare)
	if len(w.Encoded.Entries) > maxInRow {
		w.body, err = s.putBody(ctx, segno.HashOf(w.Encoded.Entries), w.Encoded.Entries)
		w.Encoded.Entries = nil
	}
	return w, err
}

// execute sends the commit until its outcome is known.
func (s *Store) execute(ctx context.Context, w *encodedCommit) (head segno.Head, err error) {
	query, args := s.statement(w)
	send := s.send
	if s.options.InCommit != nil {
		if inCommit := s.options.InCommit(&w.Commit.Commit); inCommit != nil {
			send = s.sendWith(inCommit)
		}
	}
	isUnknown := false // the answer to a statement was lost
	err = s.withRetry(ctx, func(ctx context.Context) error {
		if w.expired.IsZero() {
			applied, err := send(ctx, w.Thread, query, args, &head)
			isUnknown = isUnknown || err != nil && !isNotExecuted(err)
			if err != nil || applied {
				return err
			}
		}
		var err error
		head, err = s.explain(ctx, w)
		return err
	})
	isCancelled := ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err == nil || !isUnknown || !isConnectionError(err) && !isCancelled {
		return head, err
	}
	if head, err := s.explain(context.WithoutCancel(ctx), w); err == nil {
		return head, nil // the commit was applied
	}
	return segno.Head{}, segno.Errorf(segno.KindIO, "commit", string(w.ID),
		"the connection was lost, and the commit may have been made or not: %w", oneLine(err)).
		WithHint("repeat the commit under the same id")
}

// send executes the commit's statement on its own and reports whether the commit was applied. If err is nil, either the
// commit is on disk, or nothing was written.
func (s *Store) send(ctx context.Context, thread segno.ThreadID, query string, args []any, head *segno.Head) (applied bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, notSentError{err}
	}
	defer conn.Release()
	return s.query(s.writeContext(ctx), s.writer(conn), thread, query, args, head)
}

// query executes the commit's statement.
func (s *Store) query(ctx context.Context, on rowQuerier, thread segno.ThreadID, query string, args []any, head *segno.Head) (applied bool, err error) {
	var now headRow
	err = on.QueryRow(ctx, query, args...).Scan(&now.seq, &now.turn, &now.epoch, &now.head, &now.tip, &now.link)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	*head, err = s.decodeHead(thread, &now)
	return true, err
}

// notSentError is an error that occurred before a statement was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() error     { return e.error }
func (e notSentError) SafeToRetry() bool { return true }

// headRow is the head of a thread as a row holds it. isDeleted is nil if the row does not exist.
type headRow struct {
	isDeleted       *bool
	head, tip, link []byte
	linkCommit      []byte // the commit that the link was sealed to; nil in the row of a thread
	seq, turn       *int64
	epoch           *int64
}

func (s *Store) decodeHead(thread segno.ThreadID, h *headRow) (segno.Head, error) {
	place := []string{"head link", string(thread)}
	if h.linkCommit != nil {
		place = []string{"link", string(thread), string(h.linkCommit)}
	}
	link, err := s.records.Link(thread, h.link, place...)
	return segno.Head{Thread: thread, Head: segno.CommitID(h.head), Tip: segno.CommitID(h.tip),
		Seq: *h.seq, Turn: int(*h.turn), Epoch: uint64(*h.epoch), Link: link}, err
}

// obstacles is one query that reads all possible reasons for which a commit was not applied: its thread, the
// commit with the same id and that commit's thread, and the missing nodes, objects, pins and operations.
const obstacles = `SELECT
	t.hidden, t.head, t.tip, t.seq, t.turn, t.epoch, t.session,
	u.hidden, d.digest, coalesce(d.head, d.id), coalesce(d.tip, d.id), d.seq, coalesce(d.high, d.turn), coalesce(d.epoch, 0), l.record,
	(SELECT c.id FROM {}commits c WHERE c.thread = l.thread AND c.seq = l.seq),
	ARRAY(SELECT x FROM unnest($3::bytea[]) x WHERE NOT EXISTS (SELECT FROM {}commits WHERE id = x AND line IS NOT NULL)),
	ARRAY(SELECT x FROM unnest($4::bytea[]) x WHERE NOT EXISTS (SELECT FROM {}objects WHERE name = x)),
	EXISTS (SELECT FROM {}commits WHERE id = $5::bytea AND checkpoint IS NOT NULL),
	EXISTS (SELECT FROM {}operations WHERE id = $6::bytea)
FROM (SELECT) one
	LEFT JOIN {}threads t ON t.id = $1::bytea
	LEFT JOIN {}commits d ON d.id = $2::bytea
	LEFT JOIN {}threads u ON u.n = d.thread
	LEFT JOIN {}links l ON l.thread = d.thread AND l.seq = d.link`

// explain returns the reason why a commit was not applied, as [ledger] derives it from the obstacles. If the
// commit was applied before, explain returns its result. If there is no obstacle any longer, the error is
// errRetry.
func (s *Store) explain(ctx context.Context, w *encodedCommit) (segno.Head, error) {
	var thread, done headRow
	var digest []byte
	c, found := &w.Commit.Commit, obstaclesFound{s: s}
	var nodes [][]byte
	for _, id := range ledger.Nodes(c) {
		nodes = append(nodes, []byte(id))
	}
	var pin, operation []byte
	if c.Pin != nil {
		pin = []byte(c.Pin.Checkpoint)
	}
	if c.Operation != nil {
		operation = []byte(c.Operation.ID)
	}
	err := s.db.QueryRow(ctx, s.sql(obstacles), []byte(c.Thread), []byte(c.ID), nodes, w.needs, pin, operation).Scan(
		&thread.isDeleted, &thread.head, &thread.tip, &thread.seq, &thread.turn, &thread.epoch, &thread.link,
		&done.isDeleted, &digest, &done.head, &done.tip, &done.seq, &done.turn, &done.epoch, &done.link, &done.linkCommit,
		&found.missingNodes, &found.missingObjects, &found.hasCheckpoint, &found.hasOperation)
	if err != nil {
		return segno.Head{}, err
	}
	if done.isDeleted != nil {
		if err := ledger.Repeat(c, *done.isDeleted, bytes.Equal(digest, w.Digest)); err != nil {
			return segno.Head{}, err
		}
		return s.decodeHead(c.Thread, &done)
	}
	at := ledger.Thread{Exists: thread.isDeleted != nil}
	if at.Exists {
		at.Deleted = *thread.isDeleted
		if at.Head, err = s.decodeHead(c.Thread, &thread); err != nil && !at.Deleted {
			return segno.Head{}, err
		}
	}
	if err := ledger.AdmitHead(&at, c); err != nil {
		return segno.Head{}, err
	}
	if !w.expired.IsZero() {
		return segno.Head{}, segno.Errorf(segno.KindNotFound, "commit", string(c.ID), "object %s was staged more than a day ago",
			w.expired).
			WithHint("stage the objects again")
	}
	if err := ledger.Admit(&at, c, found); err != nil {
		return segno.Head{}, err
	}
	return segno.Head{}, errRetry
}

// obstaclesFound is a [ledger.Reader] over the result of the query obstacles.
type obstaclesFound struct {
	s                            *Store
	missingNodes, missingObjects [][]byte
	hasCheckpoint, hasOperation  bool
}

func (o obstaclesFound) HasNode(id segno.CommitID) (bool, error) {
	return !slices.ContainsFunc(o.missingNodes, func(x []byte) bool { return string(x) == string(id) }), nil
}

func (o obstaclesFound) HasCheckpoint(segno.CommitID) (bool, error) { return o.hasCheckpoint, nil }

func (o obstaclesFound) HasOperation(segno.OperationID) (bool, error) { return o.hasOperation, nil }

func (o obstaclesFound) MissingObject(names []segno.Hash) (segno.Hash, error) {
	for _, name := range names {
		stored := o.s.records.ObjectName(name)
		if slices.ContainsFunc(o.missingObjects, func(x []byte) bool { return bytes.Equal(x, stored[:]) }) {
			return name, nil
		}
	}
	return segno.Hash{}, nil
}
