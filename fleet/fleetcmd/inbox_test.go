package fleetcmd

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/memory"
)

// TestAWindowOfTheInboxIsBounded reads the inbox in windows of two threads. Threads that sleep count, although they have no
// questions.
func TestAWindowOfTheInboxIsBounded(t *testing.T) {
	store := memory.New(nil)
	for i, reason := range []segno.Reason{segno.ReasonSleep, segno.ReasonSleep, segno.ReasonQuestion, segno.ReasonSleep, segno.ReasonApproval} {
		id := segno.ThreadID(fmt.Sprint("t", i))
		e, err := segno.Interrupt{ID: fmt.Sprint("q", i), Thread: id, Reason: reason}.Entry()
		if err != nil {
			t.Fatal(err)
		}
		for n, c := range []segno.Commit{{Create: &segno.Thread{ID: id}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: time.Now()}},
			{Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Agent: "a"}, Entries: []segno.Entry{e}}} {
			c.ID, c.Thread = segno.CommitID(fmt.Sprint(id, n)), id
			if n > 0 {
				c.Parent = segno.CommitID(fmt.Sprint(id, n-1))
				c.Expect = c.Parent
			}
			if _, err := store.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := &mailboxes{reader: agent.New(agent.Config{Store: store})}
	var windows [][]string
	for after := ""; ; {
		list, err := m.Inbox(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		window := []string{}
		for _, q := range list.Questions {
			window = append(window, q.Interrupt.ID)
		}
		if windows = append(windows, window); list.Next == "" {
			break
		}
		after = list.Next
	}
	if want := [][]string{{}, {"q2"}, {"q4"}}; !slices.EqualFunc(windows, want, slices.Equal) {
		t.Errorf("the windows are %q, want %q", windows, want)
	}
}
