package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transcript/claude"
)

const cutBytes = 50 << 20

// cuts measures a cut of a 50 MB session under a new id beside a copy and fsync
// of the same file.
func cuts(ctx context.Context, b *bench) error {
	home, err := b.scratch("cut")
	if err != nil {
		return err
	}
	s, err := longSession(home)
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, filepath.Join(home, "store", "segno.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	sessions := claude.New(home, claude.Options{Objects: store.Objects()})
	at, err := capture(ctx, store, sessions, s.source)
	if err != nil {
		return err
	}
	n := 0
	var made segno.Source
	copied := filepath.Join(home, "copy")
	times, err := contest{rounds: b.rounds, warm: true, settle: true, entrants: []entrant{
		{name: "copy", run: func(context.Context) error { return copySynced(s.source.Path, copied) },
			check: func(context.Context) error { return os.Remove(copied) }},
		{name: "cut", run: func(ctx context.Context) (err error) {
			n++
			made, err = sessions.Cut(ctx, at, segno.Target{Session: segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)), Dir: s.source.Dir}, store.Objects())
			return err
		}, check: func(context.Context) error {
			fi, err := os.Stat(made.Path)
			if err != nil {
				return err
			}
			if fi.Size() != at.Offset {
				return fmt.Errorf("the cut has %d bytes, not %d", fi.Size(), at.Offset)
			}
			return os.Remove(made.Path)
		}},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	b.add("", fmt.Sprintf("cut: copy + fsync of %d MB", at.Offset>>20), times["copy"])
	b.add("", "cut: segno cut under a new id, synced", times["cut"], atMost(2, times["cut"].over(times["copy"]), "× copy"))
	return nil
}

func longSession(home string) (*session, error) {
	dir := filepath.Join(home, "project")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s, err := newSession(home, dir)
	if err != nil {
		return nil, err
	}
	for s.lines.Len() < cutBytes {
		s.say(8000)
	}
	return s, s.flush()
}

// capture stores a whole session and returns where it ends.
func capture(ctx context.Context, store *sqlite.Store, sessions *claude.Transcripts, src segno.Source) (segno.Position, error) {
	batch := store.Objects().Batch()
	defer batch.Close()
	got, err := sessions.Capture(ctx, src, nil, batch, func(string) bool { return false })
	if err != nil {
		return segno.Position{}, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return segno.Position{}, err
	}
	return got.Position, store.Objects().Keep(ctx, staged)
}

func copySynced(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}
