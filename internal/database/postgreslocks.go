package database

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// locksPerRelation is the number of locks that a move takes for each table, index, sequence and TOAST table. It locks
// the object that it drops, the object that it creates, and their types, constraints and defaults. The measured number
// is 4.6 for tables with a serial primary key and a text column.
const locksPerRelation = 5

// selectLocks returns the present value of the setting, and a value that is enough for a move of the database. All
// connections share one lock table with that many locks for each connection, so a transaction can use the locks that
// others do not need.
const selectLocks = `SELECT current_setting('max_locks_per_transaction'), greatest(2 * current_setting('max_locks_per_transaction')::int,
	64 * ceil(count(*) * %d / 64.0 / (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int)))
	FROM pg_class WHERE oid >= 16384`

// explainLocks replaces the error of a server whose lock table is full. A transaction keeps all its locks until its
// end, so a database with many tables needs a larger lock table.
func (w *Attached) explainLocks(ctx context.Context, at Attachment, err error) error {
	if !strings.Contains(err.Error(), "out of shared memory") {
		return err
	}
	now, want := "", "a larger value"
	s := postgresSession{pg: w.options.Postgres, at: at} // new, because the old session's transaction is aborted
	defer s.close(ctx)
	if _, openErr := s.open(ctx, ""); openErr == nil {
		if rows, queryErr := s.conn.Exec(ctx, fmt.Sprintf(selectLocks, locksPerRelation)); queryErr == nil && len(rows) == 1 {
			now, want = ", which is "+rows[0][0], rows[0][1]
		}
	}
	return errors.New("the server has too few locks for its tables: set max_locks_per_transaction" + now + ", to " + want + ", and restart the server")
}
