package fleet

import (
	"context"
	"strings"
	"testing"

	"github.com/dalsegno/segno/store/postgres"
	"github.com/jackc/pgx/v5"
)

// TestAFullMailboxIsSearched verifies that the front of a mailbox with many prompts is found in indexes, and that open prompts are found
// without reading those that have ended.
func TestAFullMailboxIsSearched(t *testing.T) {
	r := newRig(t)
	r.execute(`INSERT INTO {}fleet_prompts (thread, key, digest, tenant, priority, state, record)
		SELECT 't', convert_to(i::text, 'UTF8'), '', '', 2, CASE WHEN i % 10 = 0 THEN 'sent' ELSE 'done' END, '' FROM generate_series(1, 20000) i`)
	r.execute(`ANALYZE {}fleet_prompts`)
	err := r.store.OnConn(t.Context(), "", "", func(ctx context.Context, conn postgres.Conn) error {
		rows, err := conn.Query(ctx, r.sql(`EXPLAIN SELECT n`+selectFront), []byte("t"))
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
			t.Errorf("the front is found by\n%s", plan)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
