package blame_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// BenchmarkBlame measures a file of 2,000 lines over 500 turns in a SQLite store, each of which changed four lines: without a
// cache, and with a warm one, which is opened each time as by a new process.
func BenchmarkBlame(b *testing.B) {
	const lines, turns, path = 2000, 500, "src/pkg/file.go"
	dir, ctx := b.TempDir(), b.Context()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	tree := filepath.Join(dir, "tree")
	must(os.MkdirAll(filepath.Join(tree, "src/pkg"), 0o755))
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: dir, Homes: local.Homes{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	store, err := place.Open(ctx)
	must(err)
	defer store.Close()
	rec, err := store.Register(ctx, tree)
	must(err)
	tl, err := store.Timeline(rec, nil)
	must(err)
	r := rand.New(rand.NewPCG(1, 2))
	var content []string
	for i := range lines {
		content = append(content, fmt.Sprintf("original line %d", i))
	}
	write := func() []byte {
		data := []byte(strings.Join(content, "\n") + "\n")
		must(os.WriteFile(filepath.Join(tree, path), data, 0o644))
		return data
	}
	write()
	var head segno.CommitID
	for n := range turns {
		src := segno.Source{Session: "session", Dir: tree}
		begun, err := tl.BeginTurn(ctx, timeline.Prompt{Agent: "bench", Source: src, Text: fmt.Sprint("turn ", n)})
		must(err)
		at := r.IntN(lines - 4)
		for i := range 4 {
			content[at+i] = fmt.Sprintf("line %d of turn %d", i, n)
		}
		content = slices.Insert(slices.Delete(content, at, at+1), r.IntN(lines-1), fmt.Sprintf("inserted by turn %d", n))
		write()
		c, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "bench"})
		must(err)
		head = c.ID
	}
	data := write()
	run := func(b *testing.B, isCold bool) {
		for b.Loop() {
			cache := blame.OpenCache(store, rec.ID, path)
			if isCold {
				cache = nil
			}
			x := blame.Blamer{Store: store, Content: patch.FromStore(store.Objects()), Unnamed: tl.Unnamed, Cache: cache}
			found, err := x.LinesSince(ctx, data, head, path, blame.Unsaved, 0, lines)
			cache.Close()
			must(err)
			if len(found) != lines || found[0].Origin == nil {
				b.Fatal("lines are missing")
			}
		}
	}
	b.Run("cold", func(b *testing.B) { run(b, true) })
	b.Run("warm", func(b *testing.B) { run(b, false) })
}
