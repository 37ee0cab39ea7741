package web_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// A call of segno's own agent waits for approval. The page shows it with its input. The user rejects one
// call with the keyboard and approves another with the mouse, and the agent continues with the answers.
func TestApproveAWaitingCall(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	d.ask("one", "run echo approved >> ledger")
	d.ask("two", "run echo rejected >> ledger")
	d.ask("three", `call execute {"command":"echo third","timeout_seconds":7}`)
	s := serve(t, d.command("web", "--no-open"))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.waitText(".thread .state", "waiting for approval")

	p.click(".thread", "call execute")
	p.waitText(".approval .code", `"timeout_seconds":7`) // an argument beside the command is not hidden
	p.click(".thread", "run echo rejected")
	p.waitText(".approval .code", "echo rejected")
	p.shoot("waiting")
	p.keys("x")
	p.waitText("dialog h2", "Reject")
	p.click("dialog input", "")
	p.typing("not now")
	p.click("dialog footer button", "Reject")
	p.waitText("#toasts", "Rejected")
	p.waitNo(".approval", "echo rejected")

	p.click(".thread", "run echo approved")
	p.waitText(".approval .code", "echo approved")
	p.click(".approval button", "Approve")
	p.waitText("dialog .plan", "approve")
	p.click("dialog footer button", "Approve")
	p.waitNo(".approval", "echo approved")
	p.waitText("#toasts", "Approved")
	p.waitText("#toasts .command code", "--continue")

	// The command that the page shows does what remains, from any directory.
	var command string
	p.eval("document.querySelector('#toasts .command code').innerText", &command)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = t.TempDir(), d.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if got := d.read("ledger"); strings.TrimSpace(got) != "approved" {
		t.Errorf("after the approval the file is %q", got)
	}
}

// ask runs a chat until it asks a question.
func (d *demo) ask(session, prompt string) {
	d.Helper()
	out, err := d.command("chat", "--session", session, "-p", prompt).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 10 {
		d.Fatalf("the chat does not wait: %v\n%s", err, out)
	}
}
