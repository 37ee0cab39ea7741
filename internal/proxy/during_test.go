package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
