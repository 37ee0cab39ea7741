package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
	"github.com/jackc/pgx/v5"
)

// waits are the parts of a commit that begin or end a wait of a turn.
type waits struct {
	isAnswered bool      // it has a decision that another program than the run made
	wake       time.Time // the earliest time at which a wait that it begins ends by itself
	children   []segno.Interrupt
}

// waitsIn finds the waits in a commit.
func waitsIn(c *segno.Commit) (w waits, err error) {
	hasSignal := false
	for i := range c.Entries {
		e := &c.Entries[i]
		if _, isRequest := timeline.PermissionCall(e.ID); isRequest {
			continue // an agent's request, with any content, and its answer are parts of the turn
		}
		switch e.Kind {
		case segno.EntrySignal:
			hasSignal = true
		case segno.EntryDecision:
			var d segno.Decision
			if err := json.Unmarshal(e.Body, &d); err != nil {
				return w, err
			}
			// The run itself records that a time has come, and which earlier signal ends a wait.
			w.isAnswered = w.isAnswered || d.Kind != segno.Wake && (d.Signal == "" || hasSignal)
		case segno.EntryInterrupt:
			var x segno.Interrupt
			if err := json.Unmarshal(e.Body, &x); err != nil {
				return w, err
			}
			if !x.Wake.IsZero() && (w.wake.IsZero() || x.Wake.Before(w.wake)) {
				w.wake = x.Wake
			}
			if x.Child != nil {
				w.children = append(w.children, x)
			}
		}
	}
	return w, nil
}

// inCommit is the store's [postgres.Options.InCommit]: it inserts the jobs that a commit causes. A thread whose mailbox has no prompt
// with an unfinished turn causes none.
func (f *Fleet) inCommit(c *segno.Commit) func(context.Context, pgx.Tx, segno.Head) error {
	w, err := waitsIn(c)
	if err == nil && !w.isAnswered && w.wake.IsZero() && len(w.children) == 0 {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx, head segno.Head) error {
		if err != nil {
			return segno.NewError(segno.KindInvalid, "commit", string(c.ID), err)
		}
		return f.wakeAfter(ctx, tx, head, &w)
	}
}

// turn is a prompt whose turn has begun and not ended.
type turn struct {
	n        int64
	state    State
	tenant   string
	priority int
	promptRecord
}

// openTurn locks and returns the unfinished turn of a thread, nil if there is none. The end of an attempt locks the same row, so it
// comes before or after the commit.
func (f *Fleet) openTurn(ctx context.Context, tx pgx.Tx, thread string) (*turn, error) {
	var t turn
	var key, record []byte
	err := tx.QueryRow(ctx, f.sql(`SELECT n, state, tenant, priority, key, record FROM {}fleet_prompts
		WHERE thread = $1 AND `+isOpen+` AND begun FOR UPDATE`), []byte(thread)).
		Scan(&t.n, &t.state, &t.tenant, &t.priority, &key, &record)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &t, f.open(record, &t.promptRecord, "prompt", thread, string(key))
}

func (f *Fleet) wakeAfter(ctx context.Context, tx pgx.Tx, head segno.Head, w *waits) error {
	thread := string(head.Thread)
	t, err := f.openTurn(ctx, tx, thread)
	if err != nil || t == nil {
		return err
	}
	for _, x := range w.children {
		if err := f.sendChild(ctx, tx, t, thread, &x); err != nil {
			return err
		}
	}
	switch {
	case t.state == StateRunning && w.isAnswered:
		// If the attempt has read the thread before this commit and ends waiting, its end inserts the job.
		_, err = tx.Exec(ctx, f.sql(`UPDATE {}fleet_prompts SET again = greatest(again, $2) WHERE n = $1`), t.n, head.Seq)
	case t.state == StateWaiting && w.isAnswered:
		err = f.wake(ctx, tx, threadJob{Thread: thread, Seq: head.Seq}, t.tenant, t.priority, time.Time{})
	case t.state == StateWaiting && !w.wake.IsZero():
		// The run is not a worker's. The end of a worker's attempt inserts this job.
		err = f.wake(ctx, tx, threadJob{Thread: thread, Seq: head.Seq, Wake: w.wake}, t.tenant, t.priority, w.wake)
	}
	return err
}

// sendChild sends the prompt whose answer the interrupt x of a thread waits for.
func (f *Fleet) sendChild(ctx context.Context, tx pgx.Tx, t *turn, thread string, x *segno.Interrupt) error {
	p := Prompt{Thread: string(x.Child.Thread), Agent: x.Child.Agent, Text: x.Child.Prompt, Key: x.Child.Key, Actor: t.Actor, Priority: t.priority}
	if p.Agent == "" {
		p.Agent = t.Agent
	}
	from := origin{Thread: thread, Question: x.ID}
	sent, err := f.send(ctx, tx, p, t.tenant, from)
	switch kind := segno.KindOf(err); {
	case err == nil && sent.IsNew:
		return nil
	case err == nil:
		// The question was asked again after a move, or another call sent the prompt, perhaps of another thread. A question
		// that is not asked any more may be answered, too. The prompt may end until the row is locked.
		err := tx.QueryRow(ctx, f.sql(`UPDATE {}fleet_prompts SET others = CASE WHEN question = $2 OR coalesce(others @> $3, false) THEN others
			ELSE coalesce(others, '[]') || $3 END WHERE n = $1 RETURNING state`), sent.N, x.ID, []origin{from}).Scan(&sent.State)
		if err != nil {
			return err
		}
		if sent.State.IsOpen() {
			return nil
		}
		return f.answer(ctx, tx, answerJob{Thread: thread, Question: x.ID, Prompt: sent.N}, t.tenant, t.priority)
	case kind == segno.KindConflict || kind == segno.KindInvalid:
		// The queue cannot store a zero byte, which the name of a thread may contain.
		text := strings.ReplaceAll(err.Error(), "\x00", "")
		return f.answer(ctx, tx, answerJob{Thread: thread, Question: x.ID, Error: text}, t.tenant, t.priority)
	}
	return err
}
