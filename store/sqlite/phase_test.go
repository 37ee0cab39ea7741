package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/google/go-cmp/cmp"
)

// TestPhasesOfAnOlderStore: threads of a store of version 1 are found by phase, also where
// the store cannot be upgraded, and the phases are recorded once they were asked for.
func TestPhasesOfAnOlderStore(t *testing.T) {
	for name, readOnly := range map[string]bool{"upgraded": false, "read-only": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1"))); err != nil {
				t.Fatal(err)
			}
			s := openIn(t, dir, Options{ReadOnly: readOnly})
			defer s.Close()
			want, err := segno.ReadPhase(t.Context(), s, "one")
			if err != nil {
				t.Fatal(err)
			}
			for p := segno.PhaseDone; p <= segno.PhaseWaiting; p++ {
				var found []segno.ThreadID
				for th, err := range s.Threads(t.Context(), segno.ThreadQuery{Phase: p}) {
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, th.ID)
				}
				if (len(found) == 1) != (p == want) {
					t.Errorf("in phase %d are %v, the thread is in phase %d", p, found, want)
				}
			}
			if readOnly {
				return
			}
			var phases []int
			rows, err := s.db.QueryContext(t.Context(), "SELECT phase FROM phases")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var p int
				if err := rows.Scan(&p); err != nil {
					t.Fatal(err)
				}
				phases = append(phases, p)
			}
			if diff := cmp.Diff([]int{int(want)}, phases); diff != "" {
				t.Errorf("what is recorded (-want +got):\n%s", diff)
			}
		})
	}
}
