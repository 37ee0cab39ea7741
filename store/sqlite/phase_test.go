package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/store/storetest"
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
			storetest.Phases(t, s)
			if readOnly {
				return
			}
			var unknown, all int
			err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FILTER (WHERE phase = 0), count(*) FROM phases").Scan(&unknown, &all)
			if err != nil || unknown != 0 || all == 0 {
				t.Errorf("of %d threads the phases of %d are not recorded: %v", all, unknown, err)
			}
		})
	}
}
