package runner

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proxy"
	"github.com/dalsegno/segno/timeline"
)

// threadStore is a store with the methods that the proxy needs.
type threadStore interface {
	segno.Store
	segno.Chains
	segno.Leaser
	segno.Workspaces
}

// proxyStore is the fleet's store for the proxy. What the proxy keeps beside a store is in the directory of the turn, which
// is also the only workspace.
type proxyStore struct {
	threadStore
	ctx   context.Context // of the turn, for the timelines that the proxy opens
	dir   *workspaces.Checkout
	place local.Place
}

var _ proxy.Store = (*proxyStore)(nil)

// Close implements [proxy.Store]. The caller of the runner closes the store.
func (s *proxyStore) Close() error { return nil }

// Spool implements [proxy.Store].
func (s *proxyStore) Spool() *spool.Dir { return s.dir.Spool() }

// Transcripts implements [proxy.Store].
func (s *proxyStore) Transcripts() map[string]segno.Transcript {
	return s.place.Transcripts(s.Objects())
}

// Find implements [proxy.Store].
func (s *proxyStore) Find(ctx context.Context, dir string) (segno.WorkspaceRecord, error) {
	return s.RegisterRoot(ctx, dir)
}

// RegisterRoot implements [proxy.Store].
func (s *proxyStore) RegisterRoot(_ context.Context, dir string) (segno.WorkspaceRecord, error) {
	if dir != s.dir.Files() {
		return segno.WorkspaceRecord{}, segno.Errorf(segno.KindRefused, "find workspace", dir, "a worker's turn has only one directory")
	}
	return segno.WorkspaceRecord{ID: s.dir.Workspace(), Path: dir}, nil
}

// Timeline implements [proxy.Store].
func (s *proxyStore) Timeline(segno.WorkspaceRecord, *local.Progress) (*timeline.Timeline, error) {
	return s.dir.Timeline(s.ctx, workspaces.TimelineOptions{Store: s.threadStore, Actor: segno.ActorACP, Transcripts: s.Transcripts()})
}

// SessionDir implements [proxy.Store]. The sessions of other directories are on other machines.
func (s *proxyStore) SessionDir(context.Context, segno.SessionID) (string, error) { return "", nil }

// Watch implements [proxy.Store]. A turn is shorter than a watch is useful.
func (s *proxyStore) Watch(context.Context, func(format string, args ...any)) {}

// CompressSome implements [proxy.Store]. Workers do not compress what others stored.
func (s *proxyStore) CompressSome(context.Context) error { return nil }

// SealFile implements [proxy.Store]. The files of the agent are beside the sealed ones, and are not sealed.
func (s *proxyStore) SealFile(_ string, plain []byte) []byte { return plain }

// OpenFile implements [proxy.Store].
func (s *proxyStore) OpenFile(_ string, data []byte) ([]byte, error) { return data, nil }
