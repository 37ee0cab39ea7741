package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/phase"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// dialect returns the queries and checks of this database.
func (s *Store) dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		Checkpoints: s.checkpointQuery,
		FirstPage:   4, // many callers stop at one of the newest
		VerifyPage:  s.verifyPages,
		Threads:     s.threadQuery, VerifyThreads: s.verifyThreads,
		InPhase: s.phaseQuery, Remember: s.rememberPhase,
		Workspaces: workspaceQuery,
		HasChanged: hasChanged,
		Seqs: func(ids []segno.ThreadID) (string, []any) {
			list, _ := json.Marshal(ids) // strings have an encoding
			return `SELECT id, seq FROM threads WHERE id IN (SELECT value FROM json_each(?1)) AND NOT hidden`, []any{string(list)}
		},
		Chain: `SELECT l.record, l.n FROM links l WHERE l.thread = (SELECT n FROM threads WHERE id = ?1 AND NOT hidden)
			ORDER BY l.n`,
		Pointers: `SELECT h.id, p.id FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip
			WHERE NOT t.hidden AND t.changed > ?1
			UNION ALL SELECT c.id, c.id FROM pins x JOIN commits c ON c.n = x.n`,
		Operations: `SELECT id, workspace, record FROM operations WHERE ?1 >= 0`,
		Log:        operationLog,
	}
}

// hasChanged implements HasChanged of [sqlstore.Dialect]. SQLite changes the number when another connection
// commits. hasChanged need not detect the commits of this process, because they notify the waiting callers.
func hasChanged(ctx context.Context, q sqlstore.Querier) (bool, error) {
	c := q.(*conn)
	before := c.polledVersion
	_, err := c.row(ctx, "PRAGMA data_version", nil, &c.polledVersion)
	return c.polledVersion != before, err
}

// checkpointQuery returns the query for a page. The query starts with the rarest condition. The CROSS JOINs
// prevent SQLite from starting with another condition.
func (s *Store) checkpointQuery(q *segno.CheckpointQuery, before int64, count int) (string, []any) {
	var where sqlstore.Where
	from, position, order := "commits c", "c.n", "c.n"
	terms := s.records.Sealer.Asked(q)
	switch {
	case len(terms) > 0:
		from, position, order = "terms x CROSS JOIN commits c ON c.n = x.n", "x.n", "x.n"
	case q.Pinned:
		from, position = "pins x CROSS JOIN commits c ON c.n = x.n", "x.n"
	case q.IDPrefix == "" && q.Thread != "":
		from, order = "threads o CROSS JOIN commits c INDEXED BY commits_seq ON c.thread = o.n", "c.seq"
		where.And("o.id = %s", string(q.Thread))
	}
	where.CheckpointConditions(database{s}, q, terms, position, before)
	limit := where.Arg(count)
	return fmt.Sprintf(`SELECT c.n, c.id, c.seq, coalesce(t.id, ''), coalesce(p.id, ''), c.checkpoint, coalesce(pin.name, ''),
			CASE WHEN t.hidden THEN NULL
				WHEN ((SELECT x.n FROM commits x WHERE x.id = c.id) = c.n AND (SELECT y.n FROM threads y
					WHERE y.id = t.id) = t.n) IS NOT 1 THEN '%s'
				WHEN (CASE WHEN c.parent = 0 THEN c.depth = 0 ELSE c.depth = p.depth + 1
					AND (c.line = p.line OR c.line = c.n) END) IS NOT 1 THEN '%s' END,
			coalesce(t.hidden, 0), CASE WHEN t.hidden THEN t.owner END, coalesce(t.expires, 0), coalesce(t.epoch, 0)
		FROM %s LEFT JOIN threads t ON t.n = c.thread
			LEFT JOIN commits p ON p.n = c.parent LEFT JOIN pins pin ON pin.n = c.n
		WHERE %s ORDER BY %s DESC LIMIT %s`, sqlstore.ErrID, errPlace, from, where.String(), order, limit), where.Args
}

