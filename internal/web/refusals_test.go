package web_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// TestAPreviewRefusesWhatAMoveRefuses previews moves that cannot be made. A preview that returns 201 promises that the
// move can be made, as long as nothing changes, so each of these previews is refused, with the reason.
func TestAPreviewRefusesWhatAMoveRefuses(t *testing.T) {
	r := newMoveRig(t)
	refuse := func(what, body string, status int, kind, detail string) {
		t.Helper()
		a := r.post("/previews", "", body)
		if a.status == http.StatusCreated {
			made := r.apply(a, "")
			t.Errorf("%s: the preview returns 201, and the move %d %s", what, made.status, made.raw)
			return
		}
		r.refused(a, status, kind, detail)
	}
	source := r.thread
	pinned := r.move(`"verb":"pin","to":"` + string(r.turns[0].ID) + `","name":"green"`)
	unpinned := r.move(`"verb":"unpin","to":"` + string(r.turns[0].ID) + `","name":"green"`)
	r.move(`"verb":"pin","to":"` + string(r.turns[1].ID) + `","name":"green"`)
	var list struct {
		Operations []struct{ ID, Verb string }
	}
	r.get("/operations?workspace="+string(r.rec.ID), &list)
	if pinned.Undo == nil || unpinned.Undo == nil || len(list.Operations) != 3 || list.Operations[1].Verb != "unpin" {
		t.Fatalf("the pins: %+v", list)
	}
	refuse("an undo of an unpin whose name another checkpoint has",
		`{"verb":"op-undo","thread":"`+string(source)+`","operation":"`+list.Operations[1].ID+`"}`, http.StatusConflict, "conflict", "another checkpoint of the thread has this name")

	fork := r.move(`"verb":"fork"`)
	work, err := r.store.Register(t.Context(), fork.Fork.Dir)
	if err != nil {
		t.Fatal(err)
	}
	inFork, err := r.store.Timeline(work, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompt := timeline.Prompt{Key: "in-fork", Agent: "robot", Source: segno.Source{Session: "fork-session", Dir: fork.Fork.Dir}, Text: "in the fork",
		Thread: fork.Fork.Thread, Process: timeline.Process{PID: os.Getpid()}}
	if _, err := inFork.BeginTurn(t.Context(), prompt); err != nil {
		t.Fatal(err)
	}
	refuse("an undo of a fork in which a turn is open", string(fork.Undo), http.StatusForbidden, "refused", "the fork has an open turn; it is kept")
	refuse("the deletion of a thread with an open turn", `{"verb":"delete","thread":"`+string(fork.Fork.Thread)+`"}`, http.StatusForbidden, "refused", "a turn is open")
	if _, err := inFork.EndTurn(t.Context(), timeline.TurnEnd{Key: "in-fork", Agent: "robot", Source: prompt.Source}); err != nil {
		t.Fatal(err)
	}
	refuse("an undo of a fork that has a turn", string(fork.Undo), http.StatusForbidden, "refused", "it is kept")

	// The ancestors of a fork stay when the source is deleted, but cannot be pinned or forked.
	if a := r.move(`"verb":"delete"`); a.status != http.StatusOK {
		t.Fatal(a.raw)
	}
	at := `"thread":"` + string(fork.Fork.Thread) + `","to":"` + string(r.turns[1].ID) + `"`
	refuse("a pin of a checkpoint whose thread is deleted", `{"verb":"pin","name":"old",`+at+`}`, http.StatusNotFound, "not_found", "")
	refuse("a fork at a checkpoint whose thread is deleted", `{"verb":"fork",`+at+`}`, http.StatusNotFound, "not_found", "")
}
