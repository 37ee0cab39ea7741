package web

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// openTurn is a turn that has begun and not ended.
type openTurn struct {
	Prompt     string         `json:"prompt"` // the beginning
	Agent      string         `json:"agent"`
	Start      time.Time      `json:"start"`
	PID        int            `json:"pid"`
	Parent     segno.CommitID `json:"parent"`
	Ended      segno.CommitID `json:"ended"` // the checkpoint of a turn whose tasks go on in the background
	Tasks      []openTask     `json:"tasks"`
	Calls      int            `json:"calls"`
	LastCall   string         `json:"last_call"` // the tool of the newest call
	IsRunning  bool           `json:"running"`   // its process is alive
	isAsking   bool
	background bool
}

// openTask is a task in the background.
type openTask struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
}

// The states of a thread.
const (
	stateIdle        = "idle"
	stateRunning     = "running"
	stateBackground  = "background"
	stateWaiting     = "waiting"
	stateInterrupted = "interrupted"
)

// activity is what happens in a store at one moment: the open turns of hooks and proxies, and the
// phases of the threads of Go agents.
type activity struct {
	turns      map[segno.ThreadID]*openTurn
	phases     map[segno.ThreadID]agent.Phase
	interrupts map[segno.ThreadID][]segno.Interrupt
}

// activity reads what happens in the store now.
func (s *Server) activity(ctx context.Context) (*activity, error) {
	a := &activity{turns: map[segno.ThreadID]*openTurn{}, phases: map[segno.ThreadID]agent.Phase{}, interrupts: map[segno.ThreadID][]segno.Interrupt{}}
	finder := agent.New(agent.Config{Name: chat.Name, Store: s.Store})
	for _, phase := range []agent.Phase{agent.PhaseWaiting, agent.PhaseRunning, agent.PhaseBrokenOff} {
		for f, err := range finder.Find(ctx, agent.FindQuery{Phase: phase, Limit: maxActive}) {
			if err != nil {
				return nil, err
			}
			a.phases[f.Thread.ID], a.interrupts[f.Thread.ID] = phase, f.Interrupts
		}
	}
	if s.Local == nil {
		return a, nil
	}
	turns, err := s.Local.Spool().Turns(ctx)
	if err != nil {
		return nil, err
	}
	for i := range turns {
		if turns[i].Thread == "" {
			continue
		}
		if a.turns[turns[i].Thread], err = s.readOpenTurn(ctx, &turns[i]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// maxActive is how many threads in each phase are distinguished from idle ones.
const maxActive = 1000

// readOpenTurn reads an open turn and its calls so far.
func (s *Server) readOpenTurn(ctx context.Context, t *timeline.OpenTurn) (*openTurn, error) {
	entries, _, err := s.Local.Spool().Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	o := &openTurn{Prompt: history.Cut(t.Prompt, maxOpenPrompt), Agent: t.Agent, Start: t.Start, PID: t.PID, Parent: t.Parent, Ended: t.Ended,
		Tasks: []openTask{}, background: t.InBackground() && !t.Awake, IsRunning: t.PID != 0 && proc.Alive(t.PID, t.PIDStart)}
	asked := map[string]bool{}
	for _, e := range entries {
		switch e.Kind {
		case segno.EntryIntent:
			o.Calls++
			o.LastCall = history.Cut(e.Name, maxOpenName)
		case segno.EntryInterrupt:
			asked[e.ID] = true
		case segno.EntryDecision, segno.EntryResult:
			delete(asked, e.ID)
		}
	}
	o.isAsking = len(asked) > 0
	for _, task := range t.RunningTasks(entries) {
		o.Tasks = append(o.Tasks, openTask{ID: task.ID, Kind: task.Kind})
	}
	return o, nil
}

// How much of the texts of an open turn is shown.
const (
	maxOpenPrompt = 2 << 10
	maxOpenName   = 100
)

// state returns the state of a thread.
func (a *activity) state(thread segno.ThreadID) string {
	if t := a.turns[thread]; t != nil {
		switch {
		case !t.IsRunning:
			return stateInterrupted
		case t.background:
			return stateBackground
		case t.isAsking:
			return stateWaiting
		}
		return stateRunning
	}
	switch a.phases[thread] {
	case agent.PhaseRunning:
		return stateRunning
	case agent.PhaseWaiting:
		return stateWaiting
	case agent.PhaseBrokenOff:
		return stateInterrupted
	}
	return stateIdle
}
