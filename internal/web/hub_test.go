package web

import (
	"context"
	"net/http"
	"sync"
	"testing"

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
