package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/internal/schedule"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Prompt is a message to a thread. A thread is created by its first prompt.
type Prompt struct {
	Thread string `json:"thread"`
	Agent  string `json:"agent"` // the name of the agent, or runner, in the worker's maps
	Text   string `json:"text"`
	// Key identifies the prompt in its thread, permanently: the same prompt sent again is the same prompt, and another one
	// with its key is a [segno.KindConflict]. "" makes a new key.
	Key   string `json:"key"`
	Actor string `json:"actor,omitempty"` // the sender, as whom decisions in the turn are recorded
	// Priority is from 1, the first, to 4. 0 is 2. It orders the threads that wait for a worker, and not the prompts of a thread.
	Priority int `json:"priority,omitempty"`
	// At is the earliest time at which the turn begins; zero is now. Prompts that were sent later may run before.
	At time.Time `json:"at,omitzero"`
}

// State is the state of a prompt.
type State = schedule.State

// The states of a prompt. It is open until it is done or cancelled, and later prompts of its thread wait.
const (
	StateSent      = schedule.Sent      // it waits for a worker, or for its next attempt
	StateRunning   = schedule.Running   // a worker runs its turn
	StateWaiting   = schedule.Waiting   // its turn waits for a decision, a time, a signal or another thread
	StateDone      = schedule.Done      // its turn has ended
	StateParked    = schedule.Parked    // it failed too often; see [Fleet.Retry]
	StateCancelled = schedule.Cancelled // see [Fleet.Cancel]
)

// Sent is the result of [Fleet.Send].
type Sent struct {
	Thread string `json:"thread"`
	Key    string `json:"key"`
	N      int64  `json:"n"`     // the number of the prompt; the prompts of a thread run in this order
	IsNew  bool   `json:"new"`   // false if the prompt was sent before
	State  State  `json:"state"` // of a prompt that was sent before
}

// Send sends a prompt. It is durable on return. After an error the caller may send the prompt again under the same key.
func (f *Fleet) Send(ctx context.Context, p Prompt) (sent Sent, err error) {
	p.Key = cmp.Or(p.Key, segno.NewID()) // a transaction whose answer is lost runs again
	err = f.store.InTx(ctx, "send prompt", p.Thread, func(ctx context.Context, tx pgx.Tx) error {
		sent, err = f.send(ctx, tx, p, f.config.Tenant, origin{})
		return err
	})
	return sent, err
}

// SendTx is [Fleet.Send] in the caller's transaction, on any connection to the fleet's database. The prompt is sent if the transaction
// commits. If the store has tenants, the rest of the transaction acts for the fleet's tenant.
func (f *Fleet) SendTx(ctx context.Context, tx pgx.Tx, p Prompt) (Sent, error) {
	p.Key = cmp.Or(p.Key, segno.NewID())
	if err := f.store.UseTenant(ctx, tx); err != nil {
		return Sent{}, err
	}
	return f.send(ctx, tx, p, f.config.Tenant, origin{})
}

// origin is the interrupt of another thread that the answer to a prompt decides. The zero origin is none.
type origin struct {
	Thread   string `json:"thread"`
	Question string `json:"question"`
}

