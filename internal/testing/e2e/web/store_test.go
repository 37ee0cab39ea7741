package web_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// turn is one turn of a thread that a test writes.
type turn struct {
	prompt, answer string
	calls          []call
}

type call struct{ tool, input, result string }

// writeThread adds a thread with turns to the demo's store, in the workspace of its project.
func (d *demo) writeThread(id segno.ThreadID, title string, n int, make func(i int) turn) {
	d.Helper()
	store := d.openStore()
	defer store.Close()
	rec, err := store.Find(d.Context(), filepath.Join(d.dir, "project"))
	if err != nil {
		d.Fatal(err)
	}
	start := time.Now().Add(-time.Duration(n) * time.Minute)
	var parent segno.CommitID
	for i := 0; i <= n; i++ {
		c := commitOf(id, i, parent, start.Add(time.Duration(i)*time.Minute), make)
		if i == 0 {
			c.Create = &segno.Thread{ID: id, Title: title, Agent: "claude", Workspace: rec.ID, Created: start}
		}
		if _, err := store.Commit(d.Context(), *c); err != nil {
			d.Fatal(err)
		}
		parent = c.ID
	}
}

func (d *demo) openStore() *local.Store {
	d.Helper()
	store, err := local.Place{Store: filepath.Join(d.dir, "store"), UserHome: d.dir, Now: time.Now}.Open(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	return store
}

// commitFor commits turns to a thread at the rate of the benchmark.
func (d *demo) commitFor(id segno.ThreadID, last time.Duration) {
	d.Helper()
	store := d.openStore()
	defer store.Close()
	head, err := store.Head(d.Context(), id)
	if err != nil {
		d.Fatal(err)
	}
	parent := head.Head
	ticker := time.NewTicker(time.Second / eventsPerSec)
	defer ticker.Stop()
	n := int(last / (time.Second / eventsPerSec))
	for i := 2; i < 2+n; i++ {
		<-ticker.C
		c := commitOf(id, i, parent, time.Now(), func(i int) turn { return turn{prompt: fmt.Sprintf("live %d", i), answer: "done"} })
		if _, err := store.Commit(d.Context(), *c); err != nil {
			d.Fatal(err)
		}
		parent = c.ID
	}
}

// commitOf returns the commit of a thread's turn. Turn 0 is the thread's beginning.
func commitOf(thread segno.ThreadID, i int, parent segno.CommitID, at time.Time, make func(i int) turn) *segno.Commit {
	c := &segno.Commit{ID: segno.CommitID(fmt.Sprintf("%s-%05d", thread, i)), Thread: thread, Parent: parent, Expect: parent}
	c.Checkpoint = &segno.Checkpoint{Kind: segno.CheckpointBase, Time: at, Agent: "claude", Turn: i}
	if i == 0 {
		return c
	}
	t := make(i)
	c.Checkpoint.Kind, c.Checkpoint.Prompt, c.Checkpoint.Files = segno.CheckpointTurn, t.prompt, segno.Counts{Modified: i % 5, Added: i % 3}
	add := func(kind segno.EntryKind, id, name, body string) {
		data, err := json.Marshal(body)
		if err != nil {
			panic(err) // a string
		}
		c.Entries = append(c.Entries, segno.Entry{Kind: kind, Turn: i, Time: at, ID: id, Name: name, Body: data})
	}
	add(segno.EntryMessage, "", "user", t.prompt)
	for n, k := range t.calls {
		id := fmt.Sprintf("call-%d-%d", i, n)
		add(segno.EntryIntent, id, k.tool, k.input)
		add(segno.EntryResult, id, k.tool, k.result)
	}
	add(segno.EntryMessage, "", "agent", t.answer)
	return c
}
