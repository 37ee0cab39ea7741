package database_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
)

// TestKilledMove kills a process that moves a database back and forth. After that, the database has one of the two
// states.
func TestKilledMove(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	if dir := os.Getenv("SEGNO_TEST_MOVE_IN"); dir != "" {
		moveForever(t, dir)
	}
	for _, mode := range []string{"delete", "wal"} {
		f := newFixture(t)
		f.sql("PRAGMA journal_mode="+mode, "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y)", "CREATE INDEX i ON t(x)",
			"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 3000) INSERT INTO t SELECT i, 1, hex(zeroblob(20)) FROM c")
		seen := map[string]bool{}
		for range soak.Count(t, 4, 200) {
			f.killMove()
			if got := f.value("PRAGMA integrity_check"); got != "ok" {
				t.Fatal(got)
			}
			got := f.value("SELECT count(*) || ' ' || count(DISTINCT x) || ' ' || max(x) FROM t")
			seen[got] = true
			if got != "3000 1 1" && got != "6000 1 2" {
				t.Fatalf("%s: after the kill the table has %s", mode, got)
			}
			f.sql("DELETE FROM t WHERE id > 3000", "UPDATE t SET x = 1")
		}
		t.Logf("%s: %v", mode, seen)
	}
}

// killMove starts moveForever in another process and kills it after its first move.
func (f *fixture) killMove() {
	f.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=TestKilledMove$", "-test.v")
	cmd.Env = append(os.Environ(), "SEGNO_TEST_MOVE_IN="+f.dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < 1+rand.IntN(4) && lines.Scan(); {
		if lines.Text() == "moved" {
			n++
		}
	}
	timer := time.NewTimer(time.Duration(rand.IntN(20)) * time.Millisecond)
	<-timer.C
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil {
		f.Fatal("the process ended")
	}
}

func moveForever(t *testing.T, dir string) {
	store := memory.New(time.Now)
	f := &fixture{TB: t, dir: dir, file: filepath.Join(dir, "dev.db"), objects: store.Objects(), now: time.Now(), fs: vfs.OS}
	w := database.Attach(&emptyTree{root: dir}, database.Options{Objects: f.objects, FS: vfs.OS, Now: time.Now,
		List: attachedFile, Lock: noLock,
		Cache: database.Cache{FS: vfs.OS, Sealer: plainSealer{}, File: filepath.Join(dir, "no", "cache")}})
	one := f.snapshot(w)
	f.sql("BEGIN; INSERT INTO t(x, y) SELECT x, y FROM t; UPDATE t SET x = 2; COMMIT")
	two := f.snapshot(w)
	for {
		if why := f.move(w, two, one); why != "" {
			t.Fatal(why)
		}
		fmt.Println("moved")
		one, two = two, one
	}
}
