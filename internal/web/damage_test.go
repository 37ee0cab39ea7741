package web_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/memory"
)

// damagedStore has lost the bytes of one commit.
type damagedStore struct {
	segno.Store
	lost segno.CommitID
}

func (s *damagedStore) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	if at == s.lost && w.Entries {
		return nil, segno.NewError(segno.KindCorrupt, "read commit", string(at), nil)
	}
	return s.Store.Load(ctx, at, w)
}

// TestADamagedCommit checks that the other checkpoints, and the rest of the damaged one, can be read.
func TestADamagedCommit(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	var head segno.CommitID
	for n := range 3 {
		c := segno.Commit{ID: segno.CommitID(fmt.Sprint("c", n)), Thread: "t", Parent: head, Expect: head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n + 1, Time: time.Now(), Prompt: fmt.Sprint("prompt ", n+1)},
			Entries:    []segno.Entry{{Kind: segno.EntryIntent, ID: "x", Name: "Bash"}}}
		if n == 0 {
			c.Create = &segno.Thread{ID: "t", Title: "one"}
		}
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		head = c.ID
	}
	r := &moveRig{T: t, now: time.Now(), token: web.NewToken(), thread: "t"}
	r.serveConfig(web.Config{Store: &damagedStore{store, "c1"}, Kind: "file"})
	var w struct {
		Items []struct {
			Prompt, Damage string
			Calls          int
		}
	}
	r.get("/threads/t/timeline", &w)
	for i, item := range w.Items {
		if isDamaged := i == 1; isDamaged != (item.Damage != "") || isDamaged == (item.Calls == 1) || item.Prompt == "" {
			t.Errorf("row %d: %+v", i, item)
		}
	}
	var d struct {
		Prompt string
		Damage []string
	}
	r.get("/checkpoints/c1", &d)
	if d.Prompt != "prompt 2" || len(d.Damage) != 1 {
		t.Errorf("the damaged checkpoint: %+v", d)
	}
	if res, body := r.request(http.MethodGet, "/api/v1/checkpoints/c1/text?part=answer", "", nil); res.StatusCode != http.StatusInternalServerError {
		t.Errorf("its answer: %d %s", res.StatusCode, body)
	}
	var found struct {
		Hits    []struct{ Checkpoint segno.CommitID }
		Damaged int
	}
	r.get("/search?q=prompt", &found)
	if len(found.Hits) != 3 || found.Damaged != 1 {
		t.Errorf("search: %+v", found)
	}
}
