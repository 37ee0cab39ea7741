package client_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
)

func TestMain(m *testing.M) {
	memdir.Use()
	m.Run()
}

// serve starts a server on a store. It returns the address, the token and a function that ends it.
func serve(t testing.TB, c web.Config) (address, token string, stop func()) {
	t.Helper()
	return serveTokens(t, c, filepath.Join(t.TempDir(), "tokens"))
}

// serveTokens is serve with a file of tokens, to which it adds one that allows everything.
func serveTokens(t testing.TB, c web.Config, file string) (address, token string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if token, err = web.AddToken(t.Context(), vfs.OS, file, "test", web.ScopeRead|web.ScopeDecide|web.ScopeMove|web.ScopeWrite|web.ScopeSend, time.Now()); err != nil {
		t.Fatal(err)
	}
	if c.Tokens, err = web.OpenTokens(file); err != nil {
		t.Fatal(err)
	}
	c.Token = web.NewToken()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.New(c, l).Serve(ctx) }()
	return "http://" + l.Addr().String(), token, func() {
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

// throughAPI reads and writes a store through the API, except what the API does not offer.
type throughAPI struct {
	*client.Store
	local localStore
	stop  func()
}

func (s *throughAPI) Delete(ctx context.Context, thread segno.ThreadID) error {
	return s.local.Delete(ctx, thread)
}

func (s *throughAPI) PutWorkspace(ctx context.Context, w segno.WorkspaceRecord) error {
	return s.local.PutWorkspace(ctx, w)
}

func (s *throughAPI) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.local.Erase(ctx, p)
}

func (s *throughAPI) Close() error {
	err := s.Store.Close()
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return errors.Join(err, s.local.Close())
}
