package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAStoreOfAnotherUserIsNotUsed makes stores that belong to another user, which only root can
// do. Commands refuse them. Hooks report this once and touch nothing in the store.
func TestAStoreOfAnotherUserIsNotUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can give a directory away")
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const theirs = 12345
	store, project := filepath.Join(dir, "store"), filepath.Join(dir, "project")
	for _, d := range []string{store, project, filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(store, theirs, theirs); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(project, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, theirs, theirs); err != nil {
		t.Fatal(err)
	}
	for _, planted := range []string{store, link} {
		run := func(input, name string, args ...string) (string, int) {
			cmd := exec.CommandContext(t.Context(), name, append([]string{"--store", planted}, args...)...)
			cmd.Dir, cmd.Stdin = project, strings.NewReader(input)
			cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "TMPDIR="+filepath.Join(dir, "tmp"))
			out, err := cmd.CombinedOutput()
			if err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			return string(out), cmd.ProcessState.ExitCode()
		}
		for _, verb := range [][]string{{"log"}, {"save"}, {"enable", "claude", "-y"}, {"doctor"}} {
			if out, code := run("", "segno", verb...); code != 5 || !strings.Contains(out, "another user") {
				t.Errorf("%s on %s: exit %d: %s", verb, planted, code, out)
			}
		}
		for i, event := range []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"} {
			payload := `{"hook_event_name":"` + event + `","session_id":"s","prompt_id":"p","prompt":"hi","cwd":"` + project + `"}`
			out, code := run(payload, "segno", "hook", "claude")
			if said := strings.Contains(out, "belongs to another user"); code != 0 || said != (i == 0) {
				t.Errorf("%s on %s: exit %d: %s", event, planted, code, out)
			}
			if out, code := run(payload, "segno-hook", "hook", "claude"); event == "PreToolUse" && (code != 0 || out != "") {
				t.Errorf("segno-hook on %s: exit %d: %s", planted, code, out)
			}
		}
		if files, err := os.ReadDir(planted); err != nil || len(files) > 0 {
			t.Errorf("%s holds %v, %v", planted, files, err)
		}
	}
}
