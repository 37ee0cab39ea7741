package postgres

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/phase"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// hashOf returns the hash that represents a name of any length in an index.
func hashOf(name string) []byte {
	h := segno.HashOf([]byte(name))
	return h[:16]
}

// hashOrNull is hashOf, but returns NULL for an empty name.
func hashOrNull(name string) []byte {
	if name == "" {
		return nil
	}
	return hashOf(name)
}

// dialect returns the queries of this database.
func (s *Store) dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		Checkpoints: s.checkpointQuery,
		FirstPage:   sqlstore.MaxPage,
		Threads:     s.threadQuery,
		InPhase: func(p segno.Phase, after segno.ThreadID, count int) (string, []any) {
			return `SELECT id, record, head, seq, true FROM {}threads WHERE phase = $1 AND id > $2 AND NOT hidden ORDER BY id LIMIT $3`,
				[]any{int16(p), []byte(after), count}
		},
		Remember:   s.rememberPhase,
		Workspaces: workspaceQuery, InodeBits: 1,
		Seqs: func(ids []segno.ThreadID) (string, []any) {
			return `SELECT id, seq FROM {}threads WHERE id = ANY($1) AND NOT hidden`, []any{idList(ids)}
		},
		Chain: `SELECT l.record, c.id FROM {}links l JOIN {}commits c ON c.thread = l.thread AND c.seq = l.seq
			WHERE l.thread = (SELECT n FROM {}threads WHERE id = ?1 AND NOT hidden) ORDER BY l.seq`,
		Pointers: `SELECT head, tip FROM {}threads WHERE NOT hidden AND changed > ?1
			UNION ALL SELECT c.id, c.id FROM {}pins p JOIN {}commits c ON c.n = p.n`,
		Operations: `SELECT id, workspace, record FROM {}operations WHERE n > ?1`,
		Log:        `SELECT id, record, true FROM {}operations WHERE workspace = ?1 ORDER BY n DESC`,
	}
}

// checkpointQuery returns the query for one page. It starts with the most selective condition, in the order
// of that condition's index. The order is seq for the checkpoints of a thread, and otherwise n.
func (s *Store) checkpointQuery(q *segno.CheckpointQuery, before int64, count int) (string, []any) {
	var where sqlstore.Where
	from, order := "{}commits c", "c.n"
	terms := s.records.Sealer.Asked(q)
	switch {
	case len(terms) > 0:
		from, order = "{}terms x JOIN {}commits c ON c.n = x.n", "x.n"
	case q.Pinned:
		from = "{}pins x JOIN {}commits c ON c.n = x.n"
	case q.IDPrefix == "" && q.Thread != "":
		order = "c.seq"
	}
	where.CheckpointConditions(database{s}, q, terms, order, before)
	where.And("NOT t.hidden")
	limit := where.Arg(count)
	// The commits of a thread are numbered without gaps. The planner may use a hash of all commits for an
	// EXISTS, but never for a scalar subquery.
	return `SELECT ` + order + `, c.id, c.seq, t.id, p.id, c.checkpoint, pin.name, CASE WHEN c.parent IS NOT NULL AND p.n IS NULL
			OR c.seq > 1 AND (SELECT x.n FROM {}commits x WHERE x.thread = c.thread AND x.seq = c.seq - 1) IS NULL
			OR c.seq < t.seq AND (SELECT x.n FROM {}commits x WHERE x.thread = c.thread AND x.seq = c.seq + 1) IS NULL
			THEN 'a commit beside it is missing' END, false, NULL::bytea, 0, 0
		FROM ` + from + ` JOIN {}threads t ON t.n = c.thread
			LEFT JOIN {}commits p ON p.n = c.parent LEFT JOIN {}pins pin ON pin.n = c.n
		WHERE ` + where.String() + ` ORDER BY ` + order + ` DESC LIMIT ` + limit, where.Args
}

// threadQuery returns the query Threads of [sqlstore.Dialect].
func (s *Store) threadQuery(q *segno.ThreadQuery) (string, []any) {
	var where sqlstore.Where
	where.And("NOT t.hidden")
	if q.ParentThread != "" {
		where.And("t.whole = %s", hashOf(string(q.ParentThread)))
	}
	if q.TopLevel {
		where.And("t.whole IS NULL")
	}
	if q.Workspace != "" {
		where.And("t.workspace = %s", hashOf(string(q.Workspace)))
	}
	if q.Session != "" {
		where.And("t.n IN (SELECT thread FROM {}links WHERE session = %s)", hashOf(s.records.Sealer.Name("session", string(q.Session))))
	}
	where.Prefix(database{s}, "t.id", q.IDPrefix)
	query := `SELECT t.id, t.record, true, false, NULL::bytea, 0, 0 FROM {}threads t WHERE ` + where.String() + ` ORDER BY t.changed DESC`
	if q.Limit > 0 {
		query += ` LIMIT ` + where.Arg(q.Limit)
	}
	return query, where.Args
}

// rememberPhase records the phase of a thread if the thread has not changed meanwhile. It does nothing on a
// standby, which is read-only.
func (s *Store) rememberPhase(ctx context.Context, f phase.Found, p segno.Phase) error {
	_, err := database{s}.Change(ctx, "list threads", string(f.Thread.ID), `UPDATE {}threads SET phase = $1 WHERE id = $2 AND seq = $3`,
		int16(p), []byte(f.Thread.ID), f.Seq)
	if segno.KindOf(err) == segno.KindRefused {
		return nil
	}
	return err
}

// workspaceQuery returns the query Workspaces of [sqlstore.Dialect].
func workspaceQuery(paths [][]byte, device, inode int64) (string, []any) {
	hashes := make([][]byte, len(paths))
	for i, p := range paths {
		h := segno.HashOf(p)
		hashes[i] = h[:]
	}
	return `SELECT id, record, state, true FROM {}workspaces WHERE record IS NOT NULL AND
		(sha256(path) = ANY($1::bytea[]) OR $3::bigint <> 0 AND inode = $3 AND device = $2::bigint OR $3 = 0
			AND cardinality($1::bytea[]) = 0)
		ORDER BY length(path) DESC, id`, []any{hashes, device, inode}
}
