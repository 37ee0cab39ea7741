package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/internal/web/wire"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/transfer"
)

// newThread makes a thread with turns, each with an object of some size.
func newThread(t *testing.T, s segno.Store, thread segno.ThreadID, turns, size int) {
	t.Helper()
	ctx, r := t.Context(), rand.NewChaCha8(segno.HashOf([]byte(thread)))
	var head segno.Head
	for n := range turns {
		batch := s.Objects().Batch()
		data := make([]byte, size)
		_, _ = r.Read(data) // never fails
		name, err := batch.Put(ctx, data)
		if err != nil {
			t.Fatal(err)
		}
		staged, err := batch.Stage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Parent: head.Head, Expect: head.Head, Staged: staged,
			Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: n, Time: time.Unix(int64(n), 0), Name: "n\xff", Body: json.RawMessage(`{"a":  "b"}`)}},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n, Time: time.Unix(int64(n), 0), Prompt: fmt.Sprint("prompt\xff ", n), State: &segno.Document{Type: "x", Data: name}}}
		if n == 0 {
			c.Create = &segno.Thread{ID: thread, Created: time.Unix(7, 0), Title: "a title \xff"}
			c.Link = &segno.Link{Agent: "claude", Session: "s", Dir: "/home/\xff", Start: time.Unix(7, 0)}
		}
		if head, err = s.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

// sameThread fails the test unless a thread has the same commits, entries and objects in two stores.
func sameThread(t *testing.T, a, b segno.Store, thread segno.ThreadID) {
	t.Helper()
	text := func(s segno.Store) (all []string) {
		tree, err := reachable.Commits(t.Context(), s, thread)
		if err != nil {
			t.Fatal(err)
		}
		record, _, err := segno.FindThread(t.Context(), s, thread)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q", record.Title), string(tree.Head.Head), string(tree.Head.Tip), fmt.Sprintf("%q", tree.Head.Link.Dir))
		for id := range tree.Nodes {
			line, err := s.Load(t.Context(), id, segno.Window{Last: 1, Entries: true})
			if err != nil {
				t.Fatal(err)
			}
			n := line.Commits[0]
			data, err := s.Objects().Get(t.Context(), n.Checkpoint.State.Data)
			if err != nil {
				t.Fatal(err)
			}
			n.Checkpoint.Time, n.Entries[0].Time = n.Checkpoint.Time.UTC(), n.Entries[0].Time.UTC()
			all = append(all, fmt.Sprintf("%s %s %q %v %x %x", n.ID, n.Parent, n.Checkpoint.Prompt, n.Checkpoint.Time, fmt.Sprint(n.Entries), segno.HashOf(data)))
		}
		slices.Sort(all)
		return all
	}
	if x, y := text(a), text(b); !slices.Equal(x, y) {
		t.Fatalf("the threads differ:\n%s\n\n%s", strings.Join(x, "\n"), strings.Join(y, "\n"))
	}
}

