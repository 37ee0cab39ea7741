package web

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/local/spool"
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
	if s.open == nil {
		return a, nil
	}
	var err error
	a.turns, err = s.open.read(ctx)
	return a, err
}

// maxActive is the number of threads in each phase that the list shows as not idle.
const maxActive = 1000

// openTurns reads the open turns of hooks and proxies. It is safe for concurrent use.
type openTurns struct {
	mu       sync.Mutex
	alive    func(timeline.OpenTurn) bool
	follower *spool.Follower[*progress]
}

func newOpenTurns(d *spool.Dir, now func() time.Time) *openTurns {
	return &openTurns{alive: d.Alive(now), follower: spool.NewFollower(d, func() *progress { return &progress{asked: map[string]bool{}} })}
}

// read returns the open turns by thread. While a page is open, the server reads them several times in a second, so read decodes only
// what was recorded since it was called before.
func (o *openTurns) read(ctx context.Context) (map[segno.ThreadID]*openTurn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	followed, err := o.follower.Turns(ctx)
	if err != nil {
		return nil, err
	}
	open := map[segno.ThreadID]*openTurn{}
	for _, t := range followed {
		if t.Open.Thread != "" {
			open[t.Open.Thread] = t.Notes.openTurn(&t.Open, o.alive(t.Open))
		}
	}
	return open, nil
}

// progress is what a page shows of the entries of an open turn.
type progress struct {
	calls turns.Turn
	asked map[string]bool // the open questions
	ended []segno.Entry   // the ends of tasks, without their bodies
}

// Add implements [spool.Fold].
func (p *progress) Add(entries ...segno.Entry) {
	for _, e := range entries {
		switch e.Kind {
		case segno.EntryIntent:
			p.calls.Add(e)
		case segno.EntryResult:
			p.calls.Add(e)
			c := p.calls.Call(e.ID)
			c.Body, c.Result = nil, "" // may be large, and are not shown
			delete(p.asked, e.ID)
		case segno.EntryInterrupt:
			p.asked[e.ID] = true
		case segno.EntryDecision:
			delete(p.asked, e.ID)
		case segno.EntryNote:
			if e.Name == timeline.NoteTask {
				p.ended = append(p.ended, segno.Entry{Kind: e.Kind, Name: e.Name, ID: e.ID})
			}
		}
	}
}

// openTurn describes a turn with the calls so far.
func (p *progress) openTurn(t *timeline.OpenTurn, isRunning bool) *openTurn {
	o := &openTurn{Prompt: history.Cut(t.Prompt, maxOpenPrompt), Agent: t.Agent, Start: t.Start, PID: t.PID, Parent: t.Parent, Ended: t.Ended,
		Tasks: []openTask{}, Calls: []openCall{}, background: t.InBackground() && !t.Awake, IsRunning: isRunning,
		CallsTotal: len(p.calls.Items), isAsking: len(p.asked) > 0}
	for _, it := range p.calls.Items[max(0, len(p.calls.Items)-maxOpenCalls):] {
		c := it.Call
		o.Calls = append(o.Calls, openCall{ID: c.ID, Tool: history.Cut(c.Tool, maxTitle), Title: history.Cut(c.Subject(maxTitle), maxTitle), Done: c.Done})
	}
	for _, task := range t.RunningTasks(p.ended) {
		o.Tasks = append(o.Tasks, openTask{ID: task.ID, Kind: task.Kind})
	}
	return o
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
