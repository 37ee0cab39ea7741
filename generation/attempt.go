package generation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/worlds/supervise"
	"github.com/dalsegno/segno/world"
)

// attempt is one try to run a generation to its end, from its template or a checkpoint.
type attempt struct {
	*Runner
	generation int
	id, dir    string // the name and the directory of the run
	own        string // the id of the attempt
	resumed    string // the archive that it continues, relative to the directory of the runs, or ""
	whyNot     string // why it is not reproducible because of its beginning, or ""
	document   []byte // the world's document to begin with, or nil
	templates  []string
	tickets    map[string]string // the agents' sessions in the world, from the checkpoint
	turns      map[string]int    // complete turns by agent, from the checkpoint
	port       int               // the world's port, from the checkpoint, or 0
	story      world.Story       // or nil
	kept       storyWriter
	from       string        // the digest of the archive that it continues, or ""
	base       *archive.Base // the archive of which the next ones are deltas, or nil
	baseSize   int64
	agents     []*member
	world      World

	ticks  int            // ticks passed in the generation
	saved  int            // checkpoints of this attempt
	now    progress       // the present state of the world
	before time.Duration  // time passed in the generation when the attempt began
	start  time.Time      // when the attempt began
	opened time.Time      // when the world was ready
	gate   gate           // controls when turns begin
	last   time.Time      // when the newest checkpoint was made, or the start
	thread segno.ThreadID // the thread of the run
	cutErr error          // why the newest checkpoint failed
}

// cutError returns why the newest checkpoint failed, or nil. It returns nil if a is nil.
func (a *attempt) cutError() error {
	if a == nil {
		return nil
	}
	return a.cutErr
}

// run runs the generation to its end.
func (a *attempt) run(ctx context.Context) (err error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.open(work); err != nil {
		return err
	}
	a.status.Generation, a.status.Run, a.status.Attempt = a.generation, a.id, a.own
	a.setState(StateRunning, "")
	if err := a.record(""); err != nil { // again, because a running world tells its time, its outcomes and its mode
		return err
	}
	a.event(Event{Kind: EventBegin, Generation: a.generation, Run: a.id, Tick: a.ticks, Path: a.templates[0], Next: a.Every.Seconds()})
	a.opened, a.last = a.Now(), a.Now()
	live := a.liveInSteps
	if a.world.Info().Tick == 0 {
		live = a.liveInRealTime
	}
	if err := live(ctx, work); err != nil {
		return err
	}
	return a.complete()
}

