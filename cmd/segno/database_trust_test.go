package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/transfer/arrivals"
)

// TestAForkExecutesNoUntrustedStatements forks a pulled checkpoint with a PostgreSQL database. segno must not execute the statements
// that make the copy until the user trusts the thread.
func TestAForkExecutesNoUntrustedStatements(t *testing.T) {
	p := newProject(t, `CREATE TABLE t (x int); INSERT INTO t VALUES (1)`)
	p.turn("begin", func() { p.write("a", "1") })
	p.segno("world", "attach", p.url(p.database))
	p.turn("change", func() { p.sql(`UPDATE t SET x = 2`) })
	thread := p.arrive()
	copied := p.database + "_fork"
	t.Cleanup(func() { p.admin("DROP DATABASE IF EXISTS " + copied) })
	to := filepath.Join(filepath.Dir(p.dir), "fork")
	for _, args := range [][]string{{"fork", "t2", "--to", to, "--dry-run"}, {"fork", "t2", "--to", to}} {
		if out, code := p.try(args...); code != 5 || !strings.Contains(out, "the database ") {
			t.Errorf("%q: exit code %d\n%s", args, code, out)
		}
	}
	p.want("the copies", p.admin(`SELECT count(*) FROM pg_database WHERE datname = '`+copied+`'`), "0")
	p.segno("pull", thread, "--trust")
	p.segno("fork", "t2", "--to", to)
	p.want("the copy", p.on(copied, `SELECT x FROM t`), "2")
}

// arrive records the commits of the project's thread as those of another machine.
func (p *project) arrive() string {
	p.Helper()
	ctx := p.Context()
	env := map[string]string{"HOME": p.home, "XDG_DATA_HOME": filepath.Join(p.home, "data")}
	place, err := local.FindPlace(func(name string) string { return env[name] }, "")
	if err != nil {
		p.Fatal(err)
	}
	store, err := place.Open(ctx)
	if err != nil {
		p.Fatal(err)
	}
	defer store.Close()
	var thread segno.ThreadID
	for t, err := range store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			p.Fatal(err)
		}
		thread = t.ID
	}
	head, err := store.Head(ctx, thread)
	if err != nil {
		p.Fatal(err)
	}
	line, err := store.Load(ctx, head.Head, segno.Window{})
	if err != nil {
		p.Fatal(err)
	}
	var commits []segno.Commit
	for _, n := range line.Commits {
		commits = append(commits, segno.Commit{ID: n.ID, Thread: n.Thread, Parent: n.Parent, Checkpoint: n.Checkpoint})
	}
	if err := arrivals.NewRecorder(store).Record(ctx, thread, commits); err != nil {
		p.Fatal(err)
	}
	return string(thread)
}
