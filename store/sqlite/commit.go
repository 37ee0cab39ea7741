package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// Commit implements [segno.Store].
func (s *Store) Commit(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	const op = "commit"
	encoded, err := s.records.EncodeCommit(c) // compression takes time, so do it before the writer's lock is held
	if err != nil {
		return head, err
	}
	staged, err := s.openStaged(ctx, c.Staged)
	if err != nil {
		return head, fail(op, string(c.ID), err)
	}
	err = s.withWriter(ctx, c.Durability, op, string(c.Thread), func(ctx context.Context, conn *conn) error {
		t := &commitTx{Commit: encoded, s: s, staged: staged}
		if err := conn.transaction(ctx, func(tx *tx) (err error) {
			t.tx = tx
			head, err = t.apply()
			return err
		}); err != nil {
			return err
		}
		conn.last = t.result()
		return nil
	})
	if err == nil {
		s.watch.Notify(c.Thread)
	}
	return head, err
}

// CommitAll applies commits in order and in one transaction: all of them or none. Each commit
// has the same effect as with Commit. CommitAll returns the head after the last one. Other
// writers wait until it returns, so a caller should pass no more than a few hundred commits.
func (s *Store) CommitAll(ctx context.Context, commits []segno.Commit) (head segno.Head, err error) {
	const op = "commit"
	all := make([]*commitTx, len(commits))
	for i, c := range commits {
		encoded, err := s.records.EncodeCommit(c)
		if err != nil {
			return head, err
		}
		staged, err := s.openStaged(ctx, c.Staged)
		if err != nil {
			return head, fail(op, string(c.ID), err)
		}
		all[i] = &commitTx{Commit: encoded, s: s, staged: staged}
	}
	if len(all) == 0 {
		return head, nil
	}
	thread := commits[0].Thread
	err = s.write(ctx, op, string(thread), func(tx *tx) (err error) {
		// The store searches the rows of all threads for the id of a new thread. One pass serves all commits.
		var created []string
		for _, t := range all {
			if t.Create != nil {
				created = append(created, string(t.Thread))
			}
		}
		if len(created) > 0 {
			err = missedRow(tx.ctx, tx.c, op, "threads", created...)
		}
		for _, t := range all {
			if err != nil {
				return err
			}
			apply := *t // write may call this function again
			apply.tx, apply.isVerified = tx, t.Create != nil
			if head, err = apply.apply(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for _, c := range commits {
			s.watch.Notify(c.Thread)
		}
	}
	return head, err
}

// commitTx is the transaction of a commit. It implements [ledger.Reader].
type commitTx struct {
	*tx
	*sqlstore.Commit
	s      *Store
	staged staging
	// isVerified means that the rows of threads and their index agree about the commit's thread.
	isVerified bool

	number   int64 // the number of this commit
	exists   bool  // the store has a commit with the same id
	parent   node
	hasChild bool                     // the parent's line continues
	targets  map[segno.CommitID]int64 // the numbers of the commits that HasNode found

	after *threadRow // the thread after the commit; nil if the commit was a repeated one
	at    node       // the commit
}

// node is the place of a commit in the tree. The zero node is the parent of every root.
type node struct {
	n, line, depth int64
	turn           int
}

// threadRow is the row of a thread, as a commit reads and writes it. n, head, tip and link are numbers of rows. The
// embedded Thread has the same head and tip as ids.
type threadRow struct {
	ledger.Thread
	n, head, tip, link int64
}

// apply applies the commit. If the store already has the same commit, apply returns the result of that one.
//
// It checks in the order of package ledger: first the commit's id, then the head of the thread, and last the other
// records that the commit names. It adopts the objects of the commit before it calls Admit, because Admit looks for
// the objects that the commit names, and a pack of the commit may contain them. If Admit refuses the commit, the
// rollback of the transaction removes the objects, too.
func (t *commitTx) apply() (segno.Head, error) {
	before := t.recall()
	if before == nil {
		t.readPlace()
		if t.exists {
			return t.repeat()
		}
		var err error
		if before, err = t.readThreadRow(); err != nil {
			return segno.Head{}, err
		}
		if err := ledger.AdmitHead(&before.Thread, &t.Commit.Commit); err != nil {
			return segno.Head{}, err
		}
		if err := t.s.insertStaged(t.tx, t.staged); err != nil {
			return segno.Head{}, err
		}
	}
	if err := ledger.Admit(&before.Thread, &t.Commit.Commit, t); err != nil {
		return segno.Head{}, err
	}
	after := &threadRow{Thread: ledger.Next(&before.Thread, &t.Commit.Commit, t.parent.turn), n: before.n, link: before.link,
		head: t.numberOf(before.head, before.Head.Head, t.target().Head), tip: t.numberOf(before.tip, before.Tip, t.target().Tip)}
	if t.Create != nil {
		l := sqlstore.LeaseRow{Thread: t.Thread}
		after.n = t.insert(`INSERT INTO threads (id, hidden, head, tip, seq, turn, epoch, link, changed, workspace, owner, expires, record)
			VALUES (?, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, 0, ?)`, string(t.Thread), string(t.Create.Workspace), database{t.s}.LeaseOwner(&l),
			t.Encoded.Thread)
	}
	if err := t.writeLinks(before, after); err != nil {
		return segno.Head{}, err
	}
	if !t.insertCommit(after) {
		return t.repeat()
	}
	t.writePhase(before, after)
	t.writeRecords()
	t.after = after
	return after.Head, nil
}

// readPlace reads, in one query, the numbers and places of the other commits on which this commit depends.
func (t *commitTx) readPlace() {
	p := &t.parent
	t.row(`SELECT (SELECT coalesce(max(n), 0) + 1 FROM commits), EXISTS (SELECT 1 FROM commits WHERE id = ?1),
			coalesce(p.n, 0), iif(p.n IS NULL, 0, p.line), iif(p.n IS NULL, 0, p.depth),
			iif(p.n IS NULL, 0, p.turn), EXISTS (SELECT 1 FROM commits c WHERE c.line = p.line AND c.depth = p.depth + 1)
		FROM (SELECT 1) LEFT JOIN commits p ON p.id = ?2 AND p.line IS NOT NULL`, []any{string(t.ID), string(t.Parent)},
		&t.number, &t.exists, &p.n, &p.line, &p.depth, &p.turn, &t.hasChild)
}

// repeat returns the result of the commit that has the same id, if it is the same commit. A writer repeats a
// commit if it did not receive the response. Later commits may have moved the head, so the result comes from
// the commit's row and not from the row of its thread.
func (t *commitTx) repeat() (h segno.Head, err error) {
	var head, tip, link int64
	var digest []byte
	var isDeleted *bool
	h.Thread = t.Thread
	t.row(`SELECT c.digest, c.head, c.tip, c.seq, c.high, c.epoch, c.link, t.hidden
		FROM commits c LEFT JOIN threads t ON t.n = c.thread WHERE c.id = ?`, []any{string(t.ID)},
		&digest, &head, &tip, &h.Seq, &h.Turn, &h.Epoch, &link, &isDeleted)
	if err := ledger.Repeat(&t.Commit.Commit, isDeleted == nil || *isDeleted, bytes.Equal(digest, t.Digest)); err != nil {
		return h, err
	}
	for to, n := range map[*segno.CommitID]int64{&h.Head: head, &h.Tip: tip} {
		if n != 0 && !t.row(`SELECT id FROM commits WHERE n = ?`, []any{n}, to) {
			return h, corrupt("read commit", fmt.Sprint(n), errors.New("the record is missing"))
		}
	}
	if link != 0 {
		var rec []byte
		t.row(`SELECT record FROM links WHERE n = ?`, []any{link}, &rec)
		h.Link, err = t.s.decodeLink(t.Thread, link, rec)
		h.Link.End = segno.Link{}.End // the link had not ended at that commit
	}
	return h, err
}

// HasNode implements [ledger.Reader]. It stores the number of the found commit for numberOf.
func (t *commitTx) HasNode(id segno.CommitID) (bool, error) {
	if id == t.Parent && t.parent.n != 0 {
		return true, nil
	}
	var n int64
	if !t.row(`SELECT n FROM commits WHERE id = ? AND line IS NOT NULL`, []any{string(id)}, &n) {
		return false, cmp.Or(t.err, missedRow(t.ctx, t.c, "find commit", "commits", string(id)))
	}
	if t.targets == nil {
		t.targets = map[segno.CommitID]int64{}
	}
	t.targets[id] = n
	return true, nil
}

// HasCheckpoint implements [ledger.Reader].
func (t *commitTx) HasCheckpoint(id segno.CommitID) (bool, error) {
	var one int
	return t.row(`SELECT 1 FROM commits WHERE id = ? AND checkpoint IS NOT NULL`, []any{string(id)}, &one), t.err
}

// HasOperation implements [ledger.Reader].
func (t *commitTx) HasOperation(id segno.OperationID) (bool, error) {
	var one int
	return t.row(`SELECT 1 FROM operations WHERE id = ?`, []any{string(id)}, &one), t.err
}

// MissingObject implements [ledger.Reader]. apply has already adopted the objects of the commit.
func (t *commitTx) MissingObject(names []segno.Hash) (segno.Hash, error) {
	name, err := t.s.missingObject(t.ctx, t.c, names)
	if err == nil && !name.IsZero() && slices.Contains(t.staged.reused, name) {
		err = errCollected("commit", name)
	}
	return name, err
}

// target returns the commits to which this commit moves head and tip. [segno.Self] stands for this commit.
func (t *commitTx) target() segno.Move {
	switch {
	case t.Move != nil:
		return *t.Move
	case t.IsNode():
		return segno.Move{Head: segno.Self, Tip: segno.Self}
	}
	return segno.Move{}
}

// numberOf returns the number of the commit to which a pointer moves. before is the number of the commit that
// the pointer has now, and at is the id of that commit. An empty target leaves the pointer unchanged.
func (t *commitTx) numberOf(before int64, at, target segno.CommitID) int64 {
	switch target {
	case "", at:
		return before
	case segno.Self:
		return t.number
	case t.Parent:
		return t.parent.n
	}
	return t.targets[target]
}

// recordedPhase is the phase of thread t. For the condition phase IN (0, 1, 2, 3), SQLite would make a temporary table, which
// takes a fifth of the time of a commit's queries.
const recordedPhase = `coalesce((SELECT 1 FROM phases WHERE phase = 1 AND id = t.id), (SELECT 2 FROM phases WHERE phase = 2 AND id = t.id),
				(SELECT 3 FROM phases WHERE phase = 3 AND id = t.id), 0)`

// readThreadRow reads the thread of the commit.
func (t *commitTx) readThreadRow() (*threadRow, error) {
	row := &threadRow{Thread: ledger.Thread{Head: segno.Head{Thread: t.Thread}}}
	lease := sqlstore.LeaseRow{Thread: t.Thread}
	var link []byte
	if !t.row(`SELECT t.n, t.hidden, t.head, t.tip, t.seq, t.turn, t.epoch, t.link,
			coalesce(h.id, ''), coalesce(p.id, ''), l.record, t.owner, t.expires,
			`+recordedPhase+`
		FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip LEFT JOIN links l ON l.n = t.link
		WHERE t.id = ?`, []any{string(t.Thread)},
		&row.n, &row.Deleted, &row.head, &row.tip, &row.Seq, &row.Turn, &row.Epoch, &row.link, &row.Head.Head, &row.Head.Tip, &link,
		&lease.Owner, &lease.Expires, &row.Phase) {
		if t.err == nil && !t.isVerified {
			t.err = missedRow(t.ctx, t.c, "commit", "threads", string(t.Thread))
		}
		return row, t.err
	}
	row.Exists = true
	lease.Hidden, lease.Epoch = row.Deleted, row.Epoch
	err := database{t.s}.VerifyLease("read thread", &lease)
	if err == nil && row.link != 0 {
		row.Link, err = t.s.decodeLink(t.Thread, row.link, link)
	}
	return row, err
}

// writeLinks adds the commit's link to the chain of the thread and ends the link of the head session.
func (t *commitTx) writeLinks(before, after *threadRow) error {
	if t.Link == nil {
		return nil
	}
	if ended, ends := ledger.EndLink(before.Link, &t.Commit.Commit); ends && before.link != 0 {
		t.exec(`UPDATE links SET record = ? WHERE n = ?`, t.s.sealLink(t.Thread, before.link, record.EncodeLink(&ended)), before.link)
	}
	// The number must be known before the insertion, because the seal of the record includes it.
	var n int64
	t.row(`SELECT coalesce(max(n), 0) + 1 FROM links`, nil, &n)
	if !t.Link.Detached {
		after.link = n
	}
	t.exec(`INSERT INTO links (n, thread, session, record) VALUES (?, ?, ?, ?)`,
		n, after.n, t.s.records.Sealer.Name("session", string(t.Link.Session)), t.s.sealLink(t.Thread, n, t.Encoded.Link))
	return nil
}

// insertCommit writes the commit's row, its terms and the thread's new head. A node continues the line of its
// parent if the parent is the last node of that line. Otherwise the node starts a new line. insertCommit writes
// nothing and returns false if the store has a commit with the same id.
func (t *commitTx) insertCommit(after *threadRow) bool {
	t.at = node{n: t.number, turn: ledger.Turn(&t.Commit.Commit, t.parent.turn)}
	var line, depth any // NULL for a commit that is not a node
	if t.IsNode() {
		t.at.line = t.number
		if t.parent.n != 0 {
			t.at.depth = t.parent.depth + 1
		}
		if t.parent.n != 0 && !t.hasChild {
			t.at.line = t.parent.line
		}
		line, depth = t.at.line, t.at.depth
	}
	changed := t.exec(`INSERT INTO commits
			(n, id, thread, seq, parent, line, depth, turn, high, head, tip, epoch, link, digest, checkpoint, entries)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		t.number, string(t.ID), after.n, after.Seq, t.parent.n, line, depth, t.at.turn, after.Turn,
		after.head, after.tip, int64(after.Epoch), after.link, t.Digest, blob(t.Encoded.Checkpoint), blob(t.Encoded.Entries))
	if t.err == nil && changed == 0 {
		return false
	}
	terms := t.Terms
	if t.Create != nil && t.Create.ParentThread != "" {
		terms = append(terms, t.s.records.Sealer.Term(parentField, string(t.Create.ParentThread)))
	}
	for _, term := range terms {
		t.exec(`INSERT OR IGNORE INTO terms (term, n) VALUES (?, ?)`, term, t.number)
	}
	t.exec(`UPDATE threads SET head = ?, tip = ?, seq = ?, turn = ?, link = ?, changed = ? WHERE n = ?`,
		after.head, after.tip, after.Seq, after.Turn, after.link, t.number, after.n)
	return true
}

// blob returns NULL for a nil slice.
func blob(p []byte) any {
	if p == nil {
		return nil
	}
	return p
}

// writePhase records the phase of the thread. Most commits do not change it.
func (t *commitTx) writePhase(before, after *threadRow) {
	recorded := before.Phase
	if t.s.hasTriggers {
		recorded = segno.PhaseUnknown // phaseTriggers have set it
	}
	if after.Phase != recorded || t.Create != nil {
		t.changePhase(after.n, t.Thread, recorded, after.Phase)
	}
}

func (t *tx) changePhase(n int64, thread segno.ThreadID, before, after segno.Phase) {
	t.exec(`DELETE FROM phases WHERE phase = ? AND id = ?`, before, string(thread))
	t.exec(`INSERT OR REPLACE INTO phases (phase, id, thread) VALUES (?, ?, ?)`, after, string(thread), n)
}

// writeRecords writes the pin, the state of the workspace and the operation.
func (t *commitTx) writeRecords() {
	switch p := t.Pin; {
	case p == nil:
	case p.Name == "":
		t.exec(`DELETE FROM pins WHERE n = (SELECT n FROM commits WHERE id = ?)`, string(p.Checkpoint))
	default:
		var name any = p.Name
		if t.s.records.Sealer != nil {
			name = t.Encoded.Pin
		}
		t.exec(`INSERT OR REPLACE INTO pins (n, name) VALUES ((SELECT n FROM commits WHERE id = ?), ?)`, string(p.Checkpoint), name)
	}
	if w := t.Workspace; w != nil {
		t.exec(`INSERT INTO workspaces (id, state) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state`,
			string(w.Workspace), t.Encoded.State)
	}
	if o := t.Operation; o != nil {
		t.exec(`INSERT INTO operations (id, workspace, record) VALUES (?, ?, ?)`, string(o.ID), string(o.Workspace), t.Encoded.Operation)
	}
}