func dial(t *testing.T, address, token string) *client.Store {
	t.Helper()
	s, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestAThreadTravelsThroughTheAPI pushes a thread to a server and pulls it into a third store.
func TestAThreadTravelsThroughTheAPI(t *testing.T) {
	laptop, other := memory.New(nil), memory.New(nil)
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "segno.db"), sqlite.Options{Key: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	address, token, stop := serve(t, web.Config{Store: db, Kind: "sqlite"})
	defer stop()
	remote := dial(t, address, token)
	newThread(t, laptop, "t", 5, 700_000) // more than one batch
	if res, err := transfer.Copy(t.Context(), laptop, remote, "t", transfer.Options{}); err != nil || res.Commits != 5 || res.Objects != 5 {
		t.Fatalf("push: %+v, %v", res, err)
	}
	sameThread(t, laptop, db, "t")
	if res, err := transfer.Copy(t.Context(), remote, other, "t", transfer.Options{DryRun: true}); err != nil || res.Commits != 5 || res.Objects != 5 || res.Bytes != -1 {
		t.Fatalf("plan of a pull: %+v, %v", res, err)
	}
	if res, err := transfer.Copy(t.Context(), remote, other, "t", transfer.Options{}); err != nil || res.Commits != 5 || res.Bytes != 5*700_000 {
		t.Fatalf("pull: %+v, %v", res, err)
	}
	sameThread(t, laptop, other, "t")
	if res, err := transfer.Copy(t.Context(), other, remote, "t", transfer.Options{}); err != nil || res.Outcome != transfer.UpToDate || res.Objects+res.Commits+res.Links != 0 {
		t.Errorf("a second push: %+v, %v", res, err)
	}
}

// interruptedServer forwards requests to a server, until one of them fails: its connection breaks before the server gets
// the request, or before the client gets the response. From then on every request fails, as if the process were gone.
type interruptedServer struct {
	http.Handler
	left    atomic.Int64
	isAfter bool
}

func (s *interruptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch left := s.left.Add(-1); {
	case left > 0:
		s.Handler.ServeHTTP(w, r)
		return
	case left == 0 && s.isAfter:
		s.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	panic(http.ErrAbortHandler)
}

// TestAnInterruptedTransferContinues breaks a push and a pull at each of their requests. Another one completes the work.
func TestAnInterruptedTransferContinues(t *testing.T) {
	laptop, fleet := memory.New(nil), memory.New(nil)
	address, token, stop := serve(t, web.Config{Store: fleet, Kind: "memory"})
	defer stop()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	middle := &interruptedServer{Handler: forward}
	proxy := httptest.NewUnstartedServer(middle)
	proxy.Config.ErrorLog = forward.ErrorLog
	proxy.Start()
	defer proxy.Close()
	direct, broken := dial(t, address, token), dial(t, proxy.URL, token)
	for n := int64(1); ; n++ {
		complete := 0
		for i := range 4 {
			thread, isPull := segno.ThreadID(fmt.Sprintf("%d-%d", n, i)), i%2 == 0
			from, to := laptop, fleet
			if isPull {
				from, to = fleet, laptop
			}
			newThread(t, from, thread, 4, 400_000)
			copyThrough := func(remote *client.Store) error {
				var a, b segno.Store = laptop, remote
				if isPull {
					a, b = b, a
				}
				_, err := transfer.Copy(t.Context(), a, b, thread, transfer.Options{})
				return err
			}
			middle.isAfter = i < 2
			middle.left.Store(n)
			err := copyThrough(broken)
			if err == nil {
				complete++
			} else if segno.KindOf(err) != segno.KindIO {
				t.Fatalf("request %d: %v of kind %v", n, err, segno.KindOf(err))
			}
			if err := copyThrough(direct); err != nil {
				t.Fatalf("after request %d: %v", n, err)
			}
			sameThread(t, from, to, thread)
		}
		if complete == 4 {
			if n < 10 {
				t.Errorf("a transfer has only %d requests", n)
			}
			return
		}
	}
}

// TestHostileUploads sends bodies that a client would not send.
func TestHostileUploads(t *testing.T) {
	store := memory.New(nil)
	address, token, stop := serve(t, web.Config{Store: store, Kind: "memory"})
	defer stop()
	newThread(t, store, "t", 1, 10)
	post := func(path, media string, body []byte) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/api/v1"+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", media)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	const bin, doc = "application/octet-stream", "application/json"
	good := []byte("good")
	name := segno.HashOf(good)
	frame := wire.AppendFrame(nil, name, good)
	huge := binary.BigEndian.AppendUint64(slices.Clone(name[:]), 1<<62)
	commit := func(edit func(*wire.Commit)) []byte {
		w, err := wire.NewCommit(&segno.Commit{ID: "c", Thread: "t", Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn}})
		if err != nil {
			t.Fatal(err)
		}
		edit(w)
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, x := range []struct {
		what, path, media string
		body              []byte
		status            int
	}{
		{"objects of another type", "/raw/objects", doc, frame, 415},
		{"objects without an end", "/raw/objects", bin, frame, 400},
		{"half an object", "/raw/objects", bin, frame[:len(frame)-1], 400},
		{"an object of another hash", "/raw/objects", bin, wire.AppendEnd(wire.AppendFrame(frame, name, []byte("other")), nil), 400},
		{"an object of 2^62 bytes", "/raw/objects", bin, huge, 400},
		{"a problem instead of objects", "/raw/objects", bin, wire.AppendEnd(frame, &wire.Problem{Kind: "invalid", Detail: "x"}), 400},
		{"half a name", "/raw/objects/missing", bin, name[:31], 400},
		{"too many names", "/raw/objects/missing", bin, make([]byte, 32*65_537), 413},
		{"too many objects", "/raw/objects/read", bin, make([]byte, 32*4097), 413},
		{"an unknown object", "/raw/objects/read", bin, name[:], 404},
		{"an unknown commit", "/raw/objects/reached", doc, []byte(`{"at":["none"]}`), 404},
		{"an unknown field", "/raw/objects/reached", doc, []byte(`{"of":["none"]}`), 400},
		{"no commit", "/raw/commit", doc, []byte(`{}`), 400},
		{"two commits", "/raw/commit", doc, slices.Concat(commit(func(*wire.Commit) {}), commit(func(*wire.Commit) {})), 400},
		{"a damaged checkpoint", "/raw/commit", doc, commit(func(w *wire.Commit) { w.Checkpoint = []byte{0xff, 1} }), 400},
		{"a damaged link", "/raw/commit", doc, commit(func(w *wire.Commit) { w.Link = []byte{0xff} }), 400},
		{"an object of another hash in a commit", "/raw/commit", doc, commit(func(w *wire.Commit) { w.Objects = []wire.Object{{Name: name, New: true, Data: []byte("other")}} }), 400},
		{"a commit with an object that was not sent", "/raw/commit", doc, commit(func(w *wire.Commit) {
			w.Objects = []wire.Object{{Name: name}}
			w.Expect = segno.CommitID(pointersOf(t, store))
		}), 404},
		{"a commit on another head", "/raw/commit", doc, commit(func(w *wire.Commit) { w.Expect = "none" }), 409},
	} {
		status, body := post(x.path, x.media, x.body)
		var p wire.Problem
		if status != x.status || json.Unmarshal([]byte(body), &p) != nil || p.Detail == "" {
			t.Errorf("%s: %d %s", x.what, status, body)
		}
	}
	if has, err := store.Objects().Has(t.Context(), name); has || err != nil {
		t.Errorf("an object of a refused body is in the store: %v", err)
	}
	if status, body := post("/raw/objects", bin, wire.AppendEnd(frame, nil)); status != 200 {
		t.Errorf("a good body: %d %s", status, body)
	}
}

func pointersOf(t *testing.T, s segno.Store) segno.CommitID {
	t.Helper()
	h, err := s.Head(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	return h.Head
}

// TestAServerKeepsItsRuns checks that a push does not move a thread while a run of the server holds it, and that a server without
// tokens accepts no push.
func TestAServerKeepsItsRuns(t *testing.T) {
	laptop, fleet := memory.New(nil), memory.New(nil)
	newThread(t, laptop, "t", 2, 10)
	address, token, stop := serve(t, web.Config{Store: fleet, Kind: "memory"})
	defer stop()
	remote := dial(t, address, token)
	push := func() *transfer.Result {
		t.Helper()
		res, err := transfer.Copy(t.Context(), laptop, remote, "t", transfer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	before := push().Head
	held, err := fleet.Acquire(t.Context(), segno.Lease{Thread: "t", Owner: "worker", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	head := pointersOf(t, laptop)
	if _, err := laptop.Commit(t.Context(), segno.Commit{ID: "next", Thread: "t", Parent: head, Expect: head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave}}); err != nil {
		t.Fatal(err)
	}
	if res := push(); res.Outcome != transfer.Kept || segno.KindOf(res.Why) != segno.KindBusy || pointersOf(t, fleet) != before {
		t.Errorf("beside a run: %+v", res)
	}
	if err := fleet.Release(context.WithoutCancel(t.Context()), held); err != nil {
		t.Fatal(err)
	}
	if res := push(); res.Outcome != transfer.Forwarded || pointersOf(t, fleet) != "next" {
		t.Errorf("after the run: %+v", res)
	}
}
