package client_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/web"
)

func TestMain(m *testing.M) {
	memdir.Use()
	m.Run()
}

// serve starts a server on a store. It returns the address, the token and a function that ends it.
func serve(t testing.TB, c web.Config) (address, token string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Token = web.NewToken()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.New(c, l).Serve(ctx) }()
	return "http://" + l.Addr().String(), c.Token, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}
}

// localStore is a store of this machine.
type localStore interface {
	segno.Store
	segno.Chains
	segno.Workspaces
	segno.Eraser
}

// readThrough writes to a store and reads it through the API.
type readThrough struct {
	*client.Store
	local localStore
	stop  func()
}

func (s *readThrough) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	return s.local.Commit(ctx, c)
}

func (s *readThrough) Delete(ctx context.Context, thread segno.ThreadID) error {
	return s.local.Delete(ctx, thread)
}

func (s *readThrough) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	return s.local.PutWorkspace(ctx, w)
}

func (s *readThrough) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.local.Erase(ctx, p)
}

func (s *readThrough) Objects() segno.Objects {
	return readObjects{s.Store.Objects(), s.local.Objects()}
}

func (s *readThrough) Close() error {
	err := s.Store.Close()
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return errors.Join(err, s.local.Close())
}

// readObjects writes objects to a store and reads them through the API.
type readObjects struct {
	segno.Objects
	local segno.Objects
}

func (o readObjects) Batch() segno.Batch { return o.local.Batch() }

func (o readObjects) Keep(ctx context.Context, s segno.Staged) error { return o.local.Keep(ctx, s) }
