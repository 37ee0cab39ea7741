package proxy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// endCallOnFullDisk runs a turn with a call that changes a file. The disk fills before the call, and is full when the turn ends.
func (r *rig) endCallOnFullDisk(c *acptest.Client, s string) {
	r.Helper()
	r.turn(c, s, "first "+acptest.Directive(acptest.Step{Tool: "ledger", Line: "one", File: "a.txt"}))
	held := filepath.Join(r.home, "held")
	turn := r.appending(c, s, "second", "two", held, acptest.Step{Tool: "ledger", Line: "three", File: "a.txt"})
	r.flag(held)
	if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" {
		r.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
}

// freeDisk gives the disk room again.
func (r *rig) freeDisk() {
	r.Helper()
	if err := os.Remove(r.full()); err != nil {
		r.Fatal(err)
	}
}

// TestARefusedPromptKeepsTheTurnBefore sends a prompt while the disk is still full. It is refused. When the disk has room again, the
// turn before it has its call, and its undo reverts the call.
func TestARefusedPromptKeepsTheTurnBefore(t *testing.T) {
	r, c, s := startSession(t, none)
	r.endCallOnFullDisk(c, s)
	refused, err := c.Prompt(s, "third")
	if err != nil {
		t.Fatal(err)
	}
	if stop, err := refused.Stop(r.ctx); err == nil {
		t.Fatalf("a prompt on a full disk ended with %q", stop.Reason)
	}
	r.freeDisk()
	r.turn(c, s, "fourth")
	r.segno("undo", "-y", "2")
	r.files(map[string]string{"a.txt": "one\n"})
}

// TestATurnIsCompletedWithoutAPrompt frees the disk after the end of a turn. Without another prompt, segno records the call of that
// turn: soon, or at the latest when the client leaves. The undo by another process reverts the call.
func TestATurnIsCompletedWithoutAPrompt(t *testing.T) {
	for _, when := range []string{"soon", "when the client leaves"} {
		t.Run(when, func(t *testing.T) {
			r, c, s := startSession(t, none)
			r.endCallOnFullDisk(c, s)
			r.freeDisk()
			if when == "soon" {
				r.until("the record of the call", func() bool { return r.isNoted("appended three") })
			} else {
				r.leave(c)
			}
			r.segno("undo", "-y")
			r.files(map[string]string{"a.txt": "one\n"})
		})
	}
}

// TestMoreIsLostThanWaits loses the record of a call, because the disk is full and more happens than fits in memory. The disk has
// room again before the turn ends. The turn reports the loss, and its undo reverts the call.
func TestMoreIsLostThanWaits(t *testing.T) {
	r, c, s := startSession(t, none)
	r.turn(c, s, "first "+acptest.Directive(acptest.Step{Tool: "ledger", Line: "one", File: "a.txt"}))
	held, freed := filepath.Join(r.home, "held"), filepath.Join(r.home, "freed")
	steps := []acptest.Step{{Tool: "ledger", Line: "three", File: "a.txt"}}
	for i := range 1100 {
		steps = append(steps, acptest.Step{Raw: json.RawMessage(fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","messageId":"m%d","content":{"type":"text","text":"line %d."}}`, i, i))})
	}
	turn := r.appending(c, s, "second", "two", held, append(steps, acptest.Step{Wait: freed})...)
	r.flag(held)
	r.says(turn, "line 1099.")
	r.freeDisk()
	r.flag(freed)
	if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" {
		t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
	if shown := r.segno("show", "t2"); !strings.Contains(shown, "records of some tool calls of this turn were lost") {
		t.Errorf("the turn does not report its loss:\n…%s", shown[max(0, len(shown)-200):])
	}
	r.segno("undo", "-y")
	r.files(map[string]string{"a.txt": "one\n"})
}

// TestADeletionOnAFullDiskIsRefused deletes a session while the disk is full. A session that the client was told is deleted is not in the
// list of the next run.
func TestADeletionOnAFullDiskIsRefused(t *testing.T) {
	r, c, s := startSession(t, none)
	r.say(c, s, "alpha")
	isListed := func() bool {
		list, err := c.List(r.ctx, r.project)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			if l.SessionID == s {
				return true
			}
		}
		return false
	}
	remove := func() bool {
		_, err := c.Call(r.ctx, "session/delete", map[string]string{"sessionId": s})
		return err == nil
	}
	r.flag(r.full())
	isDeleted := remove()
	r.freeDisk()
	r.leave(c)
	c = r.client()
	if isDeleted && isListed() {
		t.Error("the client was told that the session is deleted, and the next run lists it")
	}
	if !remove() || isListed() {
		t.Error("the session cannot be deleted when the disk has room again")
	}
}

// TestASwitchOnAFullDiskIsRefused switches to another thread while the disk is full. The command fails, and the next prompt goes to the
// thread before.
func TestASwitchOnAFullDiskIsRefused(t *testing.T) {
	r, c, s := startSession(t, none)
	r.say(c, s, "alpha")
	fork := r.order(c, s, "/fork other")
	_, source, ok := strings.Cut(fork, "/switch ")
	if !ok {
		t.Fatalf("/fork says %q", fork)
	}
	source, _, _ = strings.Cut(source, " ")
	r.say(c, s, "of-the-fork")
	r.order(c, s, "/switch "+source) // both threads have another client id now
	r.flag(r.full())
	said := r.order(c, s, "/switch other")
	r.freeDisk()
	if !strings.HasPrefix(said, "segno: ") {
		t.Fatalf("/switch on a full disk says %q", said)
	}
	r.say(c, s, "beta")
	r.wantSeen([]string{"alpha", "beta"}, "of-the-fork")
}

// TestTheLastMessageOnAFullDiskIsKept ends a turn while the disk is full. The client has received the last message. The record has it,
// too, when the disk has room again.
func TestTheLastMessageOnAFullDiskIsKept(t *testing.T) {
	r, c, s := startSession(t, none)
	held := filepath.Join(r.home, "held")
	var steps []acptest.Step
	for n := range 8 { // so close together that most of them are not recorded in parts
		steps = append(steps, acptest.Step{Raw: json.RawMessage(fmt.Sprintf(
			`{"sessionUpdate":"agent_message_chunk","messageId":"m%d","content":{"type":"text","text":"message %d of the turn"}}`, n, n))})
	}
	turn := r.appending(c, s, "first", "one", held, steps...)
	r.flag(held)
	if stop, err := turn.Stop(r.ctx); err != nil || stop.Reason != "end_turn" {
		t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
	}
	r.freeDisk()
	r.say(c, s, "second")
	r.leave(c)
	c = r.client()
	from := c.Place()
	r.open(c, "load", s)
	got := shown(c, from)
	for n := range steps {
		if want := fmt.Sprintf("agent_message_chunk message %d of the turn", n); !slices.Contains(got, want) {
			t.Errorf("the conversation lacks %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
}
