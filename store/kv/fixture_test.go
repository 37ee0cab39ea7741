package kv_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

var makeFixture = flag.Bool("fixture", false, "write testdata for the present version; one that was released is never written again")

const fixtureObject = "an object that was put when this version was new, long enough to be compressed, to be compressed, to be compressed"

// fixtureCheckpoint and fixtureEntries list all values, because a fixture must not change with
// the domain.
func fixtureCheckpoint() *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 7, Step: 9, Time: time.Unix(1767225600, 123456789).UTC(), Agent: "agent", Prompt: "fix\x00 it\xff",
		Meta: map[string]string{"k": "v"}, State: &segno.Document{Type: "todo/2", Data: segno.HashOf([]byte(fixtureObject))}}
}

func fixtureEntries() []segno.Entry {
	return []segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Time: time.Unix(1767225600, 5).UTC(), ID: "id", Name: "user", Body: []byte(`"what was said"`)},
		{Kind: segno.EntryState, Turn: 1, Name: "n", Body: []byte(`9007199254740993`)}}
}

func writeFixture(t *testing.T, file string) {
	t.Helper()
	m := kvtest.NewMap(nil)
	s := mustOpen(t, m, kv.Options{})
	head, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "a thread/1", Create: &segno.Thread{ID: "a thread/1", Created: time.Unix(1767225600, 0).UTC(), Title: "old"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	b := s.Objects().Batch()
	if err == nil {
		_, err = b.Put(t.Context(), []byte(fixtureObject))
	}
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []segno.Commit{
		{ID: "one", Thread: head.Thread, Parent: "base", Expect: "base", Staged: staged, Checkpoint: fixtureCheckpoint(), Entries: fixtureEntries()},
		{ID: "two", Thread: head.Thread, Parent: "one", Expect: "one", Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}, Pin: &segno.Pin{Checkpoint: "one", Name: "a pin"}},
		{ID: "fork", Thread: "fork", Parent: "one", Create: &segno.Thread{ID: "fork", Parent: "one"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}},
	} {
		if _, err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	items := map[string][]byte{}
	for item, err := range m.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		items[item.Key] = item.Val
	}
	data, err := json.MarshalIndent(items, "", "\t")
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFixtures reads the values of every released version.
func TestFixtures(t *testing.T) {
	if *makeFixture {
		writeFixture(t, filepath.Join("testdata", "v1.json"))
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var items map[string][]byte
			data, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(data, &items)
			}
			m := kvtest.NewMap(nil)
			for key, val := range items {
				if err == nil {
					_, err = m.Put(t.Context(), key, val, kv.RevAny)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			readFixture(t, mustOpen(t, m, kv.Options{}))
		})
	}
}

func readFixture(t *testing.T, s *kv.Store) {
	t.Helper()
	for thread, want := range map[segno.ThreadID]segno.CommitID{"a thread/1": "two", "fork": "fork"} {
		head, err := s.Head(t.Context(), thread)
		if err != nil || head.Head != want {
			t.Fatalf("%s: %+v, %v", thread, head, err)
		}
		line, err := s.Load(t.Context(), head.Head, segno.Window{Entries: true})
		if err != nil || len(line.Commits) != 3 {
			t.Fatalf("%s: %+v, %v", thread, line, err)
		}
		one := fixtureCheckpoint()
		one.ID, one.Thread, one.Parent, one.Seq = "one", "a thread/1", "base", line.Commits[1].Seq
		if diff := cmp.Diff(one, line.Commits[1].Checkpoint); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(fixtureEntries(), line.Commits[1].Entries); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	got, err := s.Objects().Get(t.Context(), segno.HashOf([]byte(fixtureObject)))
	if err != nil || string(got) != fixtureObject {
		t.Errorf("%q, %v", got, err)
	}
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Pinned: true}) {
		if err != nil || c.ID != "one" || c.Label != "a pin" {
			t.Errorf("%+v, %v", c, err)
		}
	}
	storetest.Phases(t, s)
	if _, err := s.Commit(t.Context(), segno.Commit{ID: "new", Thread: "fork", Parent: "fork", Expect: "fork", Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}}); err != nil {
		t.Error(err)
	}
	storetest.Phases(t, s)
}
