package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
)

const thread = "session-123"

// rig is an agent with a store and a tool that must not be called twice, and records the tool's
// calls.
type rig struct {
	rapid.TB
	ctx    context.Context
	reopen func() segno.Store // the store as another process would open it
	store  segno.Store
	config agent.Config
	agent  *agent.Agent
	mails  *mailbox
}

// eachStore runs a test on a store in memory and on one on disk.
func eachStore(t *testing.T, test func(r *rig)) {
	t.Run("memory", func(t *testing.T) { test(newRig(t)) })
	t.Run("sqlite", func(t *testing.T) { test(onDisk(t, t.TempDir())) })
}

// newRig returns a rig with a store that is closed at the end of the test.
func newRig(t testing.TB) *rig {
	store := memory.New(nil)
	return rigOn(t, func() segno.Store { return store })
}

func onDisk(t testing.TB, dir string) *rig {
	var open *sqlite.Store
	t.Cleanup(func() { open.Close() })
	return rigOn(t, func() segno.Store {
		if open != nil {
			open.Close()
		}
		var err error
		if open, err = sqlite.Open(t.Context(), filepath.Join(dir, "agent.db"), sqlite.Options{}); err != nil {
			t.Fatal(err)
		}
		return open
	})
}

func rigOn(t testing.TB, reopen func() segno.Store) *rig {
	r := &rig{TB: t, ctx: t.Context(), reopen: reopen, mails: &mailbox{}}
	r.store = reopen()
	r.config = agent.Config{Model: offline.New(), Tools: append(tool.Standard(), r.mails.tool(agent.LostAsk)),
		Retry: agent.Retry{Wait: time.Millisecond}, StoreRetry: agent.Retry{Wait: time.Microsecond}}
	r.with(func(*agent.Config) {})
	return r
}

// with replaces the agent by another one on the same store.
func (r *rig) with(change func(*agent.Config)) *rig {
	r.config.Store = r.store
	change(&r.config)
	r.agent = agent.New(r.config)
	return r
}

// asking makes the agent ask before it sends mail.
func (r *rig) asking() *rig {
	return r.with(func(c *agent.Config) { c.Approve = agent.RequireApproval("send_email") })
}

// restart forgets everything but the store.
func (r *rig) restart() {
	r.store = r.reopen()
	r.with(func(*agent.Config) {})
}

// eventList are the events of a run.
type eventList []agent.Event

func (all eventList) of(kind agent.EventKind) (some eventList) {
	for _, e := range all {
		if e.Kind == kind {
			some = append(some, e)
		}
	}
	return some
}

// one returns the only event of a kind.
func (r *rig) one(all eventList, kind agent.EventKind) agent.Event {
	r.Helper()
	some := all.of(kind)
	if len(some) != 1 {
		r.Fatalf("%d events %s, want one, among %v", len(some), kind, all.kinds())
	}
	return some[0]
}

