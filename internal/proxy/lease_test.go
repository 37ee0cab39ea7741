package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// second starts another client, with another segno, on the same thread.
func (r *rig) second(session string) *acptest.Client {
	r.Helper()
	c := r.client()
	if got := r.open(c, "load", session); got != session {
		r.Fatalf("the second client got %s", got)
	}
	return c
}

// TestTwoClientsOnOneThread checks that segno refuses the second client's prompt during the
// first client's turn, and that each client continues where the other ended.
func TestTwoClientsOnOneThread(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		one := r.client()
		s := r.open(one, "new", "")
		r.say(one, s, "alpha")
		two := r.second(s)
		turn := r.prompt(one, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Do("beta-line"), acptest.Say("said-beta")))
		r.says(turn, "on it")
		_, err := r.prompt(two, s, "intruder "+acptest.Directive(acptest.Do("intruder-line"))).Stop(r.ctx)
		if e := r.refused(err); !strings.Contains(e.Message, "another client") || !strings.Contains(string(e.Data), `"hint"`) {
			t.Errorf("refused with %v %s", e, e.Data)
		}
		r.touch(r.home + "/go")
		r.ends(turn, "end_turn")
		st, thread := r.store(), segno.ThreadID(r.thread())
		isFree := func() bool { // the answer to a client does not wait long for the release of a lease
			held, err := st.LeaseOf(r.ctx, thread)
			return err == nil && held.Owner == ""
		}
		r.until("the lease to be released", isFree)
		r.write(two, s, "gamma")
		r.wantSeen([]string{"alpha", "beta-line", "gamma"}, "intruder")
		r.until("the lease to be released", isFree)
		r.write(one, s, "delta")
		r.wantSeen([]string{"alpha", "beta-line", "gamma-line", "delta"}, "intruder")
		r.until("the lease to be released", isFree)
		r.write(two, s, "epsilon")
		r.wantSeen([]string{"alpha", "beta-line", "gamma-line", "delta-line", "epsilon"}, "intruder")
		if got := r.logged(); got != "epsilon delta gamma beta alpha" {
			t.Errorf("the log has %q", got)
		}
		if got := r.ledger(); got != "beta-line gamma-line delta-line epsilon-line" {
			t.Errorf("the ledger has %q", got)
		}
		r.segno("check")
	})
}

// TestLeaseOwnerIsKilled checks that another client can continue at once, from an
// interrupted turn.
func TestLeaseOwnerIsKilled(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		one := r.client()
		s := r.open(one, "new", "")
		r.say(one, s, "alpha")
		turn := r.prompt(one, s, "beta "+acptest.Directive(acptest.Do("beta-line"), acptest.Say("on it"), acptest.Step{Hang: true}))
		r.says(turn, "on it")
		one.KillOne()
		<-one.Exited()
		two := r.second(s)
		began := time.Now()
		r.write(two, s, "gamma")
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("it took %v", took)
		}
		r.wantSeen([]string{"alpha", "beta-line", "gamma"})
		if got := r.log(); len(got) != 3 || !got[1].Interrupted || got[0].Interrupted {
			t.Errorf("the log has %+v", got)
		}
		if got := r.ledger(); got != "beta-line gamma-line" {
			t.Errorf("the ledger has %q", got)
		}
	})
}

// TestTurnWithLostLease checks that segno does not record a turn over another owner's, but
// reports it and does not lose it.
func TestTurnWithLostLease(t *testing.T) {
	r, c, s := startSession(t, acptest.Full)
	r.say(c, s, "alpha")
	turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Say("said-beta")))
	r.says(turn, "on it")
	st := r.store()
	var thread segno.ThreadID
	for th, err := range st.Threads(r.ctx, segno.ThreadQuery{Session: segno.SessionID(s)}) {
		if err != nil {
			t.Fatal(err)
		}
		thread = th.ID
	}
	held, err := st.Store.LeaseOf(r.ctx, thread)
	if err != nil || held.Owner == "" {
		t.Fatalf("the thread has no lease: %+v, %v", held, err)
	}
	if err := st.Release(r.ctx, held); err != nil {
		t.Fatal(err)
	}
	mine, err := st.Acquire(r.ctx, segno.Lease{Thread: thread, Owner: "another process", Expires: time.Now().Add(time.Minute)})
	if err != nil || mine.Epoch <= held.Epoch {
		t.Fatalf("the epoch is %d behind %d, %v", mine.Epoch, held.Epoch, err)
	}
	head, err := st.Head(r.ctx, thread)
	if err != nil {
		t.Fatal(err)
	}
	r.touch(r.home + "/go")
	if _, err := turn.Stop(r.ctx); err != nil {
		r.refused(err)
	}
	if now, err := st.Head(r.ctx, thread); err != nil || now.Head != head.Head {
		t.Errorf("a turn of a stale epoch moved the head from %s to %s, %v", head.Head, now.Head, err)
	}
	if got := strings.Join(shownOurs(c, turn.From), "\n"); got == "" {
		t.Error("the client received no report that the turn is not recorded")
	}
	_, err = r.prompt(c, s, "gamma").Stop(r.ctx)
	if e := r.refused(err); !strings.Contains(e.Message, "another client") {
		t.Errorf("refused with %v", e)
	}
	if err := st.Release(r.ctx, mine); err != nil {
		t.Fatal(err)
	}
	r.say(c, s, "delta")
	r.wantSeen([]string{"alpha", "beta", "delta"})
	if got := r.logged(); got != "delta beta alpha" {
		t.Errorf("the log has %q", got)
	}
}
