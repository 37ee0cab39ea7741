package web_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/memory"
)

// TestUsageOfATurnAndItsThread reads what turns used, one of which has no record.
func TestUsageOfATurnAndItsThread(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	var head segno.CommitID
	for n, usage := range []string{`{"input":1200,"output":30,"cache_read":1000}`, `{}`, `{"input":10,"output":3}`} {
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t", Parent: head, Expect: head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n + 1, Step: n + 1, Time: time.Now(), Prompt: "prompt", Agent: "a"},
			Entries:    []segno.Entry{{Kind: segno.EntryUsage, Name: "m", Turn: n + 1, Body: json.RawMessage(usage)}}}
		if n == 0 {
			c.Create = &segno.Thread{ID: "t"}
		}
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		head = c.ID
	}
	r := &moveRig{T: t, now: time.Now(), token: web.NewToken()}
	r.serveConfig(web.Config{Store: store, Kind: "file"})
	var thread, turn struct {
		Usage *struct {
			Input     int64
			Output    int64
			CacheRead *int64   `json:"cache_read"`
			CostUSD   *float64 `json:"cost_usd"`
		}
		Unknown int
		Text    string
	}
	for range 2 { // the second time from the cache
		r.get("/threads/t/usage", &thread)
		if u := thread.Usage; u == nil || u.Input != 1210 || u.Output != 33 || *u.CacheRead != 1000 || u.CostUSD != nil || thread.Unknown != 1 ||
			thread.Text != "1.2k in (1k cached), 33 out" {
			t.Errorf("the thread: %+v", thread)
		}
	}
	r.get("/checkpoints/"+string(head)+"/usage", &turn)
	if turn.Usage == nil || turn.Usage.Input != 10 || turn.Text != "10 in, 3 out" {
		t.Errorf("the turn: %+v", turn)
	}
}
