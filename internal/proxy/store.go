package proxy

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/timeline"
)

// Store is a store with the files that the proxy keeps beside it. [local.Store] implements it.
type Store interface {
	segno.Store
	segno.Chains
	segno.Leaser
	indexSealer
	Spool() *spool.Dir
	// Transcripts returns the readers of the agents' sessions, by agent.
	Transcripts() map[string]segno.Transcript
	// Find returns the deepest known workspace at or above a directory.
	Find(ctx context.Context, dir string) (segno.WorkspaceRecord, error)
	// RegisterRoot returns the workspace of a session in dir, and makes it known.
	RegisterRoot(ctx context.Context, dir string) (segno.WorkspaceRecord, error)
	// Timeline returns the timeline of a workspace; progress may be nil.
	Timeline(rec segno.WorkspaceRecord, progress *local.Progress) (*timeline.Timeline, error)
	// SessionDir returns the directory of a session, or "" if no thread contains the session.
	SessionDir(ctx context.Context, session segno.SessionID) (string, error)
	// Watch makes snapshots read only the directories that change.
	Watch(ctx context.Context, logf func(format string, args ...any))
	// CompressSome compresses a part of the large snapshots.
	CompressSome(ctx context.Context) error
}

// Continued is a thread for which a program, and not an editor, is the client. The program opens the thread with
// session/resume and the thread's id.
type Continued struct {
	Thread segno.ThreadID // it must exist
	// Lease is the lease on the thread. The program renews and releases it.
	Lease segno.Lease
	// Preface is a text that the agent receives before the first prompt; "" means none.
	Preface string
}

// continued returns the options of the record's thread if its client is a program, else nil.
func (l *sessionStore) continued() *Continued {
	if c := l.proxy.Continued; c != nil && l.record.Thread == c.Thread {
		return c
	}
	return nil
}
