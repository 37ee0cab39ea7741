package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript"
)

// TestStepsOfTwoLinesCountOnce continues a turn of a Go agent twice at its first step, and a third time in a fork. Each call of the
// model counts once.
func TestStepsOfTwoLinesCountOnce(t *testing.T) {
	store := memory.New(time.Now)
	commit := func(thread segno.ThreadID, id, parent, expect segno.CommitID, step int, kind segno.CheckpointKind, input int) {
		t.Helper()
		c := segno.Commit{ID: id, Thread: thread, Parent: parent, Expect: expect,
			Checkpoint: &segno.Checkpoint{Kind: kind, Turn: 1, Step: step, Time: time.Unix(1_800_000_000, 0)},
			Entries:    []segno.Entry{{Kind: segno.EntryUsage, Name: "m", Turn: 1, Body: json.RawMessage(fmt.Sprintf(`{"input":%d}`, input))}}}
		if expect == "" {
			c.Create = &segno.Thread{ID: thread, Parent: parent}
		}
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	commit("t", "first", "", "", 1, segno.CheckpointStep, 1)
	commit("t", "one", "first", "first", 2, segno.CheckpointTurn, 10)
	commit("t", "other", "first", "one", 2, segno.CheckpointTurn, 100)
	commit("fork", "forked", "first", "", 2, segno.CheckpointTurn, 1000)
	for thread, want := range map[segno.ThreadID]int64{"t": 111, "fork": 1000} {
		h, err := history.Read(t.Context(), store, thread)
		if err != nil {
			t.Fatal(err)
		}
		r := history.UsageReader{Source: &turns.Source{Store: store}}
		own, used, err := h.ReadOwn(thread, func(of []segno.Checkpoint) (map[segno.CommitID][]transcript.Usage, error) {
			return r.Read(context.Background(), h, of)
		})
		var sum *history.Usage
		for i := range own {
			sum = sum.Add(history.NewUsage(used[own[i].ID], nil))
		}
		if err != nil || sum == nil || sum.Input != want {
			t.Errorf("thread %s used %v, %v, want %d", thread, sum, err, want)
		}
	}
}