func (f *Fleet) send(ctx context.Context, tx pgx.Tx, p Prompt, tenant string, from origin) (_ Sent, err error) {
	if err := p.check(); err != nil {
		return Sent{}, err
	}
	ctx, span, link := f.telemetry.traceSend(ctx, &p)
	defer func() { endSpan(span, err) }()
	p.Priority = cmp.Or(p.Priority, 2)
	record, err := segno.Encode(promptRecord{Key: p.Key, Agent: p.Agent, Text: p.Text, Actor: p.Actor})
	if err != nil {
		return Sent{}, segno.NewError(segno.KindInvalid, "send prompt", p.Thread, err)
	}
	key := f.keyOf(p.Key)
	hash := segno.HashOf(record)
	digest := f.sealer.SealDigest(hash[:16])
	sent := Sent{Thread: p.Thread, Key: p.Key, IsNew: true, State: StateSent}
	err = tx.QueryRow(ctx, f.sql(`INSERT INTO {}fleet_prompts (thread, key, digest, tenant, priority, next, parent, question, trace, record)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (thread, key) DO NOTHING RETURNING n`),
		[]byte(p.Thread), key, digest, tenant, p.Priority, orNull(p.At), bytesOrNull(from.Thread), textOrNull(from.Question), textOrNull(link),
		f.sealer.Seal(record, "prompt", p.Thread, string(key))).Scan(&sent.N)
	if errors.Is(err, pgx.ErrNoRows) {
		return f.sentBefore(ctx, tx, sent, digest)
	}
	if err != nil {
		return Sent{}, err
	}
	f.telemetry.sent.Add(ctx, 1, metric.WithAttributes(attribute.String("gen_ai.agent.name", p.Agent), attribute.String("segno.tenant", tenant)))
	return sent, f.wake(ctx, tx, threadJob{Thread: p.Thread}, tenant, p.Priority, p.At)
}

// sentBefore returns the prompt with the key of a new one.
func (f *Fleet) sentBefore(ctx context.Context, tx pgx.Tx, sent Sent, digest []byte) (Sent, error) {
	var before []byte
	sent.IsNew = false
	err := tx.QueryRow(ctx, f.sql(`SELECT n, state, digest FROM {}fleet_prompts WHERE thread = $1 AND key = $2`), []byte(sent.Thread),
		f.keyOf(sent.Key)).Scan(&sent.N, &sent.State, &before)
	if err == nil && !bytes.Equal(before, digest) {
		err = segno.Errorf(segno.KindConflict, "send prompt", sent.Thread, "the key %q was used for another prompt", sent.Key).
			WithHint("give each prompt a different key")
	}
	return sent, err
}

func (p *Prompt) check() error {
	why := ""
	switch {
	case p.Text == "":
		why = "it has no text"
	case p.Agent == "":
		why = "it names no agent"
	case strings.Contains(p.Thread, "\x00"):
		why = "the id of its thread contains a zero byte, which the queue cannot store"
	case p.Priority < 0 || p.Priority > 4:
		why = fmt.Sprintf("its priority %d is not between 1 and 4", p.Priority)
	case p.Key != "":
		// A key that is not text would run under another key than it is stored under.
		return cmp.Or(segno.CheckID("send prompt", p.Thread), segno.CheckID("send prompt", p.Key))
	default:
		return segno.CheckID("send prompt", p.Thread)
	}
	return segno.Errorf(segno.KindInvalid, "send prompt", p.Thread, "%s", why)
}

// promptRecord is the part of a prompt that is sealed.
type promptRecord struct {
	Key   string `json:"key"`
	Agent string `json:"agent"`
	Text  string `json:"text"`
	Actor string `json:"actor,omitempty"`
}

// outcomeRecord is the outcome of a prompt, or the error of its last attempt.
type outcomeRecord struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// keyOf returns the bytes by which the table finds a key.
func (f *Fleet) keyOf(key string) []byte { return []byte(f.sealer.Name("prompt", key)) }

