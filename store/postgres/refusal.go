package postgres

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// whyNot gathers in one look all that may keep a commit from being applied.
const whyNot = `SELECT
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

// standing is a row of whyNot's two heads: the thread's, and that of the commit of the
// same id. hidden is nil if there is none.
type standing struct {
	seal            *record.Sealer
	of              []byte // the commit that brought link; nil in the thread's own row
	hidden          *bool
	head, tip, link []byte
	seq, turn       *int64
	epoch           *int64
	digest          []byte
}

func (st *standing) read(thread segno.ThreadID) (segno.Head, error) {
	link, err := readLink(st.seal, string(thread), st.link, string(st.of))
	return segno.Head{Thread: thread, Head: segno.CommitID(st.head), Tip: segno.CommitID(st.tip),
		Seq: *st.seq, Turn: int(*st.turn), Epoch: uint64(*st.epoch), Link: link}, err
}

// refusal says why a commit was not applied: because it was before, and then it returns
// the result, or with an error. If nothing stands in its way any more that is errAgain.
func (s *Store) refusal(ctx context.Context, w *written) (segno.Head, error) {
	thread, done := standing{seal: s.seal}, standing{seal: s.seal}
	var noNode, noObject [][]byte
	var isCheckpoint, isLogged bool
	nodes := make([][]byte, 0, 3)
	for _, id := range []segno.CommitID{w.Parent, moveOf(w).Head, moveOf(w).Tip} {
		if id != "" && id != segno.Self {
			nodes = append(nodes, []byte(id))
		}
	}
	var pin, operation []byte
	if w.Pin != nil {
		pin = []byte(w.Pin.Checkpoint)
	}
	if w.Operation != nil {
		operation = []byte(w.Operation.ID)
	}
	err := s.pool.QueryRow(ctx, s.sql(whyNot), []byte(w.Thread), []byte(w.ID), nodes, w.needs, pin, operation).Scan(
		&thread.hidden, &thread.head, &thread.tip, &thread.seq, &thread.turn, &thread.epoch, &thread.link,
		&done.hidden, &done.digest, &done.head, &done.tip, &done.seq, &done.turn, &done.epoch, &done.link, &done.of,
		&noNode, &noObject, &isCheckpoint, &isLogged)
	if err != nil {
		return segno.Head{}, err
	}
	if done.hidden != nil {
		return repeated(w, &done)
	}
	if err := refused(w, &thread); err != nil {
		return segno.Head{}, err
	}
	switch {
	case len(noNode) > 0:
		err = notFound("find commit", string(noNode[0]))
	case !w.stale.IsZero():
		err = segno.Errorf(segno.KindNotFound, "commit", string(w.ID), "object %s was staged more than a day ago", w.stale).WithHint("stage the objects again")
	case len(noObject) > 0:
		err = segno.Errorf(segno.KindNotFound, "commit", string(w.ID), "object %s does not exist", s.called(w, noObject[0]))
	case w.Pin != nil && !isCheckpoint:
		err = notFound("pin", string(w.Pin.Checkpoint))
	case isLogged:
		err = segno.Errorf(segno.KindConflict, "commit", string(w.Operation.ID), "another operation has that id")
	default:
		err = errAgain
	}
	return segno.Head{}, err
}

func moveOf(w *written) segno.Move {
	if w.Move == nil {
		return segno.Move{}
	}
	return *w.Move
}

// repeated is the result of the commit that has w's id, if it is w.
func repeated(w *written, done *standing) (segno.Head, error) {
	if *done.hidden {
		return segno.Head{}, notFound("commit", string(w.Thread))
	}
	if string(done.digest) != string(w.digest) {
		return segno.Head{}, segno.Errorf(segno.KindConflict, "commit", string(w.ID), "another commit has that id")
	}
	return done.read(w.Thread)
}

// refused compares the commit with its thread. Fencing comes before the comparison of
// heads: a writer whose lease has passed on must not learn where to go on.
func refused(w *written, thread *standing) error {
	if thread.hidden == nil {
		if w.Create == nil {
			return notFound("commit", string(w.Thread))
		}
		return nil
	}
	if *thread.hidden {
		return notFound("commit", string(w.Thread))
	}
	head, err := thread.read(w.Thread)
	switch {
	case err != nil:
		return err
	case w.Create == nil && w.Epoch < head.Epoch:
		return segno.NewError(segno.KindFenced, "commit", string(w.Thread), nil)
	case w.Create != nil || w.Expect != head.Head:
		return segno.NewError(segno.KindConflict, "commit", string(w.Thread), &segno.ConflictError{Actual: head})
	}
	return nil
}