// liveInSteps runs the agents tick by tick until the generation is over.
func (a *attempt) liveInSteps(ctx, work context.Context) error {
	for !a.isOver() {
		if err := a.tick(ctx, work); err != nil {
			return err
		}
		if a.isOver() {
			break
		}
		if ctx.Err() != nil || a.Every > 0 && a.Now().Sub(a.last) >= a.Every {
			if err := a.checkpoint(work, quiet, ctx.Err() != nil); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return a.checkpoint(work, quiet, true)
}

// isOver reports whether the generation lasted as long as the experiment file sets.
func (a *attempt) isOver() bool {
	if a.Experiment.Ticks > 0 {
		return a.ticks >= a.Experiment.Ticks
	}
	return a.elapsed() >= time.Duration(a.Experiment.Duration)
}

// elapsed returns how long agents have run in this generation.
func (a *attempt) elapsed() time.Duration { return a.before + a.Now().Sub(a.opened) }

// open starts the world and lets the agents join.
func (a *attempt) open(ctx context.Context) error {
	logs, err := os.OpenFile(filepath.Join(a.dir, "world.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return segno.NewError(segno.KindIO, "start world", a.id, err)
	}
	defer logs.Close() // the world has its own handle
	w, err := a.Start(ctx, WorldStart{Document: a.document, Path: filepath.Join(a.dir, "world.resume"), Port: a.port, Log: logs, Hold: a.locked})
	if err != nil {
		return err // and w may be a nil pointer in an interface
	}
	a.world = w
	info := a.world.Info()
	if info.Tick == 0 && a.Experiment.Ticks > 0 {
		return segno.Errorf(segno.KindInvalid, "run experiment", info.Name, "the time of the world moves without ticks").
			WithHint("give the experiment a duration in place of ticks")
	}
	for i, spec := range a.Experiment.Agents {
		m, err := a.openAgent(ctx, spec, info.Manual)
		if err != nil {
			return fmt.Errorf("prepare agent %d: %w", i+1, err)
		}
		a.agents = append(a.agents, m)
	}
	a.sweep() // kills the processes of a runner that was killed
	for _, m := range a.agents {
		if err := a.world.Join(ctx, m.Ticket, m.Name); err != nil {
			return err
		}
	}
	s, err := a.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := a.observe(s); err != nil { // before the agents do any work
		return segno.NewError(segno.KindInvalid, "start world", info.Name, err)
	}
	return a.openStory(s)
}

func (a *attempt) agentDir(name string) string { return filepath.Join(a.dir, "agents", name) }

// sweep kills the processes that left the group of a turn and outlived it. It must not be called while a
// turn is in progress.
func (a *attempt) sweep() {
	if marks := a.marks(); len(marks) > 0 {
		supervise.KillWith(marks...)
	}
}

// marks are the variables that only the processes of the agents have.
func (a *attempt) marks() (all []string) {
	for _, m := range a.agents {
		all = append(all, m.mark())
	}
	return all
}

// close ends the world and the agents.
func (a *attempt) close() (err error) {
	defer a.sweep()
	a.gate.close()
	for _, g := range a.groups() {
		g.Kill()
	}
	for _, m := range a.agents {
		err = errors.Join(err, m.log.Close())
	}
	if a.world != nil {
		err = errors.Join(err, a.world.Close())
	}
	a.closeStory()
	return err
}

// tick gives each agent a turn and then advances the time of the world. If ctx ends, the agents have a
// moment to end their turns.
func (a *attempt) tick(ctx, work context.Context) error {
	turns := turnsOfTick{attempt: a, ended: make(chan endedTurn, len(a.agents)), end: ctx.Done()}
	for _, m := range a.agents {
		from := m.logSize()
		a.event(Event{Kind: EventTurn, Generation: a.generation, Run: a.id, Tick: a.ticks, Agent: m.Name})
		go func() { turns.ended <- endedTurn{m, from, a.turn(work, m)} }()
		if turns.open++; a.Experiment.Order == OrderFixed {
			if err := turns.await(work); err != nil {
				return err
			}
		}
	}
	if err := turns.await(work); err != nil {
		return err
	}
	if err := a.world.Advance(work, a.world.Info().Tick); err != nil {
		return err
	}
	a.ticks++
	if err := a.reportWorld(work); err != nil {
		return err
	}
	e := Event{Kind: EventTick, Generation: a.generation, Run: a.id, Tick: a.ticks, SimTime: a.status.SimTime}
	if a.Every > 0 {
		e.Next = max(0, a.Every-a.Now().Sub(a.last)).Seconds()
	}
	a.event(e)
	return nil
}

// reportWorld reports what happened in the world. It returns an error if the world died.
func (a *attempt) reportWorld(ctx context.Context) error {
	s, err := a.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	a.observeOn(s)
	return a.tell(s)
}

// turnsOfTick are the turns of one tick that are in progress.
type turnsOfTick struct {
	*attempt
	ended chan endedTurn
	open  int
	end   <-chan struct{}  // of the run; nil after it
	late  <-chan time.Time // when the grace of all agents is over; nil before the end of the run
}

// await waits until all turns have ended. If the grace is over first, it makes the last checkpoint of the attempt.
func (t *turnsOfTick) await(work context.Context) error {
	for t.open > 0 {
		select {
		case ended := <-t.ended:
			t.open--
			if err := t.endTurn(ended); err != nil {
				return err
			}
		case <-t.end:
			t.end, t.late = nil, time.After(t.grace())
		case <-t.late:
			return errors.Join(context.Canceled, t.lastCut(work))
		}
	}
	return nil
}

// complete records that the generation is over.
func (a *attempt) complete() error {
	if err := a.record(runCompleted); err != nil {
		return err
	}
	if err := a.updateChain(); err != nil {
		return err
	}
	a.event(Event{Kind: EventEnd, Generation: a.generation, Run: a.id, Tick: a.ticks, SimTime: a.status.SimTime})
	if a.generation == a.Experiment.Generations {
		a.setState(StateDone, "")
	}
	return nil
}
