package postgres

import (
	"testing"

	"github.com/dalsegno/segno"
)

// TestPhasesOfAnOlderStore: a store of version 1 is upgraded, and its threads are found by
// phase.
func TestPhasesOfAnOlderStore(t *testing.T) {
	s := openStore(t, Options{})
	fill(t, s, "text")
	meddle(t, s, `ALTER TABLE {}threads DROP COLUMN phase`)
	meddle(t, s, `UPDATE {}meta SET version = 1`)
	s = openStore(t, s.options)
	n := 0
	for p := segno.PhaseDone; p <= segno.PhaseWaiting; p++ {
		for th, err := range s.Threads(t.Context(), segno.ThreadQuery{Phase: p}) {
			if err != nil {
				t.Fatal(err)
			}
			head, err := s.Head(t.Context(), th.ID)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := segno.ReadPhase(t.Context(), s, head.Head); err != nil || want != p {
				t.Errorf("thread %s is found in phase %d and is in phase %d: %v", th.ID, p, want, err)
			}
			n++
		}
	}
	var recorded int
	if err := s.pool.QueryRow(t.Context(), s.sql(`SELECT count(*) FROM {}threads WHERE phase <> 0`)).Scan(&recorded); err != nil || n == 0 || recorded != n {
		t.Errorf("%d threads are found, of %d the phase is recorded: %v", n, recorded, err)
	}
}