// LeafFilter returns a function that returns false only for a leaf of a transcript at which no checkpoint
// ended when LeafFilter was called. It reads the terms of all checkpoints, so it is faster than single queries
// from some hundred leaves on.
func (s *Store) LeafFilter(ctx context.Context) (mayEnd func(leaf string) bool, err error) {
	terms := map[int64]struct{}{}
	err = s.read(ctx, "read terms", "", func(ctx context.Context, c *conn) error {
		var term int64
		return c.Query(ctx, `SELECT DISTINCT term FROM terms`, nil, []any{&term}, func() error {
			terms[term] = struct{}{}
			return nil
		})
	})
	return func(leaf string) bool {
		_, ok := terms[s.records.Sealer.Asked(&segno.CheckpointQuery{Leaf: leaf})[0]]
		return ok
	}, err
}

// EachLink calls visit for each link of the threads that are not deleted. The most recently changed thread comes first,
// with its oldest link first. seq belongs to the thread's head, and isHead marks the link of the head. EachLink reads
// all links, so it is faster than single queries from some hundred sessions on. A session that no call of visit names
// has no link.
func (s *Store) EachLink(ctx context.Context, visit func(thread segno.ThreadID, seq int64, l segno.Link, isHead bool)) error {
	const op = "list links"
	return s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		type row struct {
			thread          segno.ThreadID
			changed, n, seq int64
			segno.Link
			isHead bool
		}
		var all []row // SQLite would sort the rows of a large store in a temporary file
		var n, seq, changed int64
		var rec []byte
		var l sqlstore.LeaseRow
		var hasThread, isHead bool
		err := c.Query(ctx, `SELECT l.n, l.record, t.n IS NOT NULL, coalesce(t.seq, 0), coalesce(t.changed, 0), coalesce(t.link = l.n, 0),
				coalesce(t.id, ''), coalesce(t.hidden, 0), coalesce(t.owner, ''), coalesce(t.expires, 0), coalesce(t.epoch, 0)
			FROM links l NOT INDEXED LEFT JOIN threads t ON t.n = l.thread`, nil,
			append([]any{&n, &rec, &hasThread, &seq, &changed, &isHead, &l.Thread}, l.Dest()...), func() error {
				if !hasThread {
					return corrupt(op, strconv.FormatInt(n, 10), errKey)
				}
				if err := (database{s}).VerifyLease(op, &l); err != nil || l.Hidden {
					return err
				}
				link, err := s.decodeLink(l.Thread, n, rec)
				all = append(all, row{l.Thread, changed, n, seq, link, isHead})
				return err
			})
		if err == nil {
			slices.SortFunc(all, func(a, b row) int { return cmp.Or(cmp.Compare(b.changed, a.changed), cmp.Compare(a.n, b.n)) })
			for i := range all {
				visit(all[i].thread, all[i].seq, all[i].Link, all[i].isHead)
			}
		}
		var isComplete bool
		if err == nil {
			_, err = c.row(ctx, `SELECT (SELECT count(*) FROM links NOT INDEXED) = (SELECT count(*) FROM links INDEXED BY links_session)`, nil,
				&isComplete)
		}
		if err == nil && !isComplete {
			err = corrupt(op, "", errKey)
		}
		return err
	})
}

// parentField is the field of the term by which the first commit of a child thread names the parent.
const parentField = "of"

// threadQuery returns a query that finds at least the threads that match q. The caller compares their records
// with q. The query finds child threads by the term of their first commit. It lists the threads that are not
// deleted, and the damaged rows that only seem to be deleted.
func (s *Store) threadQuery(q *segno.ThreadQuery) (string, []any) {
	var where sqlstore.Where
	from := "threads t"
	if q.ParentThread != "" {
		from = "terms x CROSS JOIN commits c ON c.n = x.n CROSS JOIN threads t ON t.n = c.thread"
		where.And("x.term = %s", s.records.Sealer.Term(parentField, string(q.ParentThread)))
	}
	where.And("(t.hidden IS NOT 1 OR (SELECT z.n FROM threads z WHERE z.id = t.id) IS NOT t.n)")
	if q.Workspace != "" {
		where.And("t.workspace = %s", string(q.Workspace))
	}
	if q.Session != "" {
		where.And("t.n IN (SELECT thread FROM links WHERE session = %s)", s.records.Sealer.Name("session", string(q.Session)))
	}
	where.Prefix(database{s}, "t.id", q.IDPrefix)
	query := `SELECT t.id, t.record, (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n AND t.hidden = 0
			AND t.changed = (SELECT m.n FROM commits m WHERE m.thread = t.n AND m.seq = t.seq), t.hidden, t.owner, t.expires, t.epoch
		FROM ` + from + ` WHERE ` + where.String() + ` ORDER BY t.changed DESC`
	if q.Limit > 0 && !q.TopLevel && q.ParentThread == "" {
		query += " LIMIT " + where.Arg(q.Limit)
	}
	return query, where.Args
}

