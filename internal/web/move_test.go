package web_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/timeline"
)

func TestUndoAndItsUndo(t *testing.T) {
	r := newMoveRig(t)
	p := r.preview(`"verb":"undo","turns":2`)
	plan, err := r.timeline.Preview(t.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Thread: r.thread, Turns: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != len(plan.Steps) || p.Title != "undo t3, t2 in "+r.project || !slices.Contains(p.Summary, "  ~ a.txt") {
		t.Errorf("the preview is %s", p.raw)
	}
	r.file("a.txt", "3")
	done := r.apply(p, "")
	r.file("a.txt", "1")
	r.file("lines.txt", "line 1\n")
	if done.Head != r.turns[0].ID || done.Tip != r.turns[2].ID || done.Operation == "" {
		t.Errorf("the undo returns %s", done.raw)
	}
	back := r.undo(done)
	r.file("a.txt", "3")
	if back.Head != r.turns[2].ID {
		t.Errorf("the undo of the undo returns %s", back.raw)
	}
	r.undo(back)
	r.file("a.txt", "1")
	r.move(`"verb":"redo","turn":3`)
	r.file("lines.txt", "line 1\nline 2\nline 3\n")
}

// TestUndoBesideClient undoes a turn while a client of the proxy has the conversation. The client continues at the position after the undo.
func TestUndoBesideClient(t *testing.T) {
	r := newMoveRig(t)
	self := spool.Process{PID: os.Getpid(), Start: proc.Start(os.Getpid())}
	if err := r.store.Spool().KeepRunner(spool.Runner{Process: self, Verb: "acp", Threads: []segno.ThreadID{r.thread}}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the next prompt in the client of 'segno acp' (pid %d) continues the conversation there", os.Getpid())
	if done := r.apply(r.preview(`"verb":"undo"`), ""); done.Notice != want {
		t.Errorf("the undo returns %s", done.raw)
	}
}

// TestUndoOfOneTurnAlone undoes an old turn and keeps the newer ones. Where these changed the same lines, there is a conflict.
func TestUndoOfOneTurnAlone(t *testing.T) {
	r := newMoveRig(t)
	key := r.begin(4)
	r.write("extra.txt", "4")
	r.end(key)
	r.turn(5)
	p := r.preview(`"verb":"undo","turn":4,"only":true`)
	if p.Sentence != "Undoes only “prompt 4”: newer turns and the conversation stay; 1 file is deleted; nothing of yours is touched." || len(p.Steps) != 1 || !strings.Contains(p.raw, `"only":true`) {
		t.Errorf("the preview is %s", p.raw)
	}
	done := r.apply(p, "")
	if _, err := os.Stat(filepath.Join(r.project, "extra.txt")); !os.IsNotExist(err) {
		t.Errorf("extra.txt: %v", err)
	}
	r.file("a.txt", "5")
	if done.Sentence != "Undone only “prompt 4”: 1 file was deleted." || done.Head == r.turns[4].ID || done.Tip != done.Head {
		t.Errorf("the undo returns %s", done.raw)
	}
	var list struct {
		Operations []struct{ Verb, Args, About string }
	}
	r.get("/operations?workspace="+string(r.rec.ID), &list)
	if op := list.Operations[0]; op.Verb != "undo" || op.Args != "t4 --only" || op.About != "prompt 4" {
		t.Errorf("the log has %+v", op)
	}
	r.undo(done)
	r.file("extra.txt", "4")

	p = r.preview(`"verb":"undo","turn":2,"only":true`)
	if len(p.Conflicts) != 2 || !p.NeedsForce {
		t.Fatalf("the preview is %s", p.raw)
	}
	r.apply(p, "")
	r.file("a.txt", "5")
	r.apply(r.preview(`"verb":"undo","turn":2,"only":true`), `,"force":true`) // it finishes the move before
	r.file("a.txt", "1")
	r.file("extra.txt", "4")
	r.refused(r.post("/previews", "", `{"thread":"`+string(r.thread)+`","verb":"undo","turn":9,"only":true}`), http.StatusNotFound, "not_found", "t9 is not on the line")
}

// The log of operations has the client of each move, and no move of a server is without one.
func TestTheLogHasTheClientOfAMove(t *testing.T) {
	r := newMoveRig(t)
	r.move(`"verb":"undo"`)
	p := r.preview(`"verb":"redo"`)
	r.actor = "my script"
	r.apply(p, "")
	r.move(`"verb":"pin","to":"` + string(r.turns[0].ID) + `","name":"green"`)
	fork := r.move(`"verb":"fork"`)
	r.actor = ""
	r.undo(fork)
	var list struct {
		Operations []struct{ Verb, Actor string }
	}
	r.get("/operations?workspace="+string(r.rec.ID), &list)
	want := []struct{ Verb, Actor string }{{"op undo", "HTTP API"}, {"fork", "my script"}, {"pin", "my script"}, {"redo", "my script"}, {"undo", "HTTP API"}}
	if !slices.Equal(list.Operations, want) {
		t.Errorf("the log has %v, not %v", list.Operations, want)
	}
	r.actor = strings.Repeat("x", 65)
	r.refused(r.apply(r.preview(`"verb":"undo"`), ""), http.StatusBadRequest, "invalid", "longer than 64 bytes")
}

func TestConflicts(t *testing.T) {
	r := newMoveRig(t)
	r.write("a.txt", "mine")
	p := r.preview(`"verb":"undo"`)
	if len(p.Conflicts) != 1 || !p.NeedsForce || !strings.Contains(p.Conflicts[0].Diff, "-mine") || len(p.Forced) != 1 {
		t.Fatalf("the preview is %s", p.raw)
	}
	if done := r.apply(p, `,"force":true`); done.status != http.StatusOK {
		t.Fatalf("the move returns %s", done.raw)
	}
	r.file("a.txt", "2")
	// A restore is exact: it saves the current files, so it has no conflicts.
	r.write("a.txt", "mine again")
	done := r.move(`"verb":"restore","to":"` + string(r.turns[0].ID) + `","scope":"files","paths":["a.txt"]`)
	r.file("a.txt", "1")
	r.file("lines.txt", "line 1\nline 2\n")
	r.undo(done)
	r.file("a.txt", "mine again")
}

func TestOutdatedPreviews(t *testing.T) {
	r := newMoveRig(t)
	for _, x := range []struct {
		what   string
		change func()
	}{
		{"the files", func() { r.write("a.txt", "changed") }},
		{"the thread", func() { r.turn(4) }},
		{"the thread", func() { r.move(`"verb":"undo"`) }},
	} {
		p := r.preview(`"verb":"undo"`)
		x.change()
		data, err := os.ReadFile(filepath.Join(r.project, "a.txt"))
		if err != nil {
			t.Fatal(err)
		}
		a := r.applyAs("one", p, "")
		r.refused(a, http.StatusPreconditionFailed, "conflict", x.what+" changed since the preview")
		r.refused(r.applyAs("one", p, ""), http.StatusPreconditionFailed, "conflict", x.what+" changed since the preview")
		r.file("a.txt", string(data))
	}
	p := r.preview(`"verb":"undo"`)
	r.write("unrelated.txt", "a file that the move does not touch")
	if a := r.apply(p, ""); a.status != http.StatusOK {
		t.Errorf("after a change of another file the move returns %s", a.raw)
	}
	p = r.preview(`"verb":"redo"`)
	r.now = r.now.Add(11 * time.Minute)
	r.refused(r.apply(p, ""), http.StatusPreconditionFailed, "conflict", "expired")
}

func TestOnePreviewIsAppliedOnce(t *testing.T) {
	r := newMoveRig(t)
	p := r.preview(`"verb":"undo"`)
	answers := make(chan answer, 4)
	for range cap(answers) {
		go func() { answers <- r.applyAs("same", p, "") }()
	}
	first := <-answers
	for range cap(answers) - 1 {
		if a := <-answers; a.raw != first.raw || a.status != http.StatusOK {
			t.Errorf("one key has the answers %s and %s", first.raw, a.raw)
		}
	}
	r.refused(r.applyAs("other", p, ""), http.StatusConflict, "conflict", "applied already")
	r.file("a.txt", "2")
	// A restarted server does not have the preview, but finds the operation in the log.
	r.stop()
	r.serve()
	if again := r.applyAs("same", p, ""); again.status != http.StatusOK || again.Operation != first.Operation || again.Head != first.Head ||
		string(again.Undo) != string(first.Undo) {
		t.Errorf("after a restart the answer is %s, not %s", again.raw, first.raw)
	}
	r.refused(r.applyAs("other", p, ""), http.StatusNotFound, "not_found", "no such preview")
	r.file("a.txt", "2")
}

func TestForkOverHTTP(t *testing.T) {
	r := newMoveRig(t)
	p := r.preview(`"verb":"fork","to":"` + string(r.turns[1].ID) + `"`)
	if p.Dir != r.project+"-t2" {
		t.Errorf("the preview is %s", p.raw)
	}
	done := r.apply(p, "")
	data, err := os.ReadFile(filepath.Join(r.project+"-t2", "a.txt"))
	if err != nil || string(data) != "2" || done.Fork == nil || done.Fork.Dir != r.project+"-t2" {
		t.Fatalf("the fork has %q (%v): %s", data, err, done.raw)
	}
	if next := r.preview(`"verb":"fork","to":"` + string(r.turns[1].ID) + `"`); next.Dir != r.project+"-t2-2" {
		t.Errorf("the next fork is in %s", next.Dir)
	}
	a := r.post("/previews", "", `{"verb":"fork","thread":"`+string(r.thread)+`","dir":"`+r.project+`-t2"}`)
	r.refused(a, http.StatusConflict, "conflict", "already exists")
	r.undo(done)
	if _, err := r.store.Head(t.Context(), done.Fork.Thread); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("after the undo the fork is there: %v", err)
	}
	same := r.move(`"verb":"fork","scope":"chat","title":"another way"`)
	if head, err := r.store.Head(t.Context(), same.Fork.Thread); err != nil || head.Turn != 3 {
		t.Errorf("the fork on the same files is %+v, %v", head, err)
	}
}

// TestAForkOfUntrustedFilesHasNoPreview forks a checkpoint with a file of another machine, and one whose file only looks like it.
func TestAForkOfUntrustedFilesHasNoPreview(t *testing.T) {
	r := newMoveRig(t)
	bring := func(content string, by segno.ThreadID) {
		t.Helper()
		e := segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf([]byte(content))}
		u := timeline.Untrusted{Thread: by, Threads: []segno.ThreadID{by}, Files: []timeline.UntrustedFile{{Path: []byte("a.txt"), Entity: e}}}
		if err := r.store.Spool().AddUntrusted(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	bring("2", r.thread)
	bring("1", "another")
	fork := func(turn int) answer {
		return r.post("/previews", "", `{"verb":"fork","thread":"`+string(r.thread)+`","to":"`+string(r.turns[turn-1].ID)+`"}`)
	}
	r.refused(fork(2), http.StatusForbidden, "refused", "a.txt")
	if p := fork(1); p.status != http.StatusCreated {
		t.Errorf("a file of the user's own is refused: %s", p.raw)
	}
}

func TestPinRenameDelete(t *testing.T) {
	r := newMoveRig(t)
	at := `"to":"` + string(r.turns[0].ID) + `"`
	done := r.move(`"verb":"pin",` + at + `,"name":"green build"`)
	pins := func() (names []string) {
		for c, err := range r.store.Checkpoints(t.Context(), segno.CheckpointQuery{Pinned: true}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, segno.PinNames(c.Label)...)
		}
		return names
	}
	if got := pins(); !slices.Equal(got, []string{"green build"}) {
		t.Errorf("the pins are %q", got)
	}
	a := r.post("/previews", "", `{"verb":"pin","thread":"`+string(r.thread)+`","to":"`+string(r.turns[1].ID)+`","name":"green build"}`)
	r.refused(a, http.StatusConflict, "conflict", "has this name")
	back := r.undo(done)
	if got := pins(); len(got) != 0 {
		t.Errorf("after the undo the pins are %q", got)
	}
	r.undo(back)
	r.move(`"verb":"pin",` + at + `,"name":"two"`)
	all := r.move(`"verb":"unpin",` + at)
	if got := pins(); len(got) != 0 {
		t.Errorf("after unpin the pins are %q", got)
	}
	r.undo(all)
	if got := pins(); !slices.Equal(got, []string{"green build", "two"}) {
		t.Errorf("after the undo of unpin the pins are %q", got)
	}
	stale := r.preview(`"verb":"unpin",` + at)
	r.move(`"verb":"pin",` + at + `,"name":"three"`)
	r.refused(r.apply(stale, ""), http.StatusPreconditionFailed, "conflict", "the names of the checkpoint changed")

	title := func() string {
		for th, err := range r.store.Threads(t.Context(), segno.ThreadQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			if th.ID == r.thread {
				return th.Title
			}
		}
		return ""
	}
	old := title()
	before, err := r.store.Head(t.Context(), r.thread)
	if err != nil {
		t.Fatal(err)
	}
	renamed := r.move(`"verb":"rename","title":"A new <b>title</b>"`)
	if title() != "A new <b>title</b>" {
		t.Errorf("the title is %q", title())
	}
	if after, err := r.store.Head(t.Context(), r.thread); err != nil || after.Seq == before.Seq || after.Head != before.Head {
		t.Errorf("the rename changes the head from %+v to %+v, %v", before, after, err)
	}
	r.undo(renamed)
	if title() != old {
		t.Errorf("after the undo the title is %q, not %q", title(), old)
	}

	stale = r.preview(`"verb":"delete"`)
	r.turn(4)
	r.refused(r.apply(stale, ""), http.StatusPreconditionFailed, "conflict", "the thread changed")
	if p := r.preview(`"verb":"delete"`); !p.Final || !strings.Contains(p.raw, "cannot be undone") {
		t.Errorf("the preview of delete is %s", p.raw)
	}
	if gone := r.move(`"verb":"delete"`); string(gone.Undo) != "null" {
		t.Errorf("delete returns %s", gone.raw)
	}
	r.file("a.txt", "4")
	a = r.post("/previews", "", `{"verb":"undo","thread":"`+string(r.thread)+`"}`)
	r.refused(a, http.StatusNotFound, "not_found", "")
}

func TestMovesUnderAnOpenTurn(t *testing.T) {
	r := newMoveRig(t)
	p := r.preview(`"verb":"undo"`)
	r.begin(4)
	body := `{"verb":"undo","thread":"` + string(r.thread) + `"`
	r.refused(r.post("/previews", "", body+`}`), http.StatusForbidden, "refused", "thread "+string(r.thread))
	r.refused(r.apply(p, ""), http.StatusForbidden, "refused", "is open")
	r.refused(r.post("/previews", "", `{"verb":"delete","thread":"`+string(r.thread)+`"}`), http.StatusForbidden, "refused", "a turn is open")
	forced := r.post("/previews", "", body+`,"while_running":true}`)
	if forced.status != http.StatusCreated {
		t.Fatalf("while it runs the preview returns %s", forced.raw)
	}
	if a := r.apply(forced, ""); a.status != http.StatusOK {
		t.Errorf("while it runs the move returns %s", a.raw)
	}
	r.file("a.txt", "2")
}

func TestMalformedMoves(t *testing.T) {
	r := newMoveRig(t)
	thread := `"thread":"` + string(r.thread) + `"`
	other := r.move(`"verb":"fork","scope":"chat","to":"` + string(r.turns[0].ID) + `"`).Fork.Thread
	for _, x := range []struct {
		body   string
		status int
		kind   string
	}{
		{`{`, http.StatusBadRequest, "invalid"},
		{`not json`, http.StatusBadRequest, "invalid"},
		{`[]`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `} {}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"surprise":1}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"to":"x"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"turns":-1}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"turns":1,"turn":2}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"only":true}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"turns":1,"only":true}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"redo",` + thread + `,"turn":1,"only":true}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"turns":99}`, http.StatusNotFound, "not_found"},
		{`{"verb":"undo",` + thread + `,"paths":["../outside"]}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo",` + thread + `,"paths":["/etc/passwd"]}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"undo","thread":"none"}`, http.StatusNotFound, "not_found"},
		{`{"verb":"obliterate",` + thread + `}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"restore",` + thread + `}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"restore",` + thread + `,"to":"none"}`, http.StatusNotFound, "not_found"},
		{`{"verb":"restore",` + thread + `,"to":"` + string(r.turns[0].ID) + `","scope":"all"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"restore","thread":"` + string(other) + `","to":"` + string(r.turns[2].ID) + `"}`, http.StatusForbidden, "refused"},
		{`{"verb":"pin","thread":"` + string(other) + `","to":"` + string(r.turns[2].ID) + `"}`, http.StatusForbidden, "refused"},
		{`{"verb":"pin",` + thread + `,"to":"` + string(r.turns[0].ID) + `","name":"t7"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"pin",` + thread + `,"to":"` + string(r.turns[0].ID) + `","name":"two\nlines"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"fork",` + thread + `,"dir":"` + r.project + `/inside"}`, http.StatusForbidden, "refused"},
		{`{"verb":"fork",` + thread + `,"dir":"relative"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"fork",` + thread + `,"dir":"` + r.project + `-\u0000"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"fork",` + thread + `,"dir":"` + r.project + strings.Repeat("x", 300) + `"}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"rename",` + thread + `,"title":" "}`, http.StatusBadRequest, "invalid"},
		{`{"verb":"op-undo",` + thread + `,"operation":"none"}`, http.StatusNotFound, "not_found"},
		{`{"verb":"decide",` + thread + `,"interrupt":"none","decision":"approve"}`, http.StatusNotFound, "not_found"},
		{`{"verb":"decide",` + thread + `,"interrupt":"` + timeline.PermissionID("call") + `","decision":"approve"}`, http.StatusForbidden, "refused"},
		{`{"verb":"rename",` + thread + `,"title":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge, "invalid"},
	} {
		a := r.post("/previews", "", x.body)
		if a.status != x.status || a.Kind != x.kind {
			t.Errorf("%.100s returns %d %.200s, not %d %s", x.body, a.status, a.raw, x.status, x.kind)
		}
	}
	r.refused(r.post("/moves", "", `{"preview":"x"}`), http.StatusBadRequest, "invalid", "Idempotency-Key")
	r.refused(r.post("/moves", "k", `{}`), http.StatusBadRequest, "invalid", "no preview")
	r.refused(r.post("/moves", "k", `{"preview":"none"}`), http.StatusNotFound, "not_found", "no such preview")
	r.refused(r.post("/moves", "k", `{"preview":"none","turns":1}`), http.StatusBadRequest, "invalid", "turns")
	r.file("a.txt", "3")
}

// TestMovesWithoutWorkspace moves threads of a store with workspaces on another machine.
func TestMovesWithoutWorkspace(t *testing.T) {
	r := newMoveRig(t)
	r.stop()
	r.serveConfig(web.Config{Store: r.store.Store, Kind: "postgres"})
	head := func(want segno.CommitID) {
		t.Helper()
		if h, err := r.store.Head(t.Context(), r.thread); err != nil || h.Head != want || h.Tip != r.turns[2].ID {
			t.Errorf("the head is %+v (%v), not %s", h, err, want)
		}
	}
	p := r.preview(`"verb":"undo","turns":2`)
	if len(p.Steps) > 0 || !strings.Contains(p.raw, "only the thread moves") {
		t.Errorf("the preview is %s", p.raw)
	}
	done := r.apply(p, "")
	head(r.turns[0].ID)
	back := r.undo(done)
	head(r.turns[2].ID)
	r.undo(back)
	head(r.turns[0].ID)
	stale := r.preview(`"verb":"redo"`)
	done = r.move(`"verb":"restore","to":"` + string(r.turns[1].ID) + `"`)
	head(r.turns[1].ID)
	r.refused(r.apply(stale, ""), http.StatusPreconditionFailed, "conflict", "the thread changed")
	r.undo(done)
	head(r.turns[0].ID)
	pinned := r.move(`"verb":"pin","to":"` + string(r.turns[0].ID) + `","name":"here"`)
	r.undo(pinned)
	fork := r.move(`"verb":"fork"`)
	if h, err := r.store.Head(t.Context(), fork.Fork.Thread); err != nil || h.Turn != 1 {
		t.Errorf("the fork is %+v, %v", h, err)
	}
	r.undo(fork)
	r.move(`"verb":"rename","title":"elsewhere"`)
	for _, body := range []string{`"verb":"op-undo"`, `"verb":"undo","paths":["a.txt"]`, `"verb":"fork","dir":"/tmp/x"`,
		`"verb":"restore","scope":"files","to":"` + string(r.turns[1].ID) + `"`} {
		a := r.post("/previews", "", `{"thread":"`+string(r.thread)+`",`+body+`}`)
		r.refused(a, http.StatusForbidden, "refused", "")
	}
	lease, err := r.store.Acquire(t.Context(), segno.Lease{Thread: r.thread, Owner: "a run", Expires: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	a := r.post("/previews", "", `{"verb":"redo","thread":"`+string(r.thread)+`"}`)
	r.refused(a, http.StatusForbidden, "refused", "a run holds the thread")
	if err := r.store.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	r.move(`"verb":"delete"`)
	r.file("a.txt", "3")
}

func TestLargeMove(t *testing.T) {
	r := newMoveRig(t)
	key := r.begin(4)
	const files = 1200
	for i := range files {
		r.write(fmt.Sprintf("f%d", i), "x")
	}
	if _, err := r.timeline.EndTurn(t.Context(), timeline.TurnEnd{Key: key, Agent: "robot", Source: segno.Source{Session: "session", Dir: r.project}}); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		r.write(fmt.Sprintf("f%d", i), "changed\n"+strings.Repeat("text\n", 1000))
	}
	p := r.preview(`"verb":"undo"`)
	if len(p.Conflicts) != 200 || p.Totals.Conflicts != files || len(p.raw) > 4<<20 || len(p.Summary) > 2000 {
		t.Errorf("the preview has %d of %d conflicts, %d lines and %d bytes", len(p.Conflicts), p.Totals.Conflicts, len(p.Summary), len(p.raw))
	}
	done := r.apply(p, `,"force":true`)
	if done.status != http.StatusOK || done.Files != files {
		t.Errorf("the move returns %.300s", done.raw)
	}
	if _, err := os.Lstat(filepath.Join(r.project, "f7")); err == nil {
		t.Error("the files are not undone")
	}
}
