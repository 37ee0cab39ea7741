package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet/runner"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/store/file"
)

// dyingStore is the store of a worker that dies: from the commit on for which isLast returns true, it fails all commits.
type dyingStore struct {
	*file.Store
	isLast func(c segno.Commit) bool
	onDead func() // called at that commit; may be nil
	keeps  bool   // that commit is applied
	isDead atomic.Bool
}

func (s *dyingStore) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if s.isDead.Load() {
		return segno.Head{}, errUnmarked
	}
	if !s.isLast(c) {
		return s.Store.Commit(ctx, c)
	}
	s.isDead.Store(true)
	if s.onDead != nil {
		defer s.onDead()
	}
	if s.keeps {
		return s.Store.Commit(ctx, c)
	}
	return segno.Head{}, errUnmarked
}

// hasResult reports whether a commit records that a call ended.
func hasResult(c segno.Commit) bool {
	for _, e := range c.Entries {
		if e.Kind == segno.EntryResult {
			return true
		}
	}
	return false
}

// approved runs a prompt whose call a user approves, and whose worker dies as last describes after the agent made the call.
func (f *stage) approved(text string, last func(c segno.Commit) bool) {
	f.Helper()
	m := f.machine("a")
	m.Permissions = runner.Ask
	if r, err := m.run("one", text); err != nil || r.Phase != agent.PhaseWaiting {
		f.Fatalf("the result is %+v, %v", r, err)
	}
	f.decide(segno.Decision{Interrupt: f.question().ID, Kind: segno.Approve})
	m = f.machine("b")
	m.Permissions, m.Store = runner.Ask, &dyingStore{Store: f.store, isLast: last}
	if r, err := m.run("one", text); err == nil {
		f.Fatalf("the worker did not die: %+v", r)
	}
	m.lost()
	if got := f.ledger(); got != "one" {
		f.Fatalf("the calls were made: %q", got)
	}
}

// TestAnApprovedCallIsNotRepeated kills a worker after its agent made an approved call, and before the result was recorded.
// The approval is valid for one call, so the user is asked about the second one.
func TestAnApprovedCallIsNotRepeated(t *testing.T) {
	for kind, want := range map[segno.DecisionKind]string{segno.Approve: "one one", segno.Reject: "one", segno.Respond: "one"} {
		t.Run(string(kind), func(t *testing.T) {
			f := newStage(t)
			f.acp.Ask, f.acp.Careless = true, true
			text := "one " + acptest.Directive(acptest.Do("one"), acptest.Say("the end"))
			f.approved(text, hasResult)
			var asked segno.Interrupt
			for _, name := range []string{"c", "d"} { // the second machine must not ask again
				m := f.machine(name)
				m.Permissions = runner.Ask
				if r, err := m.run("one", text); err != nil || r.Phase != agent.PhaseWaiting {
					t.Fatalf("the result is %+v, %v; the calls were made: %q", r, err, f.ledger())
				}
				if asked = f.question(); asked.Reason != segno.ReasonUnknown || !strings.Contains(asked.Question, "append one") {
					t.Errorf("the question is %+v", asked)
				}
			}
			f.decide(segno.Decision{Interrupt: asked.ID, Kind: kind, Text: map[segno.DecisionKind]string{segno.Respond: "it was sent"}[kind]})
			m := f.machine("e")
			m.Permissions = runner.Ask
			m.done("one", text)
			if got := f.ledger(); got != want {
				t.Errorf("the calls were made: %q, want %q", got, want)
			}
			if kind == segno.Respond && !strings.Contains(f.heard(), "it was sent") {
				t.Errorf("the agent does not know the result: %s", f.heard())
			}
		})
	}
}

// atTurnAfterResult returns the last commit of a worker that dies when it records the turn. The runner records the result of the
// allowed call meanwhile, so the commit of the turn waits for that.
func atTurnAfterResult() func(c segno.Commit) bool {
	allowed, recorded := "", make(chan struct{})
	return func(c segno.Commit) bool {
		for _, e := range c.Entries {
			switch {
			case c.Thread == "t":
			case e.Kind == segno.EntryIntent && len(e.Body) > 0:
				allowed = e.ID
			case e.Kind == segno.EntryResult && e.ID == allowed:
				close(recorded)
			}
		}
		if c.Thread != "t" || c.Checkpoint == nil {
			return false
		}
		<-recorded
		return true
	}
}

// TestAnApprovedCallThatEnded kills a worker after the result of an approved call was recorded, and before the turn was. The
// approval is used, so a second call needs another one.
func TestAnApprovedCallThatEnded(t *testing.T) {
	f := newStage(t)
	f.acp.Ask = true
	text := "one " + acptest.Directive(acptest.Do("one"), acptest.Say("the end"))
	f.approved(text, atTurnAfterResult())
	m := f.machine("c")
	m.Permissions = runner.Ask
	if m.done("one", text); f.ledger() != "one" {
		t.Errorf("the calls were made: %q", f.ledger())
	}
	if !strings.Contains(f.heard(), "This call was made, and it ended") {
		t.Errorf("the agent does not know that the call ended: %s", f.heard())
	}
}

// TestAnApprovalIsUsedOnce is like TestAnApprovedCallThatEnded, with an agent that makes the call again although it received
// the note that the call ended.
func TestAnApprovalIsUsedOnce(t *testing.T) {
	f := newStage(t)
	f.acp.Ask, f.acp.Careless = true, true
	text := "one " + acptest.Directive(acptest.Do("one"), acptest.Say("the end"))
	f.approved(text, atTurnAfterResult())
	m := f.machine("c")
	m.Permissions = runner.Ask
	if r, err := m.run("one", text); err != nil || r.Phase != agent.PhaseWaiting || f.ledger() != "one" {
		t.Errorf("the result is %+v, %v; the calls were made: %q", r, err, f.ledger())
	}
}

// TestACallOfUnknownOutcomeIsAskedAbout kills a worker that allows all calls, after it allowed one. The agent asks for the same
// call again, and nothing shows that the first one did not run.
func TestACallOfUnknownOutcomeIsAskedAbout(t *testing.T) {
	f := newStage(t)
	f.acp.Ask = true
	held := acptest.Do("one")
	held.Hold = filepath.Join(f.base, "never")
	text := "one " + acptest.Directive(held, acptest.Say("the end"))
	ctx, cancel := context.WithCancel(t.Context())
	m := f.machine("a")
	m.Store = &dyingStore{Store: f.store, keeps: true, onDead: cancel, isLast: func(c segno.Commit) bool {
		return len(c.Entries) == 1 && c.Entries[0].Kind == segno.EntryIntent && len(c.Entries[0].Body) > 0
	}}
	if r, err := m.Run(ctx, work("t", "one", text)); err == nil {
		t.Fatalf("the worker did not die: %+v", r)
	}
	m.lost()
	if r, err := f.machine("b").run("one", text); err != nil || r.Phase != agent.PhaseWaiting {
		t.Fatalf("the result is %+v, %v; the calls were made: %q", r, err, f.ledger())
	}
	asked := f.question()
	if asked.Reason != segno.ReasonUnknown || f.ledger() != "" {
		t.Errorf("the question is %+v; the calls were made: %q", asked, f.ledger())
	}
	f.must(os.WriteFile(held.Hold, nil, 0o600))
	f.decide(segno.Decision{Interrupt: asked.ID, Kind: segno.Approve})
	if f.machine("c").done("one", text); f.ledger() != "one" {
		t.Errorf("the calls were made: %q", f.ledger())
	}
}