func (all eventList) kinds() (kinds []agent.EventKind) {
	for _, e := range all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (all eventList) numbered() (some eventList) {
	for _, e := range all {
		if e.Seq > 0 {
			some = append(some, e)
		}
	}
	return some
}

func (r *rig) try(in agent.Input) (all eventList, err error) {
	if in.Thread == "" {
		in.Thread = thread
	}
	for e, problem := range r.agent.Stream(r.ctx, in) {
		all = append(all, e)
		err = problem
	}
	return all, err
}

// run runs the thread and returns its events. Errors fail the test.
func (r *rig) run(in agent.Input) eventList {
	r.Helper()
	all, err := r.try(in)
	r.ok(err)
	return all
}

func (r *rig) prompt(text string) eventList {
	r.Helper()
	return r.run(agent.Input{Prompt: text})
}

// finish continues a turn and checks that it is done.
func (r *rig) finish(ds ...segno.Decision) eventList {
	r.Helper()
	all := r.run(agent.Input{Decide: ds})
	r.one(all, agent.EventDone)
	return all
}

// refused runs the thread and checks that it fails with an error of a kind that contains these words.
func (r *rig) refused(in agent.Input, kind segno.Kind, words ...string) error {
	r.Helper()
	_, err := r.try(in)
	r.wants(err, kind, words...)
	return err
}

// recorded checks that a decision is recorded: repeating it changes nothing, and
// another decision is too late.
func (r *rig) recorded(d segno.Decision) {
	r.Helper()
	_, err := r.try(decisions(d))
	r.ok(err)
	d.Actor = "another"
	if err := r.refused(decisions(d), segno.KindConflict, d.Interrupt, string(d.Kind)); !errors.Is(err, segno.ErrAnswered) {
		r.Errorf("%v is not ErrAnswered", err)
	}
}

func (r *rig) wants(err error, kind segno.Kind, words ...string) {
	r.Helper()
	if err == nil {
		r.Fatalf("it succeeds; want %s", kind)
	}
	if segno.KindOf(err) != kind {
		r.Errorf("%v: kind %q, want %q", err, segno.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			r.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		r.Errorf("%q is not one line", err)
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// open returns the questions that wait for a decision.
func (r *rig) open(id string) []segno.Interrupt {
	r.Helper()
	w, err := r.agent.Status(r.ctx, id)
	r.ok(err)
	return w.Interrupts
}

// question returns the only open question.
func (r *rig) question() segno.Interrupt {
	r.Helper()
	open := r.open(thread)
	if len(open) != 1 {
		r.Fatalf("%d questions wait, want one: %+v", len(open), open)
	}
	return open[0]
}

func (r *rig) messages(id string, at segno.CommitID) []agent.Message {
	r.Helper()
	messages, err := r.agent.Messages(r.ctx, id, at)
	r.ok(err)
	return messages
}

// results returns the results of the calls, in order.
func (r *rig) results(id string) (all []agent.Result) {
	r.Helper()
	for _, m := range r.messages(id, "") {
		for _, p := range m.Parts {
			if p.Result != nil {
				all = append(all, *p.Result)
			}
		}
	}
	return all
}

// answers checks the results of the calls by their first words.
func (r *rig) answers(want ...string) {
	r.Helper()
	var got []string
	for _, res := range r.results(thread) {
		got = append(got, res.Text)
	}
	same := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		same = same && strings.HasPrefix(got[i], want[i])
	}
	if !same {
		r.Errorf("the model was told %q, want %q", got, want)
	}
}

// sent checks which mails were sent.
func (r *rig) sent(want ...string) {
	r.Helper()
	if got := r.mails.all(); !slices.Equal(got, want) {
		r.Errorf("mail was sent to %q, want %q", got, want)
	}
}

// heads returns the checkpoints of a thread, newest first.
func (r *rig) heads(id string) (all []segno.Checkpoint) {
	r.Helper()
	for c, err := range r.store.Checkpoints(r.ctx, segno.CheckpointQuery{Thread: segno.ThreadID(id)}) {
		r.ok(err)
		all = append(all, c)
	}
	return all
}

// mailbox records the calls of a tool with consequences.
type mailbox struct {
	mu   sync.Mutex
	to   []string
	keys []string
}

type mail struct {
	To string `json:"to"`
}

func (b *mailbox) tool(e agent.OnLost) agent.Tool {
	return agent.NewTool("send_email", "sends an email", e, func(_ context.Context, inv *agent.Invocation, m mail) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.to, b.keys = append(b.to, m.To), append(b.keys, inv.Key)
		return "sent to " + m.To, nil
	})
}

func (b *mailbox) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.to))
}

func approve(i segno.Interrupt) segno.Decision {
	return segno.Decision{Interrupt: i.ID, Kind: segno.Approve}
}

func reject(i segno.Interrupt, why string) segno.Decision {
	return segno.Decision{Interrupt: i.ID, Kind: segno.Reject, Text: why}
}

func respond(i segno.Interrupt, text string) segno.Decision {
	return segno.Decision{Interrupt: i.ID, Kind: segno.Respond, Text: text}
}

func edit(i segno.Interrupt, args string) segno.Decision {
	return segno.Decision{Interrupt: i.ID, Kind: segno.Edit, Args: json.RawMessage(args)}
}

const askMail = `call send_email {"to":"bob"}`
