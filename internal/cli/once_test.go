package cli_test

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/testing/agentrig"
)

// printed returns the output of a chat with one prompt, to a pipe and to a terminal.
func printed(t *testing.T, rig *agentrig.Rig, args ...string) (pipe, screen string) {
	t.Helper()
	command := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), rig.Bin, append([]string{"chat", "--session", "s"}, args...)...)
		cmd.Dir, cmd.Env = rig.Project, rig.Env()
		return cmd
	}
	out, err := command().Output()
	if err != nil {
		t.Fatal(err)
	}
	tty, err := pty.Start(command())
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, tty) // fails when the terminal closes
	return string(out), strings.ReplaceAll(shown.String(), "\r\n", "\n")
}

// TestWhatIsPrintedIsSafeAndWhole prints text that could control a terminal, and text that only
// resembles it: scripts and emoji with joiners.
func TestWhatIsPrintedIsSafeAndWhole(t *testing.T) {
	t.Parallel()
	rig := chatRig(t)
	const family, verb = "👨\u200d👩\u200d👧", "می\u200cخواهم"
	for _, x := range []struct{ say, screen string }{
		{"all:\tgo build", "all:    go build"},
		{family + " " + verb, family + " " + verb},
		{"a\u009b31mb\u202ec\u200bd", `a\x9b31mb\u202ec\u200bd`},
	} {
		pipe, screen := printed(t, rig, "-p", "say "+x.say)
		if pipe != x.say+"\n" {
			t.Errorf("a pipe gets %q of %q", pipe, x.say)
		}
		if !strings.HasSuffix(screen, x.screen+"\n") {
			t.Errorf("a terminal shows %q of %q", screen, x.say)
		}
		pipe, _ = printed(t, rig, "--json", "-p", "say "+x.say)
		if i := strings.IndexFunc(pipe, func(r rune) bool { return r != '\n' && printable.IsUnsafe(r) }); i >= 0 {
			t.Errorf("the events have %q", pipe[i:min(len(pipe), i+20)])
		}
	}
	if pipe, _ := printed(t, rig, "--json", "-p", "say a\u009b\u202e"); !strings.Contains(pipe, `"text":"a\u009b\u202e"`) {
		t.Errorf("the text is not in the events: %s", pipe)
	}
	if got := cli.CleanLines("one\r\ntwo\rthree"); got != "one\ntwo\\x0dthree" {
		t.Errorf("lines of another system are shown as %q", got)
	}
}

// TestWordsForAShell checks that a shell reads a printed word as the original word.
func TestWordsForAShell(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"plain", "two words", "it's", "evil\x1b[31mred\nnl", "a\\b\x07'c", "\xff\u202eü1", "\uFFFD", "日本"} {
		quoted := cli.ShellQuote(word)
		if strings.ContainsFunc(quoted, printable.IsUnsafe) {
			t.Errorf("%q is printed as %q", word, quoted)
		}
		out, err := exec.CommandContext(t.Context(), shell, "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is read as %q, %v: %s", word, out, err, quoted)
		}
	}
}

// TestSessionsAreWhatAChatCanGoOnWith checks that /sessions does not list the sessions of an
// editor.
func TestSessionsAreWhatAChatCanGoOnWith(t *testing.T) {
	e := newEditor(t, "acp", "--", "segno", "agent")
	e.say(e.open("new", ""), "say hi")
	e.segno("-C", e.rig.Home, "chat", "--session", "mine", "-p", "say hi")
	listed := e.segno("-C", e.rig.Home, "chat", "-p", "/sessions")
	if strings.Count(listed, " ago ") != 1 || !strings.Contains(listed, "mine") {
		t.Errorf("the sessions are\n%s", listed)
	}
}