func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func bytesOrNull(s string) any {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// PromptQuery selects prompts. A zero field excludes none.
type PromptQuery struct {
	Thread string
	Key    string  // with Thread
	States []State // in one of these states
	Before int64   // with a lower N
	Limit  int
}

// PromptState is a prompt and its progress.
type PromptState struct {
	Prompt
	N        int64     `json:"n"`
	Tenant   string    `json:"tenant,omitempty"`
	State    State     `json:"state"`
	Attempts int       `json:"attempts,omitempty"` // that failed since the last progress, and the present one
	Error    string    `json:"error,omitempty"`    // of the last attempt, if it failed
	Outcome  string    `json:"outcome,omitempty"`  // the answer, or why the turn waits
	Worker   string    `json:"worker,omitempty"`   // of the last attempt
	Next     time.Time `json:"next,omitzero"`      // sent: the next attempt begins no earlier
	Wake     time.Time `json:"wake,omitzero"`      // waiting: when the turn continues, if nothing else wakes it
	Sent     time.Time `json:"sent"`
	Started  time.Time `json:"started,omitzero"` // the last attempt
	Ended    time.Time `json:"ended,omitzero"`

	trace string // the context of the span of its sender, or ""
}

// Prompts yields prompts, the newest first.
func (f *Fleet) Prompts(ctx context.Context, q PromptQuery) iter.Seq2[PromptState, error] {
	return func(yield func(PromptState, error) bool) {
		const page = 500
		for left := q.Limit; ; {
			q.Limit = page
			if left > 0 {
				q.Limit = min(left, page)
			}
			prompts, err := f.prompts(ctx, q)
			if err != nil {
				yield(PromptState{}, err)
				return
			}
			for _, p := range prompts {
				if !yield(p, nil) {
					return
				}
				q.Before = p.N
			}
			if left -= len(prompts); len(prompts) < q.Limit || left == 0 {
				return
			}
		}
	}
}

// prompts returns one page of prompts.
func (f *Fleet) prompts(ctx context.Context, q PromptQuery) (page []PromptState, err error) {
	query := `SELECT n, thread, key, tenant, priority, state, attempts, worker, next, wake, sent, started, ended, trace, record, outcome
		FROM {}fleet_prompts WHERE true`
	var args []any
	where := func(condition string, value any) {
		args = append(args, value)
		query += fmt.Sprintf(" AND "+condition, len(args))
	}
	if q.Thread != "" {
		where("thread = $%d", []byte(q.Thread))
	}
	if q.Key != "" {
		where("key = $%d", f.keyOf(q.Key))
	}
	if len(q.States) > 0 {
		where("state = ANY($%d::text[])", q.States)
		if !slices.ContainsFunc(q.States, func(s State) bool { return !s.IsOpen() }) {
			query += " AND " + isOpen // the condition of an index, which the server does not derive from an argument
		}
	}
	if q.Before > 0 {
		where("n < $%d", q.Before)
	}
	query += fmt.Sprintf(" ORDER BY n DESC LIMIT %d", q.Limit)
	err = f.store.OnConn(ctx, "list prompts", q.Thread, func(ctx context.Context, conn postgres.Conn) error {
		rows, err := conn.Query(ctx, f.sql(query), args...)
		if err == nil {
			page, err = pgx.CollectRows(rows, f.scanPrompt)
		}
		return err
	})
	return page, err
}

func (f *Fleet) scanPrompt(row pgx.CollectableRow) (p PromptState, err error) {
	var thread, key, record, outcome []byte
	var worker, trace pgtype.Text
	var next, wake, started, ended pgtype.Timestamptz
	if err := row.Scan(&p.N, &thread, &key, &p.Tenant, &p.Priority, &p.State, &p.Attempts, &worker, &next, &wake, &p.Sent, &started, &ended,
		&trace, &record, &outcome); err != nil {
		return p, err
	}
	p.Thread, p.Worker, p.trace = string(thread), worker.String, trace.String
	p.Next, p.Wake, p.Started, p.Ended = next.Time, wake.Time, started.Time, ended.Time
	var r promptRecord
	var o outcomeRecord
	if err := f.open(record, &r, "prompt", p.Thread, string(key)); err != nil {
		return p, err
	}
	if outcome != nil {
		if err := f.open(outcome, &o, "outcome", p.Thread, fmt.Sprint(p.N)); err != nil {
			return p, err
		}
	}
	p.Key, p.Agent, p.Text, p.Actor = r.Key, r.Agent, r.Text, r.Actor
	p.Outcome, p.Error = o.Text, o.Error
	return p, nil
}

// open decrypts and decodes a record of a prompt.
func (f *Fleet) open(sealed []byte, v any, place ...string) error {
	plain, err := f.sealer.Open(sealed, place...)
	if err == nil {
		err = json.Unmarshal(plain, v)
	}
	if err != nil {
		return segno.NewError(segno.KindCorrupt, "read prompt", place[1], err)
	}
	return nil
}
