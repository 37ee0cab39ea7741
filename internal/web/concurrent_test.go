package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/memory"
)

// TestManyReadersOfAThreadThatGrows reads everything concurrently while turns are recorded, and
// then ends the server. Nothing of the server may remain.
func TestManyReadersOfAThreadThatGrows(t *testing.T) {
	r := newMoveRig(t)
	ignore := goleak.IgnoreCurrent()
	r.stop()
	r.serve()
	var readers sync.WaitGroup
	done := make(chan struct{})
	for i := range 8 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				for _, path := range []string{
					"/threads", "/threads/" + string(r.thread) + "/timeline?n=2", fmt.Sprint("/search?limit=1&q=prompt+", n%3+1),
					"/checkpoints/" + string(r.turns[n%3].ID), fmt.Sprintf("/diff?from=%s&to=%s&path=a.txt", r.turns[0].ID, r.turns[n%2+1].ID),
				} {
					if res, body := r.request(http.MethodGet, "/api/v1"+path, "", nil); res.StatusCode != http.StatusOK {
						t.Errorf("reader %d: %s: %d %s", i, path, res.StatusCode, body)
						return
					}
				}
			}
		})
	}
	tl := r.timeline
	for n := 4; n < 12; n++ {
		key := r.begin(n)
		r.write("a.txt", fmt.Sprint(n))
		if _, err := tl.EndTurn(r.Context(), endOf(r, key)); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
	if w := r.timelineOf(""); w.Total != 12 {
		t.Errorf("%d rows", w.Total)
	}
	http.DefaultClient.CloseIdleConnections()
	r.stop()
	goleak.VerifyNone(t, ignore)
}

// TestAHostileStore reads a thread with long and malformed texts from a store without workspaces.
func TestAHostileStore(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	thread := segno.ThreadID(`a/b?c#<script>alert(1)</script>%2e..`)
	long := strings.Repeat("<img src=x onerror=alert(1)>\u202e\x1b[31m", 10_000)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	var head segno.CommitID
	for n := range 3 {
		c := segno.Commit{ID: segno.CommitID(fmt.Sprintf("c/%d", n)), Thread: thread, Parent: head, Expect: head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n + 1, Time: time.Now(), Prompt: long, Label: long, Agent: "a"},
			Entries: []segno.Entry{
				{Kind: segno.EntryIntent, ID: "x", Name: "Bash", Body: quoted},
				{Kind: segno.EntryResult, ID: "x", Name: "Bash", Body: json.RawMessage(`{"id":"other","tool":"other","exit":"no number"}`)},
				{Kind: segno.EntryResult, ID: "y", Name: "Bash", Body: json.RawMessage(`{"clipped":{"head":"h","tail":"t","bytes":1000000}}`)},
				{Kind: segno.EntryMessage, Name: "agent", Body: quoted},
				{Kind: segno.EntryNote, Body: quoted},
			}}
		if n == 0 {
			c.Create = &segno.Thread{ID: thread, Title: long}
		}
		if _, err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		head = c.ID
	}
	r := &moveRig{T: t, now: time.Now(), token: web.NewToken()}
	r.serveConfig(web.Config{Store: store, Kind: "file"})
	at := "/threads/" + url.PathEscape(string(thread))
	const most = 400 << 10
	for _, path := range []string{"/threads", at, at + "/timeline", "/checkpoints/c%2F1", "/search?q=onerror", "/checkpoints/c%2F1/text?part=answer&n=100000"} {
		res, body := r.request(http.MethodGet, "/api/v1"+path, "", nil)
		if res.StatusCode != http.StatusOK || len(body) > most {
			t.Errorf("%s: %d, %d bytes", path, res.StatusCode, len(body))
		}
	}
	var d struct {
		Calls []struct {
			ID, Tool, Title string
			Result          struct{ Text string }
		}
		Answer struct {
			Bytes     int
			Truncated bool
		}
	}
	r.get("/checkpoints/c%2F1", &d)
	if len(d.Calls) != 2 || d.Calls[0].ID != "x" || d.Calls[0].Tool != "Bash" || len(d.Calls[0].Title) > 200 || !d.Answer.Truncated || d.Answer.Bytes != len(long) ||
		!strings.Contains(d.Calls[1].Result.Text, "of 1000000 bytes in all") {
		t.Errorf("%+v", d)
	}
	var whole strings.Builder
	for offset := -1; offset != 0; {
		var w struct {
			Text string
			Next int
		}
		r.get(fmt.Sprintf("/checkpoints/c%%2F1/text?part=prompt&offset=%d", max(offset, 0)), &w)
		whole.WriteString(w.Text)
		offset = w.Next
	}
	if whole.String() != long {
		t.Error("the windows of the prompt differ from the prompt")
	}
}
