package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/sqlite"
)

// noFiles is a workspace without files.
type noFiles struct{ segno.Workspace }

func (noFiles) Root() string { return "/" }

func (noFiles) Snapshot(context.Context, segno.Batch) (segno.Snapshot, error) {
	return segno.Snapshot{}, nil
}

type openSealer struct{}

func (openSealer) SealFile(_ string, plain []byte) []byte { return plain }

func (openSealer) OpenFile(_ string, data []byte) ([]byte, error) { return data, nil }

// BenchmarkPostgres measures a snapshot, as a hook makes it, of a database of about 14 MB in 20 tables. Each snapshot
// uses a new connection. The benchmark also measures a connection alone, for comparison.
func BenchmarkPostgres(b *testing.B) {
	p := newProject(b, `SELECT 1`)
	for i := range 20 {
		p.sql(fmt.Sprintf(`CREATE TABLE t%d (id serial PRIMARY KEY, name text, made timestamptz DEFAULT now()); CREATE INDEX ON t%[1]d (name);
			INSERT INTO t%[1]d (name) SELECT md5(i::text) FROM generate_series(1, 6000) i`, i))
	}
	b.Log("bytes on the server: ", p.sql(`SELECT pg_database_size(current_database())`))
	at, err := database.NewPostgres(b.Context(), postgresDriver{}, p.url(p.database), nil)
	if err != nil {
		b.Fatal(err)
	}
	store, err := sqlite.Open(b.Context(), b.TempDir()+"/segno.db", sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	attached := database.Attach(noFiles{}, database.Options{Objects: store.Objects(), List: func() ([]database.Attachment, error) { return []database.Attachment{at}, nil },
		Cache: database.Cache{FS: vfs.OS, File: b.TempDir() + "/cache", Sealer: openSealer{}}, Postgres: postgresDriver{}, Now: time.Now,
		Lock: func(context.Context, string) (func(), error) { return func() {}, nil }})
	n, thread := 0, segno.Head{}
	snapshot := func(b *testing.B) (bytes int64, took time.Duration) {
		begun := time.Now()
		batch := store.Objects().Batch()
		snap, err := attached.Snapshot(b.Context(), batch)
		if err != nil {
			b.Fatal(err)
		}
		staged, err := batch.Stage(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, o := range staged.Objects {
			bytes += o.Size
		}
		took = time.Since(begun)
		b.StopTimer()
		n++
		c := segno.Commit{ID: segno.CommitID(fmt.Sprint(n)), Thread: "t", Staged: staged, Needs: []segno.Hash{snap.World.Data}, Expect: thread.Head, Parent: thread.Head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave, Workspace: &snap}}
		if n == 1 {
			c.Create = &segno.Thread{ID: "t"}
		}
		if thread, err = store.Commit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		return bytes, took
	}
	b.Run("connect", func(b *testing.B) {
		reportFastest(b, func() time.Duration {
			begun := time.Now()
			c := p.connect(p.database)
			c.Close(b.Context())
			return time.Since(begun)
		})
	})
	snapshot(b)
	b.Run("unchanged", func(b *testing.B) {
		reportFastest(b, func() time.Duration { _, took := snapshot(b); return took })
	})
	b.Run("other database changed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			p.admin(`CREATE TABLE IF NOT EXISTS x (x int); INSERT INTO x VALUES (1)`)
			b.StartTimer()
			snapshot(b)
		}
	})
	b.Run("one row changed", func(b *testing.B) {
		var bytes int64
		for b.Loop() {
			b.StopTimer()
			p.sql(fmt.Sprintf(`UPDATE t3 SET name = '%s' WHERE id = 3000`, segno.NewID()))
			b.StartTimer()
			bytes, _ = snapshot(b)
		}
		b.ReportMetric(float64(bytes), "new-bytes")
	})
	b.Run("template copy", func(b *testing.B) {
		for b.Loop() {
			p.admin(`CREATE DATABASE ` + p.database + `_copy TEMPLATE ` + p.database)
			b.StopTimer()
			p.admin(`DROP DATABASE ` + p.database + `_copy`)
			b.StartTimer()
		}
	})
}

// reportFastest also reports the fastest run, because on a busy machine each message to the server waits for its turn.
func reportFastest(b *testing.B, run func() time.Duration) {
	fastest := time.Hour
	for b.Loop() {
		fastest = min(fastest, run())
	}
	b.ReportMetric(float64(fastest.Microseconds())/1000, "ms-fastest")
}
