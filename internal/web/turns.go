package web

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// openTurn is a turn that has begun and not ended.
type openTurn struct {
	Prompt     string         `json:"prompt"` // the beginning of the prompt
	Agent      string         `json:"agent"`
	Start      time.Time      `json:"start"`
	PID        int            `json:"pid"`
	Parent     segno.CommitID `json:"parent"`
	Ended      segno.CommitID `json:"ended"` // the checkpoint of an ended turn whose tasks continue in the background
	Tasks      []openTask     `json:"tasks"`
	Calls      []openCall     `json:"calls"` // the newest ones, oldest first
	CallsTotal int            `json:"calls_total"`
	IsRunning  bool           `json:"running"` // its process is alive
	isAsking   bool
	background bool
}

// openCall is a call of a turn that has not ended.
type openCall struct {
	ID    string `json:"id"`
	Tool  string `json:"tool"`
	Title string `json:"title"`
	Done  bool   `json:"done"`
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

// activity is the current activity in a store: the open turns of hooks and proxies, and the
// phases of the threads of Go agents.
type activity struct {
	turns      map[segno.ThreadID]*openTurn
	phases     map[segno.ThreadID]agent.Phase
	interrupts map[segno.ThreadID][]segno.Interrupt
}

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
	open, err := s.Local.Spool().Turns(ctx)
	if err != nil {
		return nil, err
	}
	for i := range open {
		if open[i].Thread == "" {
			continue
		}
		if a.turns[open[i].Thread], err = s.readOpenTurn(ctx, &open[i]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// maxActive is the number of threads in each phase that the list shows as not idle.
const maxActive = 1000

// readOpenTurn reads an open turn and its calls so far.
func (s *Server) readOpenTurn(ctx context.Context, t *timeline.OpenTurn) (*openTurn, error) {
	entries, _, err := s.Local.Spool().Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	o := &openTurn{Prompt: history.Cut(t.Prompt, maxOpenPrompt), Agent: t.Agent, Start: t.Start, PID: t.PID, Parent: t.Parent, Ended: t.Ended,
		Tasks: []openTask{}, Calls: []openCall{}, background: t.InBackground() && !t.Awake, IsRunning: s.Local.Spool().Alive(s.Now)(*t)}
	o.readEntries(entries)
	for _, task := range t.RunningTasks(entries) {
		o.Tasks = append(o.Tasks, openTask{ID: task.ID, Kind: task.Kind})
	}
	return o, nil
}

// readEntries reads the calls and questions of a turn from its entries so far.
func (o *openTurn) readEntries(entries []segno.Entry) {
	var t turns.Turn
	t.Add(entries...)
	calls := t.Calls()
	o.CallsTotal = len(calls)
	for _, c := range calls[max(0, len(calls)-maxOpenCalls):] {
		o.Calls = append(o.Calls, openCall{ID: c.ID, Tool: history.Cut(c.Tool, maxTitle), Title: history.Cut(c.Subject(maxTitle), maxTitle), Done: c.Done})
	}
	asked := map[string]bool{}
	for _, e := range entries {
		switch e.Kind {
		case segno.EntryInterrupt:
			asked[e.ID] = true
		case segno.EntryDecision, segno.EntryResult:
			delete(asked, e.ID)
		}
	}
	o.isAsking = len(asked) > 0
}

// The limits of an open turn in a response.
const (
	maxOpenPrompt = 2 << 10
	maxOpenCalls  = 20
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
