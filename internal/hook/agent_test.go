package hook

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// agentNamed returns an agent of the list.
func agentNamed(name string) agent {
	a, err := agentOf(name)
	if err != nil {
		panic(err)
	}
	return a
}

// TestAnUnknownAgentIsAnError uses names that no agent has. None of them means another agent.
func TestAnUnknownAgentIsAnError(t *testing.T) {
	dir := t.TempDir()
	place := local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"claude": filepath.Join(dir, "claude")}}
	for _, name := range []string{"", "cursor", "Claude", "segno"} { // segno's own agent has no hooks
		if file, err := SettingsFile(place, name, dir); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("the settings of %q are %q, error %v", name, file, err)
		}
		if edit, err := PlanEnable(place, name, filepath.Join(dir, "settings"), []string{"/opt/segno"}); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("enabling %q edits %q, error %v", name, edit.File, err)
		}
		if _, err := PlanDisable(place, name, filepath.Join(dir, "settings")); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("disabling %q: error %v", name, err)
		}
		if p := ProbeHooks(t.Context(), place, name, filepath.Join(dir, "settings"), dir, nil); !strings.Contains(p.Error, "unknown agent") {
			t.Errorf("the hooks of %q: %q", name, p.Error)
		}
		if _, ok := InstalledSince(place, name, dir); ok {
			t.Errorf("%q has hooks", name)
		}
	}
}

// TestShellLine lets a shell split the line of a command. The result is the registered words.
func TestShellLine(t *testing.T) {
	for _, words := range [][]string{
		{"/opt/segno", "hook", "codex"},
		{"/a b/it's", "--store", "$HOME `x` \"q\" \\ ''", "hook", "codex"},
		{"'", "''", "", "\n", "é <&>"},
	} {
		line := shellLine(words)
		out, err := exec.Command("sh", "-c", "set -- "+line+`; for w in "$@"; do printf '%s\0' "$w"; done`).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if diff := cmp.Diff(words, got); diff != "" {
			t.Errorf("a shell reads %s as (-want +got):\n%s", line, diff)
		}
		if diff := cmp.Diff(words, shellWords(line)); diff != "" {
			t.Errorf("shellWords reads %s as (-want +got):\n%s", line, diff)
		}
	}
	for _, other := range []string{"", "segno hook codex", "'segno' hook codex", "'a'  'b'", "'a", "'a' ", "'a'; rm 'b'", `'a'\''`, `'a'\'`} {
		if got := shellWords(other); got != nil {
			t.Errorf("%q was not written by shellLine, but is read as %q", other, got)
		}
	}
}

// TestCodexKeepsOtherHooks adds and removes hooks beside similar hooks of the user.
func TestCodexKeepsOtherHooks(t *testing.T) {
	before := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "segno hook codex; true"}]}, {"hooks": [{"type": "command", "command": "'/opt/segno' 'hook' 'claude'"}]}]}}`
	run := codexAgent().commandsFor([]string{"/opt/it's segno"})
	merged, err := codexAgent().addHooks([]byte(before), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range codexAgent().Hooks.Registrations {
		got, err := codexAgent().installed(merged, r.Event)
		if diff := cmp.Diff(run.of(r.Event), got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", r.Event, err, diff)
		}
	}
	if bytes.Contains(merged, []byte(`"args"`)) {
		t.Errorf("Codex takes no arguments:\n%s", merged)
	}
	again, err := codexAgent().addHooks(merged, run)
	if err != nil || !bytes.Equal(again, merged) {
		t.Errorf("the second time changes it: %v\n%s", err, again)
	}
	rest, err := codexAgent().removeHooks(merged)
	if err != nil || squeezed(rest) != squeezed([]byte(before)) {
		t.Errorf("removed: %v\n%s", err, rest)
	}
}

// TestCodexSettings enables and disables hooks. The original file returns byte for byte. If there
// was none, the file is removed.
func TestCodexSettings(t *testing.T) {
	dir := t.TempDir()
	place := local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"codex": filepath.Join(dir, "codex")}}
	file := agentNamed("codex").settingsFile(place, "")
	for _, before := range []string{"", "{}", "{\"hooks\":{\"Stop\":[ ]},\n\n\"x\":1}"} {
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			edit, err := PlanEnable(place, "codex", file, []string{"/opt/segno", "--store", "/a b"})
			if err == nil {
				err = edit.Apply(place, true)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		edit, err := PlanDisable(place, "codex", file)
		if err == nil {
			err = edit.Apply(place, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(file)
		if (before == "") != os.IsNotExist(err) || string(after) != before {
			t.Errorf("%q became %q, %v", before, after, err)
		}
	}
}

func TestReadHooks(t *testing.T) {
	const listed = `{"id":1,"result":{"userAgent":"x"}}
{"method":"configWarning","params":{"details":null}}
{"id":2,"result":{"data":[{"cwd":"/p","hooks":[{"eventName":"stop","command":"c","sourcePath":"/h","enabled":true,"trustStatus":"modified"}]}]}}`
	got, err := readHooks(strings.NewReader(listed))
	if err != nil || len(got) != 1 || got[0].isRun() || got[0].Event != "stop" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := readHooks(strings.NewReader(`{"error":{"code":-32600,"message":"Invalid request: unknown variant ` + "`hooks/list`" + `"},"id":2}`)); err != nil || got != nil {
		t.Errorf("a version without a review: %v, %v", got, err)
	}
	for _, bad := range []string{"", "x", `{"id":1}`, `{"id":2,"error":{"message":"no"}}`, `{"id":2,"result":7}`} {
		if got, err := readHooks(strings.NewReader(bad)); err == nil {
			t.Errorf("%s is read as %v", bad, got)
		}
	}
}
