package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Decide records decisions of a thread's questions, and wakes it; see [agent.Agent.Decide].
func (f *Fleet) Decide(ctx context.Context, thread string, d ...segno.Decision) error {
	a := f.agentFor()
	if slices.ContainsFunc(d, func(d segno.Decision) bool { return d.Kind == segno.Edit }) {
		s, err := a.Status(ctx, thread)
		if err != nil {
			return err
		}
		// The tools are known where the turn runs, which checks the new arguments.
		var tools []agent.Tool
		for _, i := range s.Interrupts {
			if !slices.ContainsFunc(tools, func(t agent.Tool) bool { return t.Name == i.Tool }) {
				tools = append(tools, agent.Tool{ToolSpec: agent.ToolSpec{Name: i.Tool}})
			}
		}
		a = agent.New(agent.Config{Store: f.store, Tools: tools})
	}
	return a.Decide(ctx, thread, d...)
}

// Signal sends a signal to a thread, and wakes it if it waits for the signal; see [agent.Agent.Signal].
func (f *Fleet) Signal(ctx context.Context, thread, name, key string, value any) error {
	return f.agentFor().Signal(ctx, thread, name, key, value)
}

// Retry makes a parked prompt run again at once. For a prompt that waits for its next attempt, it ends the pause. The error has
// [segno.KindRefused] for a prompt in another state.
func (f *Fleet) Retry(ctx context.Context, thread, key string) error {
	return f.change(ctx, "retry prompt", thread, key, func(ctx context.Context, tx pgx.Tx, p *promptRow) error {
		if p.state != StateParked && p.state != StateSent {
			return segno.Errorf(segno.KindRefused, "retry prompt", thread, "prompt %q is %s", key, p.state)
		}
		_, err := tx.Exec(ctx, f.sql(`UPDATE {}fleet_prompts SET state = 'sent', attempts = 0, next = NULL, claim = 0, ended = NULL WHERE n = $1`), p.n)
		if err != nil {
			return err
		}
		return f.wakeFront(ctx, tx, thread)
	})
}

// Cancel cancels an open prompt. A turn that runs is cut after its last step. A turn of a Go agent that waits is undone, and the
// question of another agent is rejected. The error has [segno.KindRefused] for a prompt that is done; its turn stays. Cancelling a
// prompt again is not an error. The threads that wait for the prompt's answer receive a rejection.
func (f *Fleet) Cancel(ctx context.Context, thread, key string) error {
	questions, err := f.undoWaiting(ctx, thread, key)
	if err != nil {
		return err
	}
	var running int64
	err = f.change(ctx, "cancel prompt", thread, key, func(ctx context.Context, tx pgx.Tx, p *promptRow) error {
		running = 0
		switch p.state {
		case StateCancelled:
			return nil
		case StateDone:
			return segno.Errorf(segno.KindRefused, "cancel prompt", thread, "prompt %q is done", key)
		case StateRunning:
			running = p.claim
		}
		row := finished{n: p.n, thread: thread}
		err := row.scan(tx.QueryRow(ctx, f.sql(`UPDATE {}fleet_prompts SET state = 'cancelled', next = NULL, wake = NULL, ended = clock_timestamp()
			WHERE n = $1`+returningFinished), p.n))
		if err == nil {
			err = f.answerParents(ctx, tx, &row)
		}
		if err != nil {
			return err
		}
		return f.wakeFront(ctx, tx, thread)
	})
	if err != nil {
		return err
	}
	if running == 0 {
		return f.rejectAll(ctx, thread, questions)
	}
	if _, err = f.queue.JobCancel(ctx, running); err == nil || errors.Is(err, river.ErrNotFound) {
		return nil // without the job, its worker is dead, and nothing is to be cut
	}
	return segno.NewError(segno.KindIO, "cancel prompt", thread, fmt.Errorf("the prompt is cancelled, but its turn was not cut: %w", err))
}

