package proxy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// withOthersWork runs a conversation of three turns, after which the user and another session worked,
// too. The user wrote a note, changed a line of a file that turn 2 had changed, and changed the line that
// turn 3 had written. The other session finished a file.
func withOthersWork(t *testing.T) (r *rig, c *acptest.Client, s string) {
	t.Helper()
	r = newRig(t, acptest.Full)
	r.put("ledger", "head\n2\n3\n4\n5\n6\n7\n8\n")
	c, s = r.three()
	other := r.open(c, "new", "")
	r.creates(c, other, "theirs.txt")
	r.put("note.txt", "a note of the user\n")
	r.put("ledger", strings.Replace(r.read(r.project, "ledger"), "head", "head by the user", 1))
	return r, c, s
}

// creates runs a turn whose agent announces an edit that makes a file.
func (r *rig) creates(c *acptest.Client, s, name string) {
	r.Helper()
	path := filepath.Join(r.project, name)
	call := acptest.Step{Raw: acp.Encode(map[string]any{"sessionUpdate": "tool_call", "toolCallId": name, "title": "Write " + name, "kind": "edit",
		"status": "in_progress", "rawInput": map[string]string{"path": path}, "locations": []any{map[string]string{"path": path}}})}
	turn := r.prompt(c, s, name+" "+acptest.Directive(call, acptest.Say("begun"), acptest.Step{Wait: filepath.Join(r.home, "go-"+name)},
		acptest.Step{Raw: acp.Encode(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": name, "status": "completed"})}, acptest.Say("done")))
	r.says(turn, "begun")
	r.put(name, name+"\n")
	r.touch(filepath.Join(r.home, "go-"+name))
	r.ends(turn, "end_turn")
}

// TestEditKeepsOthersWork edits the second of three turns. The work of the user and of another session
// stays, as in an undo. The client receives the list of it before the prompt, and the move is an undo in
// the log.
func TestEditKeepsOthersWork(t *testing.T) {
	t.Parallel()
	r, c, s := withOthersWork(t)
	edited := r.turn(c, s, "/edit 2 delta "+acptest.Directive(acptest.Say("said-delta")))
	r.files(map[string]string{"note.txt": "a note of the user\n", "theirs.txt": "theirs.txt\n", "ledger": "head by the user\n2\n3\n4\n5\n6\n7\n8\nalpha-line\n"})
	said := edited.Said()
	listing, _, found := strings.Cut(said, "said-delta")
	if !found || !strings.Contains(listing, "Turns: t2, t3.") || !strings.Contains(listing, "merged with later changes: ledger") {
		t.Errorf("the user sees %q", said)
	}
	edit := strings.Fields(r.segno("op", "log"))
	if len(edit) < 3 || edit[2] != "undo" {
		t.Fatalf("the operations are %v", edit)
	}
	r.order(c, s, "/undo")
	r.leave(c)
	r.segno("op", "undo", edit[0], "-y")
	r.files(map[string]string{"note.txt": "a note of the user\n", "theirs.txt": "theirs.txt\n", "ledger": "head by the user\n2\n3\n4\n5\n6\n7\n8\nalpha-line\nbeta-line\ngamma-line\n"})
}

// TestEditListsConflicts edits a turn whose line the user has changed since. The line stays, and the
// client receives it as a conflict before the prompt. The reply does not suggest to overwrite it, because
// an undo would then undo the edited turn.
func TestEditListsConflicts(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	c, s := r.three()
	r.put("ledger", "alpha-line\nbeta-line by the user\ngamma-line\n")
	edited := r.turn(c, s, "/edit 2 delta "+acptest.Directive(acptest.Say("said-delta")))
	listing, _, _ := strings.Cut(edited.Said(), "said-delta")
	if !strings.Contains(listing, "left as it is: ledger") || strings.Contains(listing, "--") {
		t.Errorf("the user sees %q", edited.Said())
	}
	if got := r.read(r.project, "ledger"); !strings.Contains(got, "beta-line by the user") {
		t.Errorf("the file has %q", got)
	}
	r.wantSeen([]string{"alpha", "delta"}, "said-beta", "said-gamma")
}

// TestEditOfUndoneTurn edits undone turns. The reply has the next step.
func TestEditOfUndoneTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	r.order(c, s, "/undo 2")
	for command, want := range map[string]string{"/edit 2 delta": "send the new text", "/edit 3 delta": "/restore t3"} {
		if said := r.order(c, s, command); !strings.Contains(said, "segno: ") || !strings.Contains(said, want) {
			t.Errorf("%s: said %q", command, said)
		}
	}
	r.files(map[string]string{"ledger": "alpha-line\n"})
}

// TestRestoreNamesWhatItReplaces restores a checkpoint. Before the restore writes anything, the user
// receives the paths at which it replaces work of others, and no path that only the turns changed.
// Afterwards the user receives the checkpoint with the previous state, which can be restored.
func TestRestoreNamesWhatItReplaces(t *testing.T) {
	t.Parallel()
	r, c, s := withOthersWork(t)
	r.creates(c, s, "own.txt")
	before := r.read(r.project, "ledger")
	from := c.Place()
	said := r.order(c, s, "/restore t1")
	r.files(map[string]string{"note.txt": "", "theirs.txt": "", "own.txt": "", "ledger": "head\n2\n3\n4\n5\n6\n7\n8\nalpha-line\n"})
	first := ""
	for _, m := range c.Messages()[from:] {
		if m.Update() == "agent_message_chunk" {
			first = m.Content()
			break
		}
	}
	for _, path := range []string{"note.txt", "theirs.txt", "ledger"} {
		if !strings.Contains(first, path) {
			t.Errorf("the first message lacks %s: %q", path, first)
		}
	}
	if strings.Contains(first, "own.txt") {
		t.Errorf("the first message has a path of the turn alone: %q", first)
	}
	named := regexp.MustCompile(`/restore ([0-9a-z-]{8})`).FindStringSubmatch(said)
	if named == nil {
		t.Fatalf("no checkpoint has the present: %q", said)
	}
	r.order(c, s, "/restore "+named[1])
	r.files(map[string]string{"note.txt": "a note of the user\n", "theirs.txt": "theirs.txt\n", "own.txt": "own.txt\n", "ledger": before})
}

// TestRestoreOfOwnWorkOnly restores without work of others. The user receives no message before the move.
func TestRestoreOfOwnWorkOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.three()
	if said := r.order(c, s, "/restore t1"); strings.Contains(said, "replaces") {
		t.Errorf("the user sees %q", said)
	}
	m, err := c.Call(r.ctx, "_segno/restore", map[string]any{"sessionId": s, "to": "t3"})
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Before   string
		Replaced []string
	}
	if err := json.Unmarshal(m.Result.Of(m.Line), &result); err != nil || result.Before == "" || result.Replaced == nil || len(result.Replaced) > 0 {
		t.Errorf("the result is %s, %v", m.Result.Of(m.Line), err)
	}
	if err := os.WriteFile(filepath.Join(r.project, "mine"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err = c.Call(r.ctx, "_segno/restore", map[string]any{"sessionId": s, "to": "t1", "preview": true}); err != nil {
		t.Fatal(err)
	}
	r.files(map[string]string{"mine": "x"})
	if err := json.Unmarshal(m.Result.Of(m.Line), &result); err != nil || len(result.Replaced) != 1 || result.Replaced[0] != "mine" {
		t.Errorf("the result is %s, %v", m.Result.Of(m.Line), err)
	}
}
