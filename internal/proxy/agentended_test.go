package proxy_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestAUserWorksAfterTheAgentEnded ends the agent in the middle of a command. The user saves a file while the agent's next
// process continues the turn. An undo leaves that file, and the plan names it.
func TestAUserWorksAfterTheAgentEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	r.put("mine", "0")
	c, s := r.session()
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Step{Tool: "ledger", Line: "one", Strike: "intent", Times: 1},
		acptest.Do("two"), acptest.Say("again"), acptest.Step{Wait: r.home + "/go"}, acptest.Say("done")))
	r.says(turn, "again")
	from := time.Now()
	r.until("the clock of the files to be later than the commands", func() bool {
		r.touch(r.home + "/clock")
		fi, err := os.Stat(r.home + "/clock")
		return err == nil && fi.ModTime().Sub(from) > 20*time.Millisecond
	})
	r.put("mine", "1")
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	out, _ := r.command("undo", "-y").CombinedOutput() // a conflict is an exit code
	if got := r.read(r.project, "mine"); got != "1" || !strings.Contains(string(out), "mine") {
		t.Errorf("undo left mine=%s and printed\n%s", got, out)
	}
}
