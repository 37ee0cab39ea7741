package web_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/sqlite"
)

// The size of the thread that the benchmarks read.
const benchTurns, benchCalls = 5000, 6

// benchRig is a server over a store with one long thread.
type benchRig struct {
	*testing.B
	store  segno.Store
	server *web.Server
	token  string
	head   segno.CommitID
	turns  int
}

func newBenchRig(b *testing.B) *benchRig {
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "segno.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	r := &benchRig{B: b, store: store, token: web.NewToken()}
	r.server = web.New(web.Config{Store: store, Kind: "sqlite", Token: r.token}, l)
	for range benchTurns {
		r.turn()
	}
	return r
}

func (r *benchRig) turn() {
	now := time.Now()
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t", Parent: r.head, Expect: r.head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: r.turns + 1, Time: now, Prompt: fmt.Sprintf("prompt %d: make it better", r.turns+1)}}
	if r.turns == 0 {
		c.Create = &segno.Thread{ID: "t", Created: now, Title: "bench"}
	}
	for i := range benchCalls {
		input, result := json.RawMessage(`{"command":"go test ./..."}`), json.RawMessage(`{"exit":0,"response":{"stdout":"ok"}}`)
		id := fmt.Sprint("call", i)
		c.Entries = append(c.Entries, segno.Entry{Kind: segno.EntryIntent, ID: id, Name: "Bash", Time: now, Body: input, Turn: r.turns + 1},
			segno.Entry{Kind: segno.EntryResult, ID: id, Name: "Bash", Time: now, Body: result, Turn: r.turns + 1})
	}
	if _, err := r.store.Commit(r.Context(), c); err != nil {
		r.Fatal(err)
	}
	r.head, r.turns = c.ID, r.turns+1
}

func (r *benchRig) get(path string) {
	req := httptest.NewRequest("GET", r.server.URL()+"/api/v1"+path, nil)
	req.Header.Set("Authorization", "Bearer "+r.token)
	w := httptest.NewRecorder()
	r.server.ServeHTTP(w, req)
	if w.Code != 200 {
		r.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
}

// BenchmarkTimeline compares windows of a timeline with reading the whole history from the store.
func BenchmarkTimeline(b *testing.B) {
	r := newBenchRig(b)
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			if _, err := history.Read(b.Context(), r.store, "t"); err != nil {
				b.Fatal(err)
			}
		}
	})
	start := time.Now()
	r.get("/threads/t/timeline?n=20")
	b.Logf("first window: %v", time.Since(start))
	b.Run("window", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.get(fmt.Sprint("/threads/t/timeline?n=20&from=", i*977%benchTurns))
		}
	})
	b.Run("window of the line", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.get(fmt.Sprint("/threads/t/timeline?view=line&n=20&from=", i*977%benchTurns))
		}
	})
	b.Run("200 rows", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.get(fmt.Sprint("/threads/t/timeline?n=200&from=", i*977%(benchTurns-200)))
		}
	})
	b.Run("window after a commit", func(b *testing.B) {
		for b.Loop() {
			r.turn()
			r.get("/threads/t/timeline?n=20")
		}
	})
	b.Run("search for nothing", func(b *testing.B) {
		for b.Loop() {
			r.get("/search?q=nothing+like+this")
		}
	})
}