// phaseQuery is the query InPhase of [sqlstore.Dialect]. In a store without phases, the phases of all threads are
// unknown.
func (s *Store) phaseQuery(p segno.Phase, after segno.ThreadID, count int) (string, []any) {
	const columns = `SELECT t.id, t.record, coalesce(h.id, ''), t.seq, (SELECT y.n FROM threads y WHERE y.id = t.id) = t.n`
	const heads = ` LEFT JOIN commits h ON h.n = t.head `
	switch {
	case s.hasPhases:
		return columns + ` AND x.id = t.id AND NOT t.hidden FROM phases x JOIN threads t ON t.n = x.thread` + heads +
			`WHERE x.phase = ? AND x.id > ? ORDER BY x.id LIMIT ?`, []any{p, string(after), count}
	case p == segno.PhaseUnknown:
		return columns + ` FROM threads t` + heads + `WHERE NOT t.hidden AND t.id > ? ORDER BY t.id LIMIT ?`, []any{string(after), count}
	}
	return "", nil
}

// rememberPhase records the phase of a thread, unless the thread has changed since the phase was read.
func (s *Store) rememberPhase(ctx context.Context, f phase.Found, p segno.Phase) error {
	if s.options.ReadOnly || !s.hasPhases {
		return nil
	}
	id := string(f.Thread.ID)
	return s.write(ctx, "list threads", id, func(tx *tx) error {
		var n int64
		if tx.row(`SELECT n FROM threads WHERE id = ? AND seq = ? AND NOT hidden`, []any{id, f.Seq}, &n) {
			tx.changePhase(n, f.Thread.ID, segno.PhaseUnknown, p)
		}
		return nil
	})
}

func (s *Store) sealLink(thread segno.ThreadID, n int64, rec []byte) []byte {
	return s.records.Sealer.Seal(rec, "link", string(thread), strconv.FormatInt(n, 10))
}

// decodeLink decodes the record of the link with number n.
func (s *Store) decodeLink(thread segno.ThreadID, n int64, rec []byte) (segno.Link, error) {
	if rec == nil {
		rec = []byte{} // a missing link is damage, and an empty record makes Link report it
	}
	return s.records.Link(thread, rec, "link", string(thread), strconv.FormatInt(n, 10))
}

// workspaceQuery is the query Workspaces of [sqlstore.Dialect].
func workspaceQuery(paths [][]byte, device, inode int64) (string, []any) {
	var args []any
	var where []string
	if len(paths) > 0 {
		where = append(where, `path IN (`+strings.TrimSuffix(strings.Repeat("?,", len(paths)), ",")+`)`)
		for _, p := range paths {
			args = append(args, p)
		}
	}
	if inode != 0 {
		where = append(where, `inode = ? AND device = ?`)
		args = append(args, inode, device)
	}
	if where == nil {
		where = []string{"1"}
	}
	return `SELECT id, record, state, (SELECT x.rowid FROM workspaces x WHERE x.id = w.id) IS w.rowid FROM workspaces w
		WHERE record IS NOT NULL AND (` + strings.Join(where, " OR ") + `) ORDER BY length(path) DESC, id`, args
}

// operationLog is the query Log of [sqlstore.Dialect]. It reads both the rows and the index: an operation that only one
// of them has is damage.
const operationLog = `SELECT id, record, workspace = ?1 AND x.n IS NOT NULL
	FROM operations o NOT INDEXED
		LEFT JOIN (SELECT n FROM operations INDEXED BY operations_workspace WHERE workspace = ?1) x ON x.n = o.n
	WHERE workspace = ?1 OR x.n IS NOT NULL ORDER BY o.n DESC`
