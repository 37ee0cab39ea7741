package proxy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestAUserWorksDuringATurn lets a user save, make and delete files while a call of the agent edits
// another file. None of the three belongs to the turn, and an undo does not change them.
func TestAUserWorksDuringATurn(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		for _, name := range []string{"mine", "doomed"} {
			r.put(name, "0")
		}
		c, s := r.session()
		edit := acptest.Step{Tool: "ledger", Line: "by-the-agent", File: "a", Hold: r.home + "/go"}
		turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Say("on it"), edit, acptest.Say("done")))
		r.says(turn, "on it")
		r.put("mine", "mine")
		r.put("new", "mine")
		if err := os.Remove(filepath.Join(r.project, "doomed")); err != nil {
			t.Fatal(err)
		}
		r.touch(r.home + "/go")
		r.ends(turn, "end_turn")
		show := r.segno("show", "t1")
		for name, isTurns := range map[string]bool{"+ a": true, "mine": false, "new": false, "doomed": false} {
			if strings.Contains(show, name) != isTurns {
				t.Errorf("%s: %v in\n%s", name, !isTurns, show)
			}
		}
		r.segno("undo", "-y")
		if _, err := os.Lstat(filepath.Join(r.project, "a")); err == nil {
			t.Error("undo left the file of the turn")
		}
		if r.read(r.project, "mine") != "mine" || r.read(r.project, "new") != "mine" {
			t.Error("undo changed files of the user")
		}
		if _, err := os.Lstat(filepath.Join(r.project, "doomed")); err == nil {
			t.Error("undo brought back the file that the user deleted")
		}
	})
}

// TestTheClientWritesAFile lets an agent, which reports a command as a call, ask the client to write a file without reporting a call.
// The file is the turn's, and another one that the user writes is not.
func TestTheClientWritesAFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	r.put("a", "0")
	r.put("mine", "0")
	write := func(m acptest.Received) (json.RawMessage, *acp.Error) {
		r.put("a", m.Text(m.Find(m.Params, "content")))
		return json.RawMessage(`{}`), nil
	}
	c := r.greet(acptest.ClientOptions{Handle: write})
	s := r.open(c, "new", "")
	params, err := json.Marshal(map[string]string{"sessionId": s, "path": filepath.Join(r.project, "a"), "content": "1"})
	if err != nil {
		t.Fatal(err)
	}
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Do("one"), acptest.Say("did one"), acptest.Step{Wait: r.home + "/later"}, acptest.Step{Request: json.RawMessage(`{"method":"fs/write_text_file","params":` + string(params) + `}`)},
		acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, acptest.Say("done")))
	r.says(turn, "did one")
	from := time.Now()
	r.until("the clock of the files to be later than the command", func() bool {
		r.touch(r.home + "/clock")
		fi, err := os.Stat(r.home + "/clock")
		return err == nil && fi.ModTime().Sub(from) > 20*time.Millisecond
	})
	r.touch(r.home + "/later")
	r.says(turn, "on it")
	r.put("mine", "1")
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	r.segno("undo", "-y")
	if a, mine := r.read(r.project, "a"), r.read(r.project, "mine"); a != "0" || mine != "1" {
		t.Errorf("undo left a=%s mine=%s", a, mine)
	}
}
