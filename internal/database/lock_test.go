package database_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
)

// hookedBatch calls a function at the first object that it gets.
type hookedBatch struct {
	segno.Batch
	once *sync.Once
	hook func()
}

func (b hookedBatch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	b.once.Do(b.hook)
	return b.Batch.Put(ctx, data)
}

// While a save reads a database in a rollback mode, no other process writes to it. The save must not close a file of the
// database meanwhile, because that releases the lock.
func TestSaveHoldsItsLock(t *testing.T) {
	if file := os.Getenv("SEGNO_TEST_WRITE_TO"); file != "" {
		db, err := sql.Open("sqlite", file)
		if err == nil {
			_, err = db.Exec("UPDATE t SET x = 2")
		}
		fmt.Println("the writer got:", err)
		return
	}
	f := newFixture(t)
	f.sql("CREATE TABLE t(x)", "INSERT INTO t VALUES (1)")
	write := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=TestSaveHoldsItsLock$", "-test.v")
		cmd.Env = append(os.Environ(), "SEGNO_TEST_WRITE_TO="+f.file)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	meanwhile := ""
	b := hookedBatch{f.objects.Batch(), &sync.Once{}, func() { meanwhile = write() }}
	if _, err := f.attached(true).Snapshot(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(meanwhile, "database is locked") {
		t.Errorf("during the save, %s", meanwhile)
	}
	if after := write(); !strings.Contains(after, "got: <nil>") {
		t.Errorf("after the save, %s", after)
	}
}
