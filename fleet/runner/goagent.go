package runner

import (
	"context"
	"errors"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/timeline"
)

// Go runs a Go agent that has a workspace. All fields but Name are required. It is safe for concurrent use.
type Go struct {
	Name  string // of the agent, for new threads
	Store segno.Store
	Cache *workspaces.Cache // of the store
	// New returns the config of the agent for one run, whose tools work in the directory dir; root is the opened dir. The
	// runner sets Store, Timeline and FilesAt, and closes root after the run.
	New func(dir string, root *os.Root) agent.Config
	// Runner makes a runner of the agent; it is [fleet.Fleet.AgentRunner].
	Runner func(*agent.Agent) fleet.Runner
}

// maxMoved is how often a run begins again because the head moved while its directory was made, for example by a decision.
const maxMoved = 10

// Run implements [fleet.Runner].
func (g *Go) Run(ctx context.Context, w fleet.Work) (fleet.Result, error) {
	if g.Store == nil || g.Cache == nil || g.New == nil || g.Runner == nil {
		return fleet.Result{}, segno.Errorf(segno.KindInvalid, "run agent", w.Thread, "the runner lacks a store, a cache or an agent")
	}
	thread := segno.ThreadID(w.Thread)
	t, err := openThread(ctx, g.Store, g.Cache, thread, segno.Thread{Title: timeline.Title(w.Prompt.Text), Agent: g.Name}, segno.ActorGo)
	if err != nil {
		return fleet.Result{}, err
	}
	for n := 1; ; n++ {
		result, err := g.runOnce(ctx, w, t)
		var moved *segno.ConflictError
		if !errors.As(err, &moved) || errors.Is(err, agent.ErrRunning) || n == maxMoved || ctx.Err() != nil {
			return result, err
		}
	}
}

// runOnce makes a directory for the head of a thread, and runs the agent there.
func (g *Go) runOnce(ctx context.Context, w fleet.Work, t segno.Thread) (result fleet.Result, err error) {
	head, err := g.Store.Head(ctx, t.ID)
	if err != nil {
		return result, err
	}
	snapshot, err := snapshotAt(ctx, g.Store, head.Head, t)
	if err != nil {
		return result, err
	}
	dir, err := g.Cache.Checkout(ctx, snapshot)
	if err != nil {
		return result, err
	}
	tl, err := dir.Timeline(ctx, workspaces.TimelineOptions{Store: g.Store, Actor: segno.ActorGo})
	if err != nil {
		return result, errors.Join(err, dir.Discard())
	}
	root, err := os.OpenRoot(dir.Files())
	if err != nil {
		return result, errors.Join(err, dir.Discard())
	}
	defer root.Close()
	config := g.New(dir.Files(), root)
	config.Store, config.Timeline, config.FilesAt = g.Store, tl, head.Head
	result, err = g.Runner(agent.New(config)).Run(ctx, w)
	cleanup := context.WithoutCancel(ctx)
	if checkErr := dir.CheckRecorded(cleanup, tl); checkErr != nil {
		return result, errors.Join(err, checkErr, dir.Discard())
	}
	return result, errors.Join(err, dir.Release(cleanup, segno.Hash{}))
}
