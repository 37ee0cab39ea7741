package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/sqlite"
)

// stepCount is the number of steps of the thread, regardless of -n: the last must not cost
// more than the first.
const stepCount = 1000

// steps measures the commit of an agent's step of two kilobytes, compared with an append
// and fsync of the same bytes.
func steps(ctx context.Context, b *bench) error {
	dir, err := b.scratch("steps")
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "store", "segno.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	head, err := store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "steps", Create: &segno.Thread{ID: "steps"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: time.Now()}})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(2, 1))
	var body json.RawMessage
	var total int
	times, err := contest{rounds: stepCount,
		round: func(context.Context, int) (err error) {
			body, err = message(r)
			total += len(body)
			return err
		},
		entrants: []entrant{
			{name: "append", run: func(context.Context) error {
				if _, err := log.Write(body); err != nil {
					return err
				}
				return log.Sync()
			}},
			{name: "segno", run: func(ctx context.Context) (err error) {
				head, err = store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "steps", Parent: head.Head, Expect: head.Head,
					Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Time: time.Now(), Name: "agent", Body: body}},
					Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Time: time.Now(), Agent: "bench"}})
				return err
			}},
		}}.hold(ctx)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	size, err := diskBytes(filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	ours, bare := times["segno"], times["append"]
	last, first := ours[stepCount-100:], ours[:100]
	b.add("", fmt.Sprintf("step: append + fsync, %d bytes on average", total/stepCount), bare)
	b.add("", "step: segno commit, synced", ours, atMost(2, ours.over(bare), "× append"),
		atMost(1.3, last.over(first)/bare[stepCount-100:].over(bare[:100]), "× last 100 to first 100"), atMost(0.7, float64(size)/float64(total), "× payload bytes"))
	return nil
}

// message returns the output of a model in one step, in its provider's format.
func message(r *rand.Rand) (json.RawMessage, error) {
	return json.Marshal(map[string]any{
		"role": "assistant", "id": fmt.Sprintf("msg_%016x%08x", r.Uint64(), r.Uint32()), "model": "claude-x", "stop_reason": "tool_use",
		"usage": map[string]int{"input_tokens": r.IntN(90_000), "output_tokens": r.IntN(900), "cache_read_input_tokens": r.IntN(90_000)},
		"content": []any{map[string]any{"type": "text", "text": string(prose(r, 1600))},
			map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%016x", r.Uint64()), "name": "Read",
				"input": map[string]any{"file_path": fmt.Sprintf("/home/dev/project/pkg%d/file%d.go", r.IntN(9), r.IntN(99))}}},
	})
}

func diskBytes(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			sum += fi.Size()
		}
		return err
	})
	return sum, err
}
