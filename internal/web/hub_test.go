package web

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// gatedHeads is a store. Its first Head waits until the test allows it.
type gatedHeads struct {
	segno.Store
	once         sync.Once
	asked, allow chan struct{}
}

func (g *gatedHeads) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	g.once.Do(func() {
		close(g.asked)
		select {
		case <-g.allow:
		case <-ctx.Done():
		}
	})
	return g.Store.Head(ctx, id)
}

// TestAStreamBeginsWithTheHeads opens a stream while the store is slow to return the head of a thread. The stream must not begin
// before that, because a client reads the state when it begins, and the server cannot report a commit before the head that it knows.
func TestAStreamBeginsWithTheHeads(t *testing.T) {
	s := newScopeRig(t)
	if _, err := s.Store.Commit(t.Context(), segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t", Create: &segno.Thread{ID: "t"}}); err != nil {
		t.Fatal(err)
	}
	gate := &gatedHeads{Store: s.Store, asked: make(chan struct{}), allow: make(chan struct{})}
	s.Store = gate
	server := &http.Server{Handler: s}
	go server.Serve(s.listener) //nolint:errcheck // it returns when the test closes it
	defer server.Close()
	get := func(path string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+s.tokens["read"])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	begun := make(chan error, 1)
	go func() { begun <- get(apiRoot + "/events") }()
	<-gate.asked
	if err := get("/"); err != nil { // meanwhile a stream that begins too early does so
		t.Fatal(err)
	}
	select {
	case <-begun:
		t.Fatal("the stream began before the server knew the head of the thread")
	default:
	}
	close(gate.allow)
	if err := <-begun; err != nil {
		t.Error(err)
	}
}

// failingStore is a store that is too busy for one Head, and whose lists of checkpoints are damaged.
type failingStore struct {
	segno.Store
	isBusy, isDamaged atomic.Bool
}

func (s *failingStore) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	if s.isBusy.CompareAndSwap(true, false) {
		return segno.Head{}, segno.NewError(segno.KindBusy, "read thread", string(id), nil)
	}
	return s.Store.Head(ctx, id)
}

func (s *failingStore) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	if !s.isDamaged.Load() {
		return s.Store.Checkpoints(ctx, q)
	}
	return func(yield func(segno.Checkpoint, error) bool) {
		yield(segno.Checkpoint{}, segno.NewError(segno.KindCorrupt, "list checkpoints", string(q.Thread), nil))
	}
}

// TestAChangeIsReported changes a thread once. A client must receive the event, also if the store was busy when the server read the
// thread, and if the thread is damaged: its page would show the old state until the next change.
func TestAChangeIsReported(t *testing.T) {
	for name, fail := range map[string]func(*failingStore){
		"no failure":         func(*failingStore) {},
		"a busy store":       func(s *failingStore) { s.isBusy.Store(true) },
		"a damaged timeline": func(s *failingStore) { s.isDamaged.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScopeRig(t)
			store := &failingStore{Store: s.Store}
			s.Store = store
			var head segno.Head
			commit := func() {
				t.Helper()
				c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "t", Parent: head.Head, Expect: head.Head,
					Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Time: time.Now()}}
				if head.Head == "" {
					c.Create = &segno.Thread{ID: "t"}
				}
				var err error
				if head, err = s.Store.Commit(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			commit()
			if _, err := s.history(t.Context(), "t"); err != nil { // a client shows the timeline
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sub := &subscription{pending: map[segno.ThreadID]threadEvent{}, ready: make(chan struct{}, 1)}
			s.hub.subs[sub] = true
			var published sync.WaitGroup
			defer published.Wait()
			defer cancel()
			published.Go(func() { s.hub.publish(ctx) })
			commit()
			fail(store)
			s.hub.mark("t")
			select {
			case <-sub.ready:
			case <-ctx.Done():
				t.Fatal("the client receives no event")
			}
			if e := sub.take(); len(e) != 1 || e[0].Head != head.Head {
				t.Errorf("the client receives %+v, want the head %s", e, head.Head)
			}
		})
	}
}
