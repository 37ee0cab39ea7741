package timeline_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestAnAgentThatWentOnAfterItsTurnIsAtWork kills the process that ended a turn before it removed the turn from the spool. An undo goes on,
// because the turn has ended. If the agent then makes another call, also after the clock stepped back, an undo is refused.
func TestAnAgentThatWentOnAfterItsTurnIsAtWork(t *testing.T) {
	for name, step := range map[string]time.Duration{"the clock runs": time.Hour, "the clock stepped back": -time.Hour} {
		for _, goesOn := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				e := newEdited(t, nil, t.TempDir())
				e.put(map[string]int{"a": 1})
				now := time.Now()
				c := e.site.Config
				c.Now = func() time.Time { return now }
				site := timeline.Open(c)
				src := segno.Source{Session: "session"}
				begun, err := site.BeginTurn(t.Context(), timeline.Prompt{Agent: "claude", Source: src, Text: "second"})
				e.must(err)
				call := func(id string) {
					now = now.Add(time.Minute)
					for _, kind := range []segno.EntryKind{segno.EntryIntent, segno.EntryResult} {
						e.must(site.AppendEntry(t.Context(), begun.Key, segno.Entry{Kind: kind, Session: src.Session, Time: now, ID: id, Name: "Bash"}))
					}
				}
				call("first")
				e.change(map[string]int{"a": 2})
				now = now.Add(time.Minute)
				open, err := c.Spool.Turns(t.Context())
				e.must(err)
				entries, _, err := c.Spool.Entries(t.Context(), begun.Key)
				e.must(err)
				_, err = site.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "claude"})
				e.must(err)
				e.must(c.Spool.SaveTurn(t.Context(), open[0])) // as if the process had been killed
				for _, x := range entries {
					e.must(c.Spool.AppendEntry(t.Context(), begun.Key, x))
				}
				now = now.Add(step)
				if goesOn {
					call("second")
				}
				_, err = site.Preview(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
				if isRefused := segno.KindOf(err) == segno.KindRefused; isRefused != goesOn || err != nil && !isRefused {
					t.Errorf("the agent goes on: %v, and the undo ends with %v", goesOn, err)
				}
			})
		}
	}
}
