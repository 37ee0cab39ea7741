package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
)

// written is a commit worked out as far as it goes without the database.
type written struct {
	segno.Commit
	digest     []byte
	thread     []byte // the record of the thread it makes
	checkpoint []byte // packed record, nil without a checkpoint
	entries    []byte // packed record, nil without entries or if they are a body
	body       string // the name of the entries' body
	link       []byte
	headLink   []byte // the same, for the thread's row
	state      []byte
	operation  []byte
	pin        []byte // its name
	session    []byte // what the link's session is looked up by
	terms      []int64
	staged     []stagedObject
	needs      [][]byte // objects that must be there already, sorted
	stale      segno.Hash
}

// Commit implements [segno.Store].
func (s *Store) Commit(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	const op = "commit"
	if err := c.Check(); err != nil {
		return head, err
	}
	if err := s.enter(ctx, op); err != nil {
		return head, err
	}
	defer s.calls.Done()
	w, err := s.workOut(ctx, c)
	if err == nil {
		head, err = s.write(ctx, w)
	}
	if err == nil {
		s.watch.notifier.Notify(c.Thread)
	}
	return head, s.fail(ctx, op, string(c.ID), err)
}

// write sends the commit until its outcome is known.
func (s *Store) write(ctx context.Context, w *written) (head segno.Head, err error) {
	query, args := s.statement(w)
	doubt := false
	err = s.patiently(ctx, func(ctx context.Context) error {
		if w.stale.IsZero() {
			done, err := s.send(ctx, w.Thread, query, args, &head)
			doubt = doubt || err != nil && !sure(err)
			if err != nil || done {
				return err
			}
		}
		var err error
		head, err = s.refusal(ctx, w)
		return err
	})
	if err == nil || !doubt || !lost(err) && !cancelled(ctx, err) {
		return head, err
	}
	// The answer is lost, but perhaps not the commit.
	if head, again := s.refusal(context.WithoutCancel(ctx), w); again == nil {
		return head, nil
	}
	return segno.Head{}, segno.Errorf(segno.KindIO, "commit", string(w.ID), "the connection was lost, and the commit may have been made or not: %w", oneLine(err)).WithHint("repeat the commit under the same id")
}

func cancelled(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// send carries out the commit's statement and reports whether it was applied. Without
// an error it is, and is on disk, or nothing was written.
func (s *Store) send(ctx context.Context, thread segno.ThreadID, query string, args []any, head *segno.Head) (done bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, unsent{err}
	}
	defer conn.Release()
	now := standing{seal: s.seal}
	err = conn.QueryRow(ctx, query, args...).Scan(&now.seq, &now.turn, &now.epoch, &now.head, &now.tip, &now.link)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	*head, err = now.read(thread)
	return true, err
}

// unsent is an error from before a statement was sent.
type unsent struct{ error }

func notSent(err error) error      { return unsent{err} }
func (u unsent) Unwrap() error     { return u.error }
func (u unsent) SafeToRetry() bool { return true }

// readLink reads a thread's link, which a commit brought; the zero link if there is none.
// The copy in the thread's own row is of no commit.
func readLink(seal *record.Sealer, thread string, rec []byte, id string) (l segno.Link, err error) {
	if rec == nil {
		return l, nil
	}
	if id == "" {
		rec, err = seal.Open(rec, "head link", thread)
	} else {
		rec, err = seal.Open(rec, "link", thread, id)
	}
	if err == nil {
		l, err = record.DecodeLink(rec)
	}
	return l, damaged("read link", thread, err)
}

func damaged(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return corrupt(op, name, err)
}

// workOut hashes, encodes and compresses, and writes bodies.
func (s *Store) workOut(ctx context.Context, c segno.Commit) (*written, error) {
	digest, err := c.Digest()
	if err != nil {
		return nil, err
	}
	digest = s.seal.Hash("commit", digest)
	w := &written{Commit: c, digest: digest[:16], terms: s.seal.Terms(c.Checkpoint)}
	if err := w.encode(s); err != nil {
		return nil, invalid("commit", string(c.ID), err)
	}
	if err := w.stage(s); err != nil {
		return nil, err
	}
	if len(w.entries) > mostInRow {
		w.body, err = s.putBody(ctx, segno.HashOf(w.entries), w.entries)
		w.entries = nil
	}
	return w, err
}

// encode makes the records, each sealed to its place.
func (w *written) encode(s *Store) error {
	var errs []error
	keep := func(to *[]byte, rec []byte, err error, place ...string) {
		*to = s.seal.Seal(rec, place...)
		errs = append(errs, err)
	}
	thread, id, parent := string(w.Thread), string(w.ID), string(w.Parent)
	if w.Create != nil {
		rec, err := record.EncodeThread(w.Create)
		keep(&w.thread, rec, err, "thread", thread)
	}
	if w.Checkpoint != nil {
		rec, err := record.EncodeCheckpoint(w.Checkpoint, len(w.Entries) > 0)
		keep(&w.checkpoint, s.squeeze.Pack(rec), err, "checkpoint", thread, id, parent)
	}
	if len(w.Entries) > 0 {
		rec, err := record.EncodeEntries(w.Entries, w.Checkpoint != nil)
		keep(&w.entries, s.squeeze.Pack(rec), err, "entries", thread, id, parent)
	}
	if w.Link != nil {
		rec, err := record.EncodeLink(w.Link)
		keep(&w.link, rec, err, "link", thread, id)
		keep(&w.headLink, rec, nil, "head link", thread)
		w.session = digestOf(s.seal.Name("session", string(w.Link.Session)))
	}
	if w.Workspace != nil {
		rec, err := record.EncodeState(w.Workspace)
		keep(&w.state, rec, err, "state", string(w.Workspace.Workspace))
	}
	if w.Operation != nil {
		rec, err := record.EncodeOperation(w.Operation)
		keep(&w.operation, rec, err, "operation", string(w.Operation.Workspace), string(w.Operation.ID))
	}
	if w.Pin != nil {
		keep(&w.pin, []byte(w.Pin.Name), nil, "pin", string(w.Pin.Checkpoint))
	}
	return errors.Join(errs...)
}

// stage sorts out what the commit brings and what must be there: what a batch found in
// the store, and what the commit names and does not bring.
func (w *written) stage(s *Store) (err error) {
	var found []segno.Hash
	if w.staged, found, w.stale, err = s.unstage(w.Staged); err != nil {
		return err
	}
	brought := map[segno.Hash]bool{}
	for _, o := range w.staged {
		brought[o.name] = true
	}
	for _, h := range w.Refs() {
		found = append(found, s.named(h))
	}
	for _, h := range found {
		if !brought[h] {
			brought[h] = true
			w.needs = append(w.needs, h[:])
		}
	}
	slices.SortFunc(w.needs, bytes.Compare)
	return nil
}
