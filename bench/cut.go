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
	"github.com/dalsegno/segno/transcript/codex"
)

// cuts measures cuts of long sessions under a new id beside a copy and fsync of the same file.
func cuts(ctx context.Context, b *bench) error {
	for _, size := range []int{50 << 20, 200 << 20} {
		if err := cutClaude(ctx, b, size); err != nil {
			return err
		}
	}
	return cutCodex(ctx, b, 200<<20)
}

func cutClaude(ctx context.Context, b *bench, size int) error {
	home, err := b.scratch("cut")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	s, err := longSession(home, size)
	if err != nil {
		return err
	}
	return cutSession(ctx, b, home, s.source, "a session of Claude Code", func(o segno.Objects) segno.Transcript {
		return claude.New(home, claude.Options{Objects: o})
	})
}

func cutCodex(ctx context.Context, b *bench, size int) error {
	home, err := b.scratch("cut")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	src, err := longRollout(home, size)
	if err != nil {
		return err
	}
	return cutSession(ctx, b, home, src, "a rollout of Codex", func(segno.Objects) segno.Transcript {
		return codex.New(home, codex.Options{})
	})
}

// cutSession measures cuts of one session at its end.
func cutSession(ctx context.Context, b *bench, home string, src segno.Source, name string, open func(segno.Objects) segno.Transcript) error {
	store, err := sqlite.Open(ctx, filepath.Join(home, "store", "segno.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	sessions := open(store.Objects())
	at, err := capture(ctx, store, sessions, src)
	if err != nil {
		return err
	}
	n := 0
	var made segno.Source
	copied := filepath.Join(home, "copy")
	times, err := contest{rounds: b.rounds, warm: true, settle: true, entrants: []entrant{
		{name: "copy", run: func(context.Context) error { return copySynced(src.Path, copied) },
			check: func(context.Context) error { return os.Remove(copied) }},
		{name: "cut", run: func(ctx context.Context) (err error) {
			n++
			made, err = sessions.Cut(ctx, at, segno.Target{Session: segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)), Dir: src.Dir}, store.Objects())
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
	b.add("", fmt.Sprintf("cut: copy + fsync of %s, %d MB", name, at.Offset>>20), times["copy"])
	b.add("", "cut: segno cut under a new id, synced", times["cut"], atMost(2, times["cut"].over(times["copy"]), "× copy"))
	return nil
}

func longSession(home string, size int) (*session, error) {
	dir := filepath.Join(home, "project")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s, err := newSession(home, dir)
	if err != nil {
		return nil, err
	}
	for s.lines.Len() < size {
		s.say(8000)
	}
	return s, s.flush()
}

// capture stores a whole session and returns the position of its end.
func capture(ctx context.Context, store *sqlite.Store, sessions segno.Transcript, src segno.Source) (segno.Position, error) {
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
