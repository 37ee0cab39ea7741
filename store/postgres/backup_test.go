package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// copyBucket copies the objects that to does not have, as docs/backup.md describes. It deletes none.
func copyBucket(t *testing.T, from, to Bucket) {
	t.Helper()
	for name, err := range from.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Get(t.Context(), name); err == nil {
			continue
		}
		data, err := from.Get(t.Context(), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a collection deleted it after it was listed
		}
		if err == nil {
			err = to.Put(t.Context(), name, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// restoreDump runs psql, which makes a new database of a dump, and returns the URL of the database for the same role.
func restoreDump(t *testing.T, url, dump string) string {
	t.Helper()
	name := newSchema()
	withSuperuser(t, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), `CREATE DATABASE `+name)
		return err
	})
	in := func(url string) string { return strings.Replace(url, "/postgres?", "/"+name+"?", 1) }
	psql := exec.CommandContext(t.Context(), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", in(server.URL))
	psql.Stdin = strings.NewReader(dump)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return in(url)
}

// largeTurn is [turn] with an object that becomes a body.
func largeTurn(ctx context.Context, s *Store, head segno.Head, id segno.CommitID) (segno.Commit, error) {
	c, err := turn(ctx, s, head, id)
	if err != nil {
		return c, err
	}
	b := s.Objects().Batch()
	name, err := b.Put(ctx, []byte(noise(300<<10)+string(id)))
	if err != nil {
		return c, err
	}
	staged, err := b.Stage(ctx)
	c.Staged.Objects = append(c.Staged.Objects, staged.Objects...)
	c.Checkpoint.State.Data = name
	return c, err
}

// alternate commits to thread a, then to b, and so on, until stop is closed. It sends each commit that both have.
func alternate(ctx context.Context, s *Store, heads [2]segno.Head, stop chan struct{}, acknowledged chan<- segno.CommitID) error {
	for i := 0; ; i++ {
		for k := range heads {
			id := segno.CommitID(fmt.Sprint("commit ", i, " of ", heads[k].Thread))
			c, err := largeTurn(ctx, s, heads[k], id)
			if err == nil {
				heads[k], err = s.Commit(ctx, c)
			}
			if err != nil {
				return err
			}
			select {
			case acknowledged <- id:
			case <-stop:
				return nil
			}
		}
	}
}

// deleteAndCollect deletes a thread whose bodies are old, and collects.
func deleteAndCollect(t *testing.T, s *Store, thread segno.ThreadID) {
	t.Helper()
	if err := s.Delete(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint, func(segno.Hash) bool) error { return nil }})
		if segno.KindOf(err) == segno.KindBusy {
			continue // because of the writers
		}
		if err != nil || got.Checkpoints == 0 || got.Objects == 0 {
			t.Fatalf("collected %+v, %v", got, err)
		}
		return
	}
}

// TestBackup makes a backup as docs/backup.md describes while writers commit: it copies the bucket, dumps the database, and
// copies the bucket again. Before and after the dump, a collection deletes old bodies. The restored store must be whole,
// and its threads must be those of one moment.
func TestBackup(t *testing.T) {
	if err := serverrig.PostgresPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	variants := []Options{{}, {Key: storetest.SealedKey()}, {Tenant: "a tenant"}, {Tenant: "a sealed tenant", Key: storetest.SealedKey()}}
	for _, seed := range soak.Seeds(t, 1, 2*len(variants)) {
		backUp(t, variants[seed%uint64(len(variants))])
	}
}

