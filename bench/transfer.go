package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno/internal/testing/debian"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transfer"
)

// transfers returns the section that copies a thread with a workspace of some MB from a store on this machine to PostgreSQL and a
// bucket, and back to another store, beside rsync.
func transfers(megabytes int) func(ctx context.Context, b *bench) error {
	return func(ctx context.Context, b *bench) (err error) {
		dir, err := b.scratch("transfer")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		rsync, err := debian.Find(ctx, debian.Program{Package: "rsync", Installed: []string{"rsync"}, Inside: "usr/bin/rsync"})
		if err != nil {
			return err
		}
		for _, way := range []string{filepath.Dir(dir), dir} { // PostgreSQL runs as another user than root
			if err := os.Chmod(way, 0o755); err != nil {
				return err
			}
		}
		server, err := serverrig.Postgres(ctx, filepath.Join(dir, "pg"))
		if err != nil {
			return err
		}
		defer server.Stop()
		work := filepath.Join(dir, "work")
		if err := fillRandom(work, megabytes); err != nil {
			return err
		}
		o, err := openOurs(ctx, dir, work)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.close()) }()
		return b.transfer(ctx, dir, o, rsync, server.URL, megabytes)
	}
}

// transfer measures the first copy, and one after one file of 64 changed.
func (b *bench) transfer(ctx context.Context, dir string, o *ours, rsync debian.Executable, url string, megabytes int) error {
	at := filepath.Join(dir, "bucket")
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	bucket, err := postgres.OpenDirBucket(at)
	if err != nil {
		return err
	}
	defer bucket.Close()
	for round, what := range []string{"everything", "one file of 64 changed"} {
		if err := fillOne(filepath.Join(dir, "work"), 0, megabytes, uint64(round)); err != nil {
			return err
		}
		c, err := o.save(ctx)
		if err != nil {
			return err
		}
		remote, err := postgres.Open(ctx, url, postgres.Options{Schema: "transfer", Bucket: bucket})
		if err != nil {
			return err
		}
		back, err := sqlite.Open(ctx, filepath.Join(dir, "back", "segno.db"), sqlite.Options{})
		if err != nil {
			return errors.Join(err, remote.Close())
		}
		copied := func(r *transfer.Result, err error) error {
			if err == nil && r.Head != c.ID {
				err = fmt.Errorf("the copy is at %s, and not at %s: %s", r.Head, c.ID, r.Outcome)
			}
			return err
		}
		times, err := contest{rounds: 1, settle: true, inOrder: true, entrants: []entrant{
			{name: "rsync", run: func(ctx context.Context) error {
				out, err := rsync.Command(ctx, "-a", "--fsync", filepath.Join(dir, "work")+"/", filepath.Join(dir, "rsync")+"/").CombinedOutput()
				if err != nil {
					err = fmt.Errorf("rsync: %w: %s", err, out)
				}
				return err
			}},
			{name: "push", run: func(ctx context.Context) error {
				return copied(transfer.Copy(ctx, o.Timeline.Store, remote, c.Thread, transfer.Options{}))
			}},
			{name: "pull", run: func(ctx context.Context) error {
				return copied(transfer.Copy(ctx, remote, back, c.Thread, transfer.Options{}))
			}},
		}}.hold(ctx)
		if err := errors.Join(err, back.Close(), remote.Close()); err != nil {
			return err
		}
		name := fmt.Sprintf("transfer of %d MB, %s: ", megabytes, what)
		b.add("", name+"rsync -a --fsync", times["rsync"])
		b.add("", name+"push to PostgreSQL and a bucket", times["push"], is(times["push"].over(times["rsync"]), "× rsync"))
		b.add("", name+"pull to a store on this machine", times["pull"], is(times["pull"].over(times["rsync"]), "× rsync"))
	}
	return nil
}

// randomFiles is the number of files of the workspace.
const randomFiles = 64

// fillRandom makes a directory with files of some MB in all.
func fillRandom(dir string, megabytes int) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for n := range randomFiles {
		if err := fillOne(dir, n, megabytes, 0); err != nil {
			return err
		}
	}
	return nil
}

// fillOne writes the n-th file: half of it is text, half of it cannot be compressed.
func fillOne(dir string, n, megabytes int, version uint64) error {
	r := rand.New(rand.NewPCG(uint64(n), version))
	size := megabytes << 20 / randomFiles
	data := make([]byte, 0, size)
	for len(data) < size/2 {
		data = append(data, prose(r, 64<<10)...)
	}
	for len(data) < size {
		data = append(data, byte(r.Uint32()))
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%02d.bin", n)), data, 0o600)
}
