package hook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestPlugin enables OpenCode twice and disables it. Only segno's own plugin file is replaced or
// removed.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	place := local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"opencode": filepath.Join(dir, "opencode")}}
	file := agentNamed("opencode").settingsFile(place, "")
	self := []string{"/opt/it's \"segno\"", "--store", "/a\nb\\"}
	apply := func(enable bool) error {
		t.Helper()
		plan := func() (Edit, error) { return PlanDisable(place, "opencode", file) }
		if enable {
			plan = func() (Edit, error) { return PlanEnable(place, "opencode", file, self) }
		}
		edit, err := plan()
		if err == nil {
			err = edit.Apply(place, enable)
		}
		return err
	}
	for _, edited := range []bool{false, true} {
		for range 2 {
			if err := apply(true); err != nil {
				t.Fatal(err)
			}
		}
		plugin, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range agentNamed("opencode").Hooks.Registrations {
			run, err := agentNamed("opencode").installed(plugin, r.Event)
			if diff := cmp.Diff(append(self[:3:3], "hook", "opencode"), run); err != nil || diff != "" {
				t.Errorf("%s: %v %s", r.Event, err, diff)
			}
		}
		if edited {
			if err := os.WriteFile(file, append(plugin, "// mine\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := apply(false); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("disable left the plugin: %v", err)
		}
	}

	for _, other := range []string{"", "export const Mine = async () => ({})\n", "const commands = {\"tool\":[\"x\"],\"rest\":[\"x\"]}\n"} {
		if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := apply(true); segno.KindOf(err) != segno.KindCorrupt || segno.HintOf(err) == "" {
			t.Errorf("enable over %q: %v", other, err)
		}
		if err := apply(false); err != nil {
			t.Error(err)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != other {
			t.Errorf("%q became %q, %v", other, data, err)
		}
	}
}

// TestGeminiSettings checks the registered hooks: Gemini CLI's names of events, timeouts in
// milliseconds, and the name that it shows.
func TestGeminiSettings(t *testing.T) {
	before := "{\n  \"ui\": {\"theme\": \"x\"},\n  \"hooks\": {\"AfterAgent\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"true\"}]}]}\n}\n"
	run := agentNamed("gemini").commandsFor([]string{"/opt/segno"})
	merged, err := agentNamed("gemini").addHooks([]byte(before), run)
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Name, Command string
				Timeout       int
			}
		}
	}
	if err := json.Unmarshal(merged, &settings); err != nil {
		t.Fatal(err)
	}
	for _, r := range agentNamed("gemini").Hooks.Registrations {
		groups := settings.Hooks[r.Event]
		got := groups[len(groups)-1].Hooks[0]
		if got.Name != "segno" || got.Command != "'/opt/segno' 'hook' 'gemini'" || got.Timeout != r.Timeout*1000 {
			t.Errorf("%s runs %+v", r.Event, got)
		}
		if limit := agentNamed("gemini").deadline(agentNamed("gemini").Hooks.NameOf(r.Event)); limit.Milliseconds() >= int64(got.Timeout) || limit <= 0 {
			t.Errorf("%s may take %s of %d ms", r.Event, limit, got.Timeout)
		}
	}
	if len(settings.Hooks["AfterAgent"]) != 2 {
		t.Errorf("the user's hook is lost: %s", merged)
	}
	rest, err := agentNamed("gemini").removeHooks(merged)
	if err != nil || squeezed(rest) != squeezed([]byte(before)) {
		t.Errorf("removed: %v\n%s", err, rest)
	}
	if _, err := agentNamed("gemini").addHooks([]byte("{\n  // mine\n}"), run); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("settings with a comment: %v", err)
	}
}

// TestToolsOfOpenCodeFormat lets a tool of OpenCode edit a file and then run a formatter on it, before the hook after the call. An undo
// reverts both, and lists the file apart.
func TestToolsOfOpenCodeFormat(t *testing.T) {
	c := newScene(t, map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n", "yours": "0"})
	send := func(name string, more map[string]any) {
		t.Helper()
		c.runHook("opencode", map[string]any{"hook_event_name": name, "session_id": "ses_1", "prompt_id": "msg_1", "cwd": c.project}, more)
		c.waitForClock()
	}
	send("UserPromptSubmit", map[string]any{"prompt": "one"})
	call := map[string]any{"tool_name": "edit", "tool_use_id": "call_1",
		"tool_input": map[string]any{"filePath": filepath.Join(c.project, "a"), "oldString": "6", "newString": "six"}}
	send("PreToolUse", call)
	c.write("a", "1\ntwo\n3\n4\n5\nsix\n7\n")
	c.waitForClock()
	call["tool_response"] = map[string]any{"output": "Edit applied successfully."}
	send("PostToolUse", call)
	c.write("yours", "1")
	c.waitForClock()
	send("Stop", nil)
	moved, err := c.moves(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := moved.Plan.Unnamed; !slices.Equal(got, []string{"a"}) {
		t.Errorf("the plan lists %q apart", got)
	}
	c.wantFiles("a=1\n2\n3\n4\n5\n6\n7\n yours=1")
}