// undoWaiting undoes the turn of a prompt if the turn waits: the next prompt could not begin before the wait ends. It undoes no turn
// that has ended meanwhile, because a user answered. The turns of an agent with its own sessions are not undone, because its next turn
// can begin; undoWaiting returns the questions of such a turn.
func (f *Fleet) undoWaiting(ctx context.Context, thread, key string) (questions []segno.Interrupt, err error) {
	for p, err := range f.Prompts(ctx, PromptQuery{Thread: thread, Key: key, States: []State{StateWaiting}}) {
		if err != nil {
			return nil, err
		}
		newest, err := f.hasTurn(ctx, p.Thread, p.Key)
		if err != nil {
			return nil, err
		}
		if !newest {
			return f.questionsOfSession(ctx, thread)
		}
		_, err = f.agentFor().UndoTurn(ctx, thread, key)
		if errors.Is(err, agent.ErrTurnOver) {
			err = nil
		}
		return nil, err
	}
	return nil, nil
}

// questionsOfSession returns the open questions of a thread if its newest turn is one of an agent with its own sessions.
func (f *Fleet) questionsOfSession(ctx context.Context, thread string) ([]segno.Interrupt, error) {
	s, err := f.agentFor().Status(ctx, thread)
	if err != nil || len(s.Interrupts) == 0 || s.Head == "" {
		return nil, err
	}
	line, err := f.store.Load(ctx, s.Head, segno.Window{Last: 1})
	if err != nil || line.Commits[len(line.Commits)-1].Checkpoint.Session == nil {
		return nil, err
	}
	return s.Interrupts, nil
}

// rejectAll answers the questions of a turn that was cancelled, so that no user is asked. Another answer may have been first.
func (f *Fleet) rejectAll(ctx context.Context, thread string, questions []segno.Interrupt) error {
	for _, q := range questions {
		err := f.Decide(ctx, thread, segno.Decision{Interrupt: q.ID, Kind: segno.Reject, Text: "the prompt was cancelled"})
		switch segno.KindOf(err) {
		case segno.KindNone, segno.KindConflict, segno.KindNotFound, segno.KindRefused, segno.KindInvalid:
			continue
		}
		return fmt.Errorf("the prompt is cancelled, but its question was not rejected: %w", err)
	}
	return nil
}

// promptRow is a prompt that an operator changes.
type promptRow struct {
	n     int64
	state State
	claim int64
}

// change locks a prompt and calls f.
func (f *Fleet) change(ctx context.Context, op, thread, key string, do func(context.Context, pgx.Tx, *promptRow) error) error {
	return f.store.InTx(ctx, op, thread, func(ctx context.Context, tx pgx.Tx) error {
		var p promptRow
		err := tx.QueryRow(ctx, f.sql(`SELECT n, state, claim FROM {}fleet_prompts WHERE thread = $1 AND key = $2 FOR UPDATE`),
			[]byte(thread), f.keyOf(key)).Scan(&p.n, &p.state, &p.claim)
		if errors.Is(err, pgx.ErrNoRows) {
			return segno.Errorf(segno.KindNotFound, op, thread, "the thread has no prompt with the key %q", key)
		}
		if err != nil {
			return err
		}
		return do(ctx, tx, &p)
	})
}

// Status is the state of a fleet.
type Status struct {
	Open    []Count        `json:"open"` // open prompts by tenant and state
	Workers []WorkerStatus `json:"workers"`
}

// Count is the number of prompts of a tenant in a state.
type Count struct {
	Tenant string    `json:"tenant"`
	State  State     `json:"state"`
	Count  int64     `json:"count"`
	Oldest time.Time `json:"oldest"` // when the oldest of them was sent
}

// WorkerStatus is a worker that runs, or was killed.
type WorkerStatus struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`
	Running int       `json:"running"` // turns
	Alive   bool      `json:"alive"`   // it was seen within its lease
	Agents  []string  `json:"agents"`  // the names of those that it runs
}

// Status returns the counts of open prompts, and the workers.
func (f *Fleet) Status(ctx context.Context) (s Status, err error) {
	err = f.store.InTx(ctx, "read fleet", f.schema, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, f.sql(`SELECT tenant, state, count(*), min(sent) FROM {}fleet_prompts WHERE `+isOpen+` GROUP BY tenant, state ORDER BY tenant, state`))
		if err != nil {
			return err
		}
		if s.Open, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Count]); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, f.sql(`SELECT id, host, pid, started, seen,
			(SELECT count(*) FROM {}fleet_prompts p WHERE p.state = 'running' AND p.worker = w.id), seen BETWEEN now() - lease AND now() + lease, agents FROM {}fleet_workers w ORDER BY started, id`))
		if err != nil {
			return err
		}
		s.Workers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[WorkerStatus])
		return err
	})
	return s, err
}
