// Package reachable finds the commits of a thread, and the objects that a checkpoint reaches, in a store of any kind. It
// needs no directory of this machine, so a server can use it for the threads of others.
package reachable

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/filelog"
	"github.com/dalsegno/segno/transcript/readers"
	"github.com/dalsegno/segno/workspace"
)

// AgentDemo is the name of the scripted agent of 'segno demo', whose sessions are in Claude Code's format.
const AgentDemo = "demo"

// Tracer finds the objects that checkpoints of a store reach. It remembers what a [workspace.Tracer] and a [Follower] remember. The
// zero value is ready to use, for one goroutine at a time.
type Tracer struct {
	snapshots workspace.Tracer
	others    Follower
}

// Trace calls visit for each object that a checkpoint reaches, and descends into those for which visit returns true.
// [segno.CollectPolicy] requires this signature.
func (t *Tracer) Trace(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
	visit = t.others.forgetting(visit)
	if c.Workspace != nil {
		if err := t.snapshots.Trace(ctx, o, *c.Workspace, visit); err != nil {
			return fmt.Errorf("trace snapshot: %w", err)
		}
		if err := t.others.Follow(o, visit, func(o segno.Objects, visit func(segno.Hash) bool) error {
			return database.Trace(ctx, o, c.Workspace.World, visit)
		}); err != nil {
			return fmt.Errorf("trace databases: %w", err)
		}
	}
	if c.Session != nil {
		if err := t.session(ctx, o, *c.Session, visit); err != nil {
			return fmt.Errorf("trace transcript: %w", err)
		}
	}
	for _, d := range []*segno.Document{c.State, c.World} {
		if d != nil {
			visit(d.Data)
		}
	}
	if err := t.others.Follow(o, visit, func(o segno.Objects, visit func(segno.Hash) bool) error {
		return timeline.TracePoints(ctx, o, &c, visit)
	}); err != nil {
		return fmt.Errorf("trace points: %w", err)
	}
	return nil
}

// session traces a session. Of an agent that segno does not know, it visits only the objects that the position names.
func (t *Tracer) session(ctx context.Context, o segno.Objects, p segno.Position, visit func(segno.Hash) bool) error {
	reader := transcriptOf(p.Agent)
	if reader == nil {
		visit(p.Log)
		visit(p.Sidecars)
		return nil
	}
	return t.others.Follow(o, visit, func(o segno.Objects, visit func(segno.Hash) bool) error { return reader.Trace(ctx, p, o, visit) })
}

// transcriptOf returns the reader of an agent's sessions, without a directory of sessions, or nil.
func transcriptOf(agent string) segno.Transcript {
	switch agent {
	case AgentDemo:
		agent = claude.Agent
	case filelog.Agent:
		return filelog.New("", nil)
	}
	for _, r := range readers.All() {
		if r.Agent == agent {
			return r.Open("", readers.Options{})
		}
	}
	return nil
}
