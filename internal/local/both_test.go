package local_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestAPathThatTwoTurnsChanged checks that the path is a conflict for the undo of either turn: both
// tools named it, and the snapshots do not show which turn wrote the present bytes. A path that the
// other turn only read is not a conflict.
func TestAPathThatTwoTurnsChanged(t *testing.T) {
	g := newFixture(t)
	g.write("both", "0")
	g.write("mine", "0")
	g.write("read", "0")
	g.beginAs("s1", "k1", 0, nil)
	g.beginAs("s2", "k2", 0, nil)
	tool := func(key, tool, name string) {
		t.Helper()
		err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error {
			body, err := json.Marshal(map[string]string{"file_path": g.project + "/" + name})
			if err != nil {
				return err
			}
			return r.AppendEntry(ctx, segno.TurnKey(key), segno.Entry{Kind: segno.EntryIntent, Name: tool, ID: tool + name, Body: body})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"k1", "k2"} {
		tool(key, "Edit", "both")
	}
	tool("k1", "Read", "read")
	tool("k2", "Edit", "read")
	tool("k2", "Edit", "mine")
	g.write("both", "by one and two")
	g.write("read", "by two")
	g.write("mine", "by two")
	g.endAs("s1", "k1", nil)
	g.endAs("s2", "k2", nil)
	moved := g.undo(timeline.MoveRequest{})
	if c := moved.Plan.Conflicts; len(c) != 1 || c[0].Path != "both" {
		t.Errorf("the conflicts are %v", c)
	}
	if got := g.files(); got != "both \"by one and two\"\nmine \"0\"\nread \"0\"\n" {
		t.Errorf("the files are\n%s", got)
	}
	g.checkStore()
}
