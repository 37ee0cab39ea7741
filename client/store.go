package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/dalsegno/segno/internal/web/wire"
)

// Store is a store behind the HTTP API. All methods may be called concurrently. A call has no limit of time, but it ends with
// [segno.KindIO] if it waits for two minutes, or thirty within a preview or a move, in which the server neither accepts nor sends
// a byte.
type Store struct {
	base  *url.URL
	token string
	http  *http.Client
	// silence and moveSilence are how long the server may be silent within a request.
	silence, moveSilence time.Duration

	calls sqlstore.Calls
	// closing is closed when Close begins. That ends the calls that wait for a commit.
	closing chan struct{}
	once    sync.Once
}

// The interfaces that a Store implements.
var (
	_ segno.Store      = (*Store)(nil)
	_ segno.Chains     = (*Store)(nil)
	_ segno.Workspaces = (*Store)(nil)
	_ segno.Watcher    = (*Store)(nil)
)

// New returns the store behind the address of a server, as 'segno serve' prints it. token is the part of
// the printed address after "#"; if it is empty, New takes it from the address. New does not connect.
func New(address, token string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The error does not have the address, which may contain the token or a password.
		return nil, segno.Errorf(segno.KindInvalid, "open store", "", "not an address of a server").
			WithHint("use the address that 'segno web' or 'segno serve' prints")
	}
	if token == "" {
		token = u.Fragment
	}
	u.Fragment, u.RawQuery, u.User = "", "", nil
	u.Path = strings.TrimSuffix(u.Path, "/") + "/api/v1"
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 8 // a copy of a thread uses several connections
	// The API does not redirect. net/http would send the token also to another port of the host, or without TLS, and a body to
	// any host.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Store{base: u, token: token, http: &http.Client{Transport: transport, CheckRedirect: refuse}, closing: make(chan struct{}),
		silence: maxSilence, moveSilence: maxMoveSilence}, nil
}

// Close ends the calls that wait for a commit, and waits for the others. Later calls return
// [segno.KindInvalid]. The server's store stays open.
func (s *Store) Close() error {
	s.calls.Close(func() { s.once.Do(func() { close(s.closing) }) })
	s.http.CloseIdleConnections()
	return nil
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	const op = "read head"
	var h wire.Head
	if err := s.read(ctx, op, string(thread), "/raw/head", url.Values{"thread": {string(thread)}}, &h); err != nil {
		return segno.Head{}, err
	}
	return decoded[segno.Head](op, string(thread))(h.Decode())
}

// Load implements [segno.Store].
func (s *Store) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	const op = "load line"
	q := url.Values{"at": {string(at)}}
	if w.Last != 0 {
		q.Set("last", decimal(int64(w.Last)))
	}
	if w.Entries {
		q.Set("entries", "1")
	}
	line := new(segno.Line)
	for n, err := range list(ctx, s, op, string(at), "/raw/line", q, wire.DecodeNode) {
		if err != nil {
			return nil, err
		}
		line.Commits = append(line.Commits, n)
	}
	if n := len(line.Commits); n == 0 || line.Commits[n-1].ID != at {
		return nil, segno.Errorf(segno.KindCorrupt, op, string(at), "the line of the server does not end with this commit")
	}
	return line, nil
}

// Checkpoints implements [segno.Store].
func (s *Store) Checkpoints(ctx context.Context, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error] {
	return query(ctx, s, "list checkpoints", "/raw/checkpoints", wire.NewCheckpointQuery(q), wire.DecodeCheckpoint)
}

// Threads implements [segno.Store].
func (s *Store) Threads(ctx context.Context, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	return query(ctx, s, "list threads", "/raw/threads", q, wire.DecodeThread)
}

// Chain implements [segno.Chains].
func (s *Store) Chain(ctx context.Context, thread segno.ThreadID) iter.Seq2[segno.Link, error] {
	return list(ctx, s, "read chain", string(thread), "/raw/chain", url.Values{"thread": {string(thread)}}, wire.DecodeLink)
}

// Workspace implements [segno.Workspaces].
func (s *Store) Workspace(ctx context.Context, id segno.WorkspaceID) (segno.WorkspaceRecord, error) {
	const op = "read workspace"
	for w, err := range query(ctx, s, op, "/raw/workspaces", wire.WorkspaceQuery{ID: id}, wire.DecodeWorkspace) {
		return w, err
	}
	return segno.WorkspaceRecord{}, segno.NewError(segno.KindNotFound, op, string(id), nil)
}

// FindWorkspaces implements [segno.Workspaces].
func (s *Store) FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[segno.WorkspaceRecord, error] {
	q := wire.WorkspaceQuery{Device: device, Inode: inode}
	for _, p := range paths {
		q.Paths = append(q.Paths, []byte(p))
	}
	return query(ctx, s, "find workspaces", "/raw/workspaces", q, wire.DecodeWorkspace)
}

// Operations implements [segno.Workspaces].
func (s *Store) Operations(ctx context.Context, id segno.WorkspaceID) iter.Seq2[segno.Operation, error] {
	return list(ctx, s, "list operations", string(id), "/raw/operations", url.Values{"workspace": {string(id)}}, wire.DecodeOperation)
}

// Wait implements [segno.Watcher].
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	const op = "wait for thread"
	q := url.Values{"thread": {string(thread)}, "after": {decimal(max(after, -1))}}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-wait.Done():
		}
	}()
	for {
		var answer struct{ Head *wire.Head }
		err := s.read(wait, op, string(thread), "/raw/wait", q, &answer)
		switch {
		case err != nil && s.isClosing() && ctx.Err() == nil:
			return segno.Head{}, segno.Errorf(segno.KindInvalid, op, string(thread), "the store is closed")
		case err != nil:
			return segno.Head{}, err
		case answer.Head != nil:
			return decoded[segno.Head](op, string(thread))(answer.Head.Decode())
		}
	}
}

// isClosing reports whether Close has begun.
func (s *Store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}
