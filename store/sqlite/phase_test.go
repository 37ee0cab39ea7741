package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
)

// TestPhasesOfAnOlderStore verifies that queries by phase work on a store of version 1, even if it cannot be
// upgraded, and that the store records the phases that a query found.
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

// TestPhasesBesideAnOlderProcess continues to commit with a process that opened a store of version 1 before
// another process upgraded it. Each thread must have one phase, and never the phase of an older commit.
func TestPhasesBesideAnOlderProcess(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1"))); err != nil {
		t.Fatal(err)
	}
	old, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	var one string
	if err := old.QueryRowContext(t.Context(), "SELECT min(id) FROM threads WHERE NOT hidden").Scan(&one); err != nil {
		t.Fatal(err)
	}
	commit, err := old.PrepareContext(t.Context(), "UPDATE threads SET seq = seq WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer commit.Close()
	s := openIn(t, dir, Options{})
	defer s.Close()
	storetest.Phases(t, s)
	phase := func(id string) (found []int) {
		t.Helper()
		rows, err := s.db.QueryContext(t.Context(), "SELECT phase FROM phases WHERE id = ?", id)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			found = append(found, 0)
			if err := rows.Scan(&found[len(found)-1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return found
	}
	want := func(id string, phases ...int) {
		t.Helper()
		if found := phase(id); !slices.Equal(found, phases) {
			t.Errorf("the phases of %s are %v; want %v", id, found, phases)
		}
	}
	if found := phase(one); len(found) != 1 || found[0] == 0 {
		t.Fatalf("the phases of %s are %v; want one that is known", one, found)
	}
	if _, err := commit.ExecContext(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	want(one, 0)
	if _, err := old.ExecContext(t.Context(), `INSERT INTO threads (id, hidden, head, tip, seq, turn, epoch, link, changed, workspace, owner, expires, record)
		SELECT 'made', 0, 0, 0, 0, 0, 0, 0, 0, '', '', 0, record FROM threads WHERE id = ?`, one); err != nil {
		t.Fatal(err)
	}
	want("made", 0)
	if _, err := old.ExecContext(t.Context(), "UPDATE threads SET hidden = 1 WHERE id = 'made'"); err != nil {
		t.Fatal(err)
	}
	want("made")
	head, err := s.Head(t.Context(), segno.ThreadID(one))
	if err != nil {
		t.Fatal(err)
	}
	turn := segno.Commit{ID: "a turn", Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1}}
	if _, err := s.Commit(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	want(one, int(segno.PhaseDone))
	if err := openIn(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
}
