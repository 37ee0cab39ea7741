package client_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/timeline"
)

func TestMoves(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	project := filepath.Join(dir, "project")
	file := filepath.Join(project, "a.txt")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := local.Place{Store: filepath.Join(dir, "store"), UserHome: dir, Now: time.Now}.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rec, err := store.Register(ctx, project)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := store.Timeline(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last *segno.Checkpoint
	for _, content := range []string{"1", "2", "3"} {
		source := segno.Source{Session: "session", Dir: project}
		if _, err := tl.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(content), Agent: "robot", Source: source, Text: "write " + content}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if last, err = tl.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(content), Agent: "robot", Source: source}); err != nil {
			t.Fatal(err)
		}
	}
	address, token, stop := serve(t, web.Config{Store: store, Local: store, Kind: "sqlite"})
	defer stop()
	s, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	from := 1
	window, err := s.Timeline(ctx, last.Thread, client.Window{From: &from, N: 2})
	if err != nil || len(window.Rows) != 2 || window.From != 1 || window.Rows[0].Prompt != "write 1" || !window.Rows[1].OnLine {
		t.Errorf("the window is %+v, %v", window, err)
	}
	from = 99
	if _, err := s.Timeline(ctx, last.Thread, client.Window{From: &from}); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a window beyond the end returns %v", err)
	}
	content := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("the file has %q (%v), not %q", got, err, want)
		}
	}
	woken := make(chan segno.Head, 1)
	before, err := s.Head(ctx, last.Thread)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		head, err := segno.Wait(ctx, s, last.Thread, before.Seq)
		if err != nil {
			t.Error(err)
		}
		woken <- head
	}()
	p, err := s.Preview(ctx, client.Move{Verb: "undo", Thread: last.Thread, Turns: 2})
	if err != nil || p.Title != "undo t3, t2 in "+project || len(p.Steps) != 1 {
		t.Fatalf("the preview is %+v, %v", p, err)
	}
	done, err := s.Apply(ctx, p.ID, "key", false)
	for op, err := range store.Operations(ctx, rec.ID) {
		if err != nil || op.Actor != segno.ActorGo {
			t.Errorf("the log has the actor %q, %v", op.Actor, err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	content("1")
	if head := <-woken; head.Head != done.Head {
		t.Errorf("the head is %s, not %s", head.Head, done.Head)
	}
	if again, err := s.Apply(ctx, p.ID, "key", false); err != nil || again.Operation != done.Operation {
		t.Errorf("the same key returns %+v, %v", again, err)
	}
	if _, err := s.Apply(ctx, p.ID, "other", false); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("another key returns %v", err)
	}
	if p, err = s.Preview(ctx, *done.Undo); err == nil {
		_, err = s.Apply(ctx, p.ID, segno.NewID(), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	content("3")
	if _, err := s.Preview(ctx, client.Move{Verb: "undo", Thread: "none"}); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a preview of an unknown thread returns %v", err)
	}
}
