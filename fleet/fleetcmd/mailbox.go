package fleetcmd

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/internal/web/wire"
)

// API returns the fleet in the form that the HTTP API and the verbs use.
func API(f *fleet.Fleet) web.Fleet { return &mailboxes{f, agent.New(agent.Config{Store: f.Store()})} }

// mailboxes implements [web.Fleet].
type mailboxes struct {
	fleet  *fleet.Fleet
	reader *agent.Agent // of the questions of threads
}

// Send implements [web.Fleet].
func (m *mailboxes) Send(ctx context.Context, thread segno.ThreadID, key string, p wire.SendPrompt) (wire.Prompt, error) {
	if p.Agent == "" {
		name, err := m.agentOf(ctx, string(thread), key)
		if err != nil {
			return wire.Prompt{}, err
		}
		p.Agent = name
	}
	sent, err := m.fleet.Send(ctx, fleet.Prompt{Thread: string(thread), Agent: p.Agent, Text: p.Text, Key: key, Actor: p.Actor, Priority: p.Priority, At: p.At})
	if err != nil {
		return wire.Prompt{}, err
	}
	x, err := m.find(ctx, thread, sent.Key)
	x.New = sent.IsNew
	return x, err
}

// agentOf returns the agent of a prompt that names none: that of the prompt with the same key, or of the thread's newest one. For a
// new thread, it is the agent of the workers, if they have only one.
func (m *mailboxes) agentOf(ctx context.Context, thread, key string) (string, error) {
	for _, q := range []fleet.PromptQuery{{Thread: thread, Key: key, Limit: 1}, {Thread: thread, Limit: 1}} {
		for p, err := range m.fleet.Prompts(ctx, q) {
			if err != nil {
				return "", err
			}
			return p.Agent, nil
		}
	}
	status, err := m.fleet.Status(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, w := range status.Workers {
		names = append(names, w.Agents...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 1 {
		return names[0], nil
	}
	hint := "name an agent of agents.toml (--agent)"
	if len(names) > 1 {
		hint = "name one of " + strings.Join(names, ", ")
	}
	return "", segno.Errorf(segno.KindInvalid, "send prompt", thread, "the prompt of a new thread names no agent").WithHint(hint)
}

// find returns a prompt, with what its turn waits for.
func (m *mailboxes) find(ctx context.Context, thread segno.ThreadID, key string) (wire.Prompt, error) {
	list, err := m.Prompts(ctx, wire.PromptQuery{Thread: thread, Key: key, Limit: 1})
	if err == nil && len(list.Prompts) == 0 {
		err = segno.Errorf(segno.KindNotFound, "find prompt", key, "thread %s has no such prompt", thread)
	}
	if err != nil {
		return wire.Prompt{}, err
	}
	return list.Prompts[0], nil
}

// Prompts implements [web.Fleet].
func (m *mailboxes) Prompts(ctx context.Context, q wire.PromptQuery) (list wire.PromptList, err error) {
	ask := fleet.PromptQuery{Thread: string(q.Thread), Key: q.Key, Before: q.Before, Limit: q.Limit + 1}
	for _, s := range q.States {
		ask.States = append(ask.States, fleet.State(s))
	}
	for p, err := range m.fleet.Prompts(ctx, ask) {
		if err != nil {
			return list, err
		}
		if len(list.Prompts) == q.Limit {
			list.Next = strconv.FormatInt(list.Prompts[q.Limit-1].N, 10)
			break
		}
		list.Prompts = append(list.Prompts, promptOf(&p))
	}
	if q.Key == "" || len(list.Prompts) == 0 || list.Prompts[0].State != wire.PromptWaiting {
		return list, nil
	}
	list.Prompts[0].Waits, err = m.waits(ctx, q.Thread)
	return list, err
}

// waits returns what the open turn of a thread waits for. It reads the threads of all agents.
func (m *mailboxes) waits(ctx context.Context, thread segno.ThreadID) ([]segno.Interrupt, error) {
	head, err := m.fleet.Store().Head(ctx, thread)
	if err != nil {
		return nil, err
	}
	line, err := m.fleet.Store().Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return nil, err
	}
	return state.Interrupts, nil
}

// promptOf returns a prompt as the API has it.
func promptOf(p *fleet.PromptState) wire.Prompt {
	x := wire.Prompt{Thread: segno.ThreadID(p.Thread), Key: p.Key, N: p.N, Agent: p.Agent, Tenant: p.Tenant, Actor: p.Actor, Priority: p.Priority,
		State: string(p.State), Attempts: p.Attempts, Error: p.Error, Worker: p.Worker, Next: p.Next, Wake: p.Wake, Sent: p.Sent, Started: p.Started, Ended: p.Ended}
	if p.State == fleet.StateDone {
		x.Answer = p.Outcome
	}
	return x
}

// Retry implements [web.Fleet].
func (m *mailboxes) Retry(ctx context.Context, thread segno.ThreadID, key string) (wire.Prompt, error) {
	if err := m.fleet.Retry(ctx, string(thread), key); err != nil {
		return wire.Prompt{}, err
	}
	return m.find(ctx, thread, key)
}

// Cancel implements [web.Fleet].
func (m *mailboxes) Cancel(ctx context.Context, thread segno.ThreadID, key string) (wire.Prompt, error) {
	if err := m.fleet.Cancel(ctx, string(thread), key); err != nil {
		return wire.Prompt{}, err
	}
	return m.find(ctx, thread, key)
}

// Decide implements [web.Fleet].
func (m *mailboxes) Decide(ctx context.Context, thread segno.ThreadID, d wire.Decisions) error {
	return m.fleet.Decide(ctx, string(thread), d.Decisions...)
}

// Signal implements [web.Fleet].
func (m *mailboxes) Signal(ctx context.Context, thread segno.ThreadID, key string, s wire.Signal) error {
	value := s.Value
	if value == nil {
		value = json.RawMessage("null")
	}
	return m.fleet.Signal(ctx, string(thread), s.Name, key, value)
}

// Inbox implements [web.Fleet]. A window contains all questions of its last thread. Threads that wait for no person count, too, so
// that one window reads a limited number of threads.
func (m *mailboxes) Inbox(ctx context.Context, after string, limit int) (list wire.QuestionList, err error) {
	threads := 0
	for f, err := range m.reader.Find(ctx, agent.FindQuery{Phase: agent.PhaseWaiting, After: after, Limit: limit}) {
		if err != nil {
			return list, err
		}
		for _, i := range f.Interrupts {
			if i.Reason.IsQuestion() {
				list.Questions = append(list.Questions, wire.Question{Thread: f.Thread.ID, Interrupt: i})
			}
		}
		if threads++; threads == limit || len(list.Questions) >= limit {
			list.Next = string(f.Thread.ID)
			break
		}
	}
	return list, nil
}

// FleetStatus implements [web.Fleet].
func (m *mailboxes) FleetStatus(ctx context.Context) (wire.FleetStatus, error) {
	s, err := m.fleet.Status(ctx)
	list := wire.FleetStatus{Open: []wire.FleetCount{}, Workers: []wire.FleetWorker{}}
	for _, n := range s.Open {
		list.Open = append(list.Open, wire.FleetCount{Tenant: n.Tenant, State: string(n.State), Count: n.Count, Oldest: n.Oldest})
	}
	for _, w := range s.Workers {
		list.Workers = append(list.Workers, wire.FleetWorker{ID: w.ID, Host: w.Host, PID: w.PID, Started: w.Started, Seen: w.Seen, Running: w.Running,
			Alive: w.Alive, Agents: append([]string{}, w.Agents...)})
	}
	return list, err
}
