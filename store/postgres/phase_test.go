package postgres

import (
	"testing"

	"github.com/dalsegno/segno/store/storetest"
)

// TestPhasesOfAnOlderStore verifies that Open upgrades a store of version 1, and that queries by phase find
// its threads.
func TestPhasesOfAnOlderStore(t *testing.T) {
	s := openStore(t, Options{})
	fill(t, s, "text")
	execute(t, s, `ALTER TABLE {}threads DROP COLUMN phase`)
	execute(t, s, `UPDATE {}meta SET version = 1`)
	s = openStore(t, s.options)
	storetest.Phases(t, s)
	var unknown, all int
	err := s.pool.QueryRow(t.Context(), s.sql(`SELECT count(*) FILTER (WHERE phase = 0), count(*) FROM {}threads`)).Scan(&unknown, &all)
	if err != nil || unknown != 0 || all == 0 {
		t.Errorf("of %d threads the phases of %d are not recorded: %v", all, unknown, err)
	}
}
