package local_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// databaseFixture is a project with two attached databases: one in it and one beside it.
type databaseFixture struct {
	*fixture
	inside, outside string
}

// newDatabaseFixture returns a project after three turns. The first turn makes the database in the project, the second
// changes everything, and the third deletes the database outside.
func newDatabaseFixture(t testing.TB) *databaseFixture {
	g := newFixture(t)
	d := &databaseFixture{g, filepath.Join(g.project, "data", "dev.db"), filepath.Join(filepath.Dir(g.project), "out.db")}
	g.write("a", "0")
	g.write("data/notes", "0")
	d.exec(d.outside, "CREATE TABLE t(x); INSERT INTO t VALUES (0)")
	d.exec(d.inside, "CREATE TABLE gone(x)")
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		var all []database.Attachment
		for _, file := range []string{d.inside, d.outside} {
			at, err := database.New(g.project, file)
			if err != nil {
				return err
			}
			all = append(all, at)
		}
		return s.SetDatabases(tl.Workspace.ID(), all)
	})
	if err != nil {
		t.Fatal(err)
	}
	d.delete(d.inside)
	acts := []func(){
		func() { g.write("a", "1"); d.exec(d.inside, "CREATE TABLE t(x); INSERT INTO t VALUES (1)") },
		func() {
			g.write("a", "2")
			d.exec(d.inside, "UPDATE t SET x = 2; CREATE TABLE big(y); INSERT INTO big VALUES (zeroblob(100000))")
			d.exec(d.outside, "UPDATE t SET x = 2")
		},
		func() { g.write("a", "3"); d.delete(d.outside) },
	}
	for i, act := range acts {
		if err := g.turn(string(rune('A'+i)), act); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *databaseFixture) exec(file, statements string) {
	d.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		d.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		d.Fatal(err)
	}
}

func (d *databaseFixture) delete(file string) {
	d.Helper()
	if err := os.Remove(file); err != nil {
		d.Fatal(err)
	}
}

// state returns the file a and the value in each database, "-" if it does not exist.
func (d *databaseFixture) state() string {
	d.Helper()
	a, err := os.ReadFile(filepath.Join(d.project, "a"))
	if err != nil {
		d.Fatal(err)
	}
	state := string(a)
	for _, file := range []string{d.inside, d.outside} {
		if _, err := os.Lstat(file); err != nil {
			state += " -"
			continue
		}
		db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
		if err != nil {
			d.Fatal(err)
		}
		var x string
		err = db.QueryRow("SELECT x || iif((SELECT * FROM pragma_integrity_check) = 'ok', '', ' damaged') FROM t").Scan(&x)
		if err != nil {
			x = err.Error()
		}
		db.Close()
		state += " " + x
	}
	return state
}

func (d *databaseFixture) want(state string) {
	d.Helper()
	if got := d.state(); got != state {
		d.Fatalf("the state is %q, want %q", got, state)
	}
}

func TestDatabasesMoveWithFiles(t *testing.T) {
	d := newDatabaseFixture(t)
	for _, step := range []struct {
		verb  segno.Verb
		turns int
		want  string
	}{
		{segno.VerbUndo, 1, "2 2 2"}, {segno.VerbUndo, 1, "1 1 0"}, {segno.VerbUndo, 1, "0 - 0"},
		{segno.VerbRedo, 2, "2 2 2"}, {segno.VerbUndo, 2, "0 - 0"}, {segno.VerbRedo, 3, "3 2 -"}, {segno.VerbUndo, 3, "0 - 0"},
	} {
		if _, err := d.move(nil, timeline.MoveRequest{Verb: step.verb, Turns: step.turns}); err != nil {
			t.Fatalf("%s %d: %v", step.verb, step.turns, err)
		}
		d.want(step.want)
	}
	d.checkStore()
	err := d.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		_, err := s.Collect(ctx, segno.CollectPolicy{Trace: s.NewTrace()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 3}); err != nil {
		t.Fatal(err)
	}
	d.want("3 2 -")
	d.checkStore()
}

// The process was killed after it wrote the plan to the journal and before it wrote any file.
func TestInterruptedMoveOfDatabases(t *testing.T) {
	d := newDatabaseFixture(t)
	err := d.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
		p, err := tl.Preview(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
		if err != nil {
			return err
		}
		data, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return tl.Spool.WritePlan(ctx, tl.Workspace.ID(), data)
	})
	if err != nil {
		t.Fatal(err)
	}
	d.want("3 2 -")
	d.runNextCommand()
	d.want("1 1 0")
}

func TestKilledInMidMoveOfDatabases(t *testing.T) {
	d := newDatabaseFixture(t)
	for range soak.Count(t, 8, 200) {
		killOnce(t, filepath.Dir(d.project))
		d.runNextCommand()
		if got := d.state(); got != "3 2 -" && got != "1 1 0" {
			t.Fatalf("after a kill the state is %q", got)
		}
	}
	d.checkStore()
}

// TestEveryFailureOfAMoveOfDatabases fails each disk operation of an undo that creates a database.
func TestEveryFailureOfAMoveOfDatabases(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	step := 3 // a sample
	if soak.IsWhole() {
		step = 1
	}
	for n, done := 0, false; !done; n += step {
		d := newDatabaseFixture(t)
		faults := faultfs.FailAt(n)
		faults.Forever = true
		_, err := d.move(faults.Wrap(vfs.OS), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 2})
		done = !faults.Fired()
		if done && err != nil {
			t.Fatal(err)
		}
		d.runNextCommand()
		if got := d.state(); got != "3 2 -" && got != "1 1 0" {
			t.Fatalf("after operation %d failed (%s) the state is %q", n, faults.Trace()[n], got)
		}
		d.checkStore()
	}
}

// An unchanged database is not read again, and makes no checkpoint.
func TestUnchangedDatabasesMakeNoCheckpoint(t *testing.T) {
	d := newDatabaseFixture(t)
	before, _ := d.checkpoints()
	for range 2 {
		if err := d.turn("quiet", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	after, _ := d.checkpoints()
	if external := after[len(before)].Kind; external == segno.CheckpointExternal {
		t.Error("a change was recorded before the turn, although there was none")
	}
	if !after[len(after)-1].Workspace.Equals(before[len(before)-1].Workspace) {
		t.Error("the state of the databases changed")
	}
}

// TestTheDirectoryOfADatabaseComesBackFirst undoes a turn that put something else in the place of the directory of a database.
func TestTheDirectoryOfADatabaseComesBackFirst(t *testing.T) {
	for what, replace := range map[string]func(dir string) error{
		"a symlink that leads nowhere": func(dir string) error { return os.Symlink("nowhere", dir) },
		"a file":                       func(dir string) error { return os.WriteFile(dir, nil, 0o644) },
	} {
		t.Run(what, func(t *testing.T) {
			d := newDatabaseFixture(t)
			dir := filepath.Dir(d.inside)
			act := func() {
				if err := errors.Join(os.RemoveAll(dir), replace(dir)); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.turn("D", act); err != nil {
				t.Fatal(err)
			}
			moved, err := d.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
			if err != nil || len(moved.Plan.Conflicts) > 0 {
				t.Fatalf("%+v, %v", moved, err)
			}
			d.want("3 2 -")
			if _, err := d.move(nil, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1}); err != nil {
				t.Fatal(err)
			}
			d.want("3 - -")
		})
	}
}
