package arrivals

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// newStore returns an empty store of this machine.
func newStore(t *testing.T) *local.Store {
	t.Helper()
	place, err := local.FindPlace(func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] }, filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestArrivalsOutsideOfTrees checks what a commit can bring that no tree of files has: states of files inside a turn, statements
// for an attached database, and files that the agent runs for its sessions.
func TestArrivalsOutsideOfTrees(t *testing.T) {
	ctx := t.Context()
	store := newStore(t)
	put := func(content string) segno.Hash {
		t.Helper()
		batch := store.Objects().Batch()
		defer batch.Close()
		name, err := batch.Put(ctx, []byte(content))
		staged, stageErr := batch.Stage(ctx)
		if err != nil || stageErr != nil {
			t.Fatal(err, stageErr)
		}
		if err := store.Objects().Keep(ctx, staged); err != nil {
			t.Fatal(err)
		}
		return name
	}
	encode := func(v any) string {
		t.Helper()
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	file := func(content string) segno.Entity {
		return segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: put(content), Size: int64(len(content))}
	}
	points := put(encode(map[string]any{"version": 1, "calls": []timeline.SavedCall{{Call: "c", Files: []timeline.SavedFile{
		{Path: []byte(".envrc"), Entity: file("touch /tmp/x")}, {Path: []byte("main.go"), Entity: file("package main")}}}}}))
	state := put("segno postgres 1\n" + encode(map[string]any{"before": put("COPY t TO PROGRAM 'sh'")}))
	world := put(encode(map[string]any{"format": "databases/1", "databases": []map[string]any{
		{"name": "app", "kind": "postgres", "content": state}, {"name": "lite", "kind": "sqlite", "content": put("pages")}}}))
	sidecars := put("segno-sidecars 1\n644 2 0 blob " + put("hi").String() + " \"session-env/hook-0.sh\"\n644 2 0 blob " + put("hi").String() + " \"tasks/1.json\"\n")
	harmless := put("segno-sidecars 1\n644 2 0 blob " + put("hi").String() + " \"tasks/1.json\"\n")
	commits := []segno.Commit{
		{ID: "1", Thread: "t", Checkpoint: &segno.Checkpoint{ID: "1", Points: points, Workspace: &segno.Snapshot{World: &segno.Document{Type: "databases/1", Data: world}}}},
		{Thread: "t", Link: &segno.Link{Session: "s", Position: &segno.Position{Sidecars: sidecars}}},
		{ID: "2", Parent: "1", Thread: "t", Checkpoint: &segno.Checkpoint{ID: "2", Session: &segno.Position{Sidecars: harmless}}},
	}
	if err := NewRecorder(store).Record(ctx, "t", commits); err != nil {
		t.Fatal(err)
	}
	all, err := store.Spool().Untrusted(ctx)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	got := map[string]segno.Hash{}
	for _, f := range all[0].Files {
		got[string(f.Path)] = f.Entity.Hash
	}
	want := map[string]segno.Hash{".envrc": file("touch /tmp/x").Hash, segno.DatabasePath("app"): state}
	if !maps.Equal(got, want) || !slices.Equal(all[0].Sidecars, []segno.Hash{sidecars}) {
		t.Errorf("recorded %v and %v, want %v", got, all[0].Sidecars, want)
	}
	// What cannot be read is not recorded as harmless.
	broken := []segno.Commit{{ID: "3", Thread: "t", Checkpoint: &segno.Checkpoint{ID: "3", Workspace: &segno.Snapshot{Tree: segno.Hash{1}}}}}
	if err := NewRecorder(store).Record(context.WithoutCancel(ctx), "t", broken); err == nil {
		t.Error("a tree that is missing is no error")
	}
}

// TestPointsThatArriveLate records a commit before the store has the list of its points, as if a server sent the list only when the
// commit was refused without it. The commit is not recorded as harmless; once the list is there, its files are recorded.
func TestPointsThatArriveLate(t *testing.T) {
	ctx := t.Context()
	store := newStore(t)
	list, err := json.Marshal(map[string]any{"version": 1, "calls": []timeline.SavedCall{{Call: "c", Files: []timeline.SavedFile{
		{Path: []byte(".envrc"), Entity: segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf([]byte("x")), Size: 1}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	commits := []segno.Commit{{ID: "1", Thread: "t", Checkpoint: &segno.Checkpoint{ID: "1", Points: segno.HashOf(list)}}}
	recorder := NewRecorder(store)
	if err := recorder.Record(ctx, "t", commits); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a list that is missing is %v", err)
	}
	batch := store.Objects().Batch()
	defer batch.Close()
	_, err = batch.Put(ctx, list)
	staged, stageErr := batch.Stage(ctx)
	if err != nil || stageErr != nil {
		t.Fatal(err, stageErr)
	}
	if err := store.Objects().Keep(ctx, staged); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Record(ctx, "t", commits); err != nil {
		t.Fatal(err)
	}
	all, err := store.Spool().Untrusted(ctx)
	if err != nil || len(all) != 1 || len(all[0].Files) != 1 || string(all[0].Files[0].Path) != ".envrc" {
		t.Errorf("recorded %+v, %v", all, err)
	}
}