func backUp(t *testing.T, o Options) {
	clock, bucket, copied := storetest.NewClock(), new(memoryBucket), new(memoryBucket)
	url := server.URL
	if o.Tenant != "" {
		url = withRole(t, "tenants")
	}
	o.Clock, o.Bucket, o.Schema = clock.Now, bucket, newSchema()
	s := openAt(t, url, o, func(*pgxpool.Config) {})
	var heads [2]segno.Head
	for _, thread := range []segno.ThreadID{"old 1", "old 2", "a", "b"} {
		head, err := s.Commit(t.Context(), base(thread))
		var c segno.Commit
		if err == nil {
			c, err = largeTurn(t.Context(), s, head, "first of "+segno.CommitID(thread))
		}
		if err == nil {
			head, err = s.Commit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
		heads[0], heads[1] = heads[1], head
	}
	lease, err := s.Acquire(t.Context(), segno.Lease{Thread: "old 2", Owner: "a worker", Expires: clock.Now().Add(200 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(100 * time.Hour)
	acknowledged, stop := make(chan segno.CommitID), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		if err := alternate(t.Context(), s, heads, stop, acknowledged); err != nil {
			t.Error(err)
		}
	})
	// The writers work during each step: they are at least some commits further after it.
	var before []segno.CommitID
	during := func(step func()) {
		done := make(chan struct{})
		go func() { defer close(done); step() }()
		for n := 0; ; n++ {
			select {
			case id := <-acknowledged:
				before = append(before, id)
			case <-done:
				if n < 3 && !t.Failed() {
					before = append(before, <-acknowledged)
				}
				return
			}
		}
	}
	during(func() { copyBucket(t, bucket, copied) })
	during(func() { deleteAndCollect(t, s, "old 1") })
	known := len(before)
	var dump []byte
	during(func() {
		dump, err = exec.CommandContext(t.Context(), "pg_dump", "-n", o.Schema, "-d", server.URL).Output()
	})
	if err != nil {
		t.Fatal(err)
	}
	during(func() { deleteAndCollect(t, s, "old 2") })
	during(func() { copyBucket(t, bucket, copied) })
	close(stop)
	group.Wait()
	o.Bucket, o.MustExist = copied, true
	restored := openAt(t, restoreDump(t, url, string(dump)), o, func(*pgxpool.Config) {})
	if n := damagedIn(t, restored); n != 0 {
		t.Errorf("the restored store has %d damaged records", n)
	}
	var at [2]segno.Head
	for k, thread := range []segno.ThreadID{"a", "b"} {
		if at[k], err = restored.Head(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
	}
	if ahead := at[0].Seq - at[1].Seq; ahead < 0 || ahead > 1 {
		t.Errorf("the threads are not those of one moment: %d and %d commits", at[0].Seq, at[1].Seq)
	}
	for _, id := range before[:known] {
		if _, err := restored.Load(t.Context(), id, segno.Window{Entries: true}); err != nil {
			t.Errorf("%s was acknowledged before the dump: %v", id, err)
		}
	}
	if _, err := restored.Head(t.Context(), "old 1"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the thread that was deleted before the dump: %v", err)
	}
	if got, err := restored.LeaseOf(t.Context(), "old 2"); err != nil || got.Owner != lease.Owner || got.Epoch != lease.Epoch {
		t.Errorf("the lease of the worker is %+v, %v", got, err)
	}
	clock.Advance(200 * time.Hour)
	if next, err := restored.Acquire(t.Context(), segno.Lease{Thread: "old 2", Owner: "another", Expires: clock.Now().Add(time.Hour)}); err != nil ||
		next.Epoch <= lease.Epoch {
		t.Errorf("the lease after the end of the worker's: %+v, %v", next, err)
	}
	if n := damagedIn(t, s); n != 0 {
		t.Errorf("the store itself has %d damaged records", n)
	}
}

// TestACopyInTheSameBucket restores a dump of a store beside it, with the same bucket. After [Owner.NewID], a collection
// and an erasure in the copy delete none of the original's bodies, and the copy reads those that it names.
func TestACopyInTheSameBucket(t *testing.T) {
	if err := serverrig.PostgresPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"", "a tenant"} {
		clock, url := storetest.NewClock(), server.URL
		if tenant != "" {
			url = withRole(t, "tenants")
		}
		o := Options{Schema: newSchema(), Tenant: tenant, Bucket: inMemory(t), Clock: clock.Now}
		s := openAt(t, url, o, func(*pgxpool.Config) {})
		fill(t, s, noise(600<<10))
		dump, err := exec.CommandContext(t.Context(), "pg_dump", "-n", o.Schema, "-d", server.URL).Output()
		if err != nil {
			t.Fatal(err)
		}
		head, err := s.Head(t.Context(), "thread")
		if err != nil {
			t.Fatal(err)
		}
		c, err := largeTurn(t.Context(), s, head, "after the dump")
		if err == nil {
			_, err = s.Commit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
		copyURL := restoreDump(t, url, string(dump))
		if err := openOwner(t, copyURL, o.Schema).NewID(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Advance(100 * time.Hour)
		restored := openAt(t, copyURL, o, func(*pgxpool.Config) {})
		if n := damagedIn(t, restored); n != 0 {
			t.Errorf("the copy has %d damaged records", n)
		}
		policy := segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint, func(segno.Hash) bool) error { return nil }}
		_, err = restored.Collect(t.Context(), policy)
		if err == nil {
			err = restored.Delete(t.Context(), "thread")
		}
		if err == nil {
			_, err = restored.Erase(t.Context(), policy)
		}
		if err == nil {
			_, err = restored.Collect(t.Context(), policy)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := damagedIn(t, s); n != 0 {
			t.Errorf("tenant %q: the original has %d damaged records", tenant, n)
		}
	}
}
