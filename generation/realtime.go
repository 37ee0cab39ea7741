package generation

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno/internal/worlds/supervise"
)

// gate controls when turns may begin. While a checkpoint is made, none may.
type gate struct {
	mu     sync.RWMutex
	closed bool
}

// enter waits until a turn may begin. It returns false if no turn may begin any more. The caller calls leave once
// the turn has begun.
func (g *gate) enter() bool {
	g.mu.RLock()
	if g.closed {
		g.mu.RUnlock()
		return false
	}
	return true
}

func (g *gate) leave() { g.mu.RUnlock() }

// close prevents further turns from beginning.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// cut makes a checkpoint at a moment when no agent runs. If turns are in progress, it freezes the agents until the
// caller calls thaw. isLast is that of checkpoint.
func (a *attempt) cut(ctx context.Context, isLast bool) (thaw func(), err error) {
	a.gate.mu.Lock()
	groups := a.groups()
	if len(groups) == 0 {
		return a.gate.mu.Unlock, a.checkpoint(ctx, quiet, isLast)
	}
	thawAgents := supervise.Freeze(groups, a.marks()...)
	return func() { thawAgents(); a.gate.mu.Unlock() }, a.checkpoint(ctx, frozen, isLast)
}

// lastCut is cut for the end of an attempt. Agents with a turn in progress stay frozen until they are killed,
// so that their files do not change any more.
func (a *attempt) lastCut(ctx context.Context) error {
	_, err := a.cut(ctx, true)
	for _, g := range a.groups() {
		g.Kill()
	}
	a.gate.closed = true
	a.gate.mu.Unlock()
	return err
}

// report is an event of one agent in a realtime world: it gets a prompt, its turn ends, or it leaves.
type report struct {
	endedTurn
	begins, leaves bool
}

// liveInRealTime gives each agent one turn after the other until the generation is over. The world moves
// its time without segno.
func (a *attempt) liveInRealTime(ctx, work context.Context) error {
	life, leave := context.WithCancel(work)
	defer leave()
	reports := make(chan report)
	for _, m := range a.agents {
		go a.liveAs(life, work, m, reports)
	}
	over := time.NewTimer(time.Duration(a.Experiment.Duration) - a.elapsed())
	defer over.Stop()
	cuts := time.NewTicker(max(a.Every, time.Millisecond))
	defer cuts.Stop()
	if a.Every == 0 {
		cuts.Stop()
	}
	grace := time.NewTimer(a.grace())
	grace.Stop()
	defer grace.Stop()
	beginEnd := func() {
		leave()
		grace.Reset(a.grace())
	}
	end, isLate := ctx.Done(), false
	for living := len(a.agents); living > 0 && !isLate; {
		select {
		case r := <-reports:
			if r.leaves {
				living--
			} else if err := a.handleTurn(work, r); err != nil {
				return err
			}
		case <-cuts.C:
			thaw, err := a.cut(work, false)
			thaw()
			if err != nil {
				return err
			}
		case <-over.C:
			beginEnd()
		case <-end:
			end = nil
			beginEnd()
		case <-grace.C:
			isLate = true
		}
	}
	isOver := a.isOver()
	if err := a.lastCut(work); err != nil || isOver {
		return err
	}
	return ctx.Err()
}

// handleTurn handles the begin or the end of a turn.
func (a *attempt) handleTurn(work context.Context, r report) error {
	if r.begins {
		a.event(Event{Kind: EventTurn, Generation: a.generation, Run: a.id, Agent: r.Name})
		return nil
	}
	if err := a.endTurn(r.endedTurn); err != nil {
		return err
	}
	return a.reportWorld(work)
}

// liveAs gives one agent turns until life ends, and reports each.
func (a *attempt) liveAs(life, work context.Context, m *member, reports chan<- report) {
	send := func(r report) {
		r.member = m
		select {
		case reports <- r:
		case <-work.Done():
		}
	}
	idle := time.NewTimer(0)
	defer idle.Stop()
	for {
		select {
		case <-life.Done():
			send(report{leaves: true})
			return
		case <-idle.C:
		}
		if life.Err() != nil {
			continue
		}
		from := m.logSize()
		send(report{begins: true})
		err := a.turn(work, m)
		send(report{endedTurn: endedTurn{from: from, err: err}})
		if err != nil {
			return
		}
		idle.Reset(time.Duration(a.Experiment.Idle))
	}
}
