package hook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var self = []string{"/opt/segno", "--store", "/a <&> b", "hook", "claude"}

var both = hookCommands{rest: self, tool: []string{"/opt/segno-hook", "--store", "/a <&> b", "hook", "claude"}}

func TestMergeKeepsWhatIsNotOurs(t *testing.T) {
	before := "{\n\t\"z\": 1e3,\n\t\"hooks\": {\n\t\t\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say <done> && exit\"}]}]\n\t},\n\t\"a\": [\"<&>\"]\n}\n"
	merged, err := agentNamed("claude").addHooks([]byte(before), both)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"z": 1e3`, `say <done> && exit`, `"<&>"`, "\n\t\"a\"", `/a <&> b`} {
		if !bytes.Contains(merged, []byte(want)) {
			t.Errorf("%s is lost:\n%s", want, merged)
		}
	}
	for _, r := range agentNamed("claude").Hooks.Registrations {
		run, err := agentNamed("claude").installed(merged, r.Event)
		if diff := cmp.Diff(both.of(r.Event), run); err != nil || diff != "" {
			t.Errorf("%s: %v %s", r.Event, err, diff)
		}
	}
	if bytes.Contains(merged, []byte("WorktreeCreate")) || bytes.Contains(merged, []byte(`"async"`)) {
		t.Errorf("what must never be registered is:\n%s", merged)
	}
	again, err := agentNamed("claude").addHooks(merged, both)
	if err != nil || !bytes.Equal(merged, again) {
		t.Errorf("merging twice changes it: %v\n%s", err, again)
	}
	stripped, err := agentNamed("claude").removeHooks(merged)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decoded(t, []byte(before)), decoded(t, stripped)); diff != "" {
		t.Errorf("strip left a difference (-before +after):\n%s", diff)
	}
}

// TestMergeDropsAnEventOfAnEarlierSegno enables again after an upgrade.
func TestMergeDropsAnEventOfAnEarlierSegno(t *testing.T) {
	merged, err := agentNamed("claude").addHooks(nil, both)
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Replace(merged, []byte(`"SessionEnd"`), []byte(`"PreCompact"`), 1)
	if bytes.Equal(old, merged) {
		t.Fatal("the settings register no SessionEnd")
	}
	again, err := agentNamed("claude").addHooks(old, both)
	if err != nil || bytes.Contains(again, []byte("PreCompact")) || !bytes.Contains(again, []byte(`"SessionEnd"`)) {
		t.Errorf("merging over an earlier segno's hooks: %v\n%s", err, again)
	}
}

func decoded(t testing.TB, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSettingsThatCannotBeReadAreNotEdited(t *testing.T) {
	for _, bad := range []string{"[1]", "{", `{"hooks": []}`, `{"hooks": {"Stop": {}}}`, "null"} {
		if out, err := agentNamed("claude").addHooks([]byte(bad), both); err == nil {
			t.Errorf("%s became %s", bad, out)
		}
	}
}

// TestAmbiguousSettingsAreNotEdited checks that settings are refused if an edit would change more
// than segno's entries, or if their meaning is ambiguous.
func TestAmbiguousSettingsAreNotEdited(t *testing.T) {
	for _, bad := range []string{
		`{"a": 1, "a": 2}`, `{"hooks": {}, "hooks": {}}`, `{"hooks": {"Stop": [], "Stop": []}}`,
		`{"env": {"A": "1", "A": "2"}}`, `{"x": [{"deep": [{"a": {}, "a": 1}]}]}`, `{"hooks": {"Stop": [{"hooks": [], "hooks": []}]}}`,
		`{} {}`, `{}x`, "{}\n// a comment", `{"a": 1} ]`,
		`{"\u0061": 1}`, `{"a\/b": 1}`, `{"hooks": {"St\u006fp": []}}`, "{\"a\xff\": 1}", "{\"\u2028\": 1}",
	} {
		if out, err := agentNamed("claude").addHooks([]byte(bad), both); err == nil {
			t.Errorf("%s became %s", bad, out)
		}
		if out, err := agentNamed("claude").removeHooks([]byte(bad)); err == nil {
			t.Errorf("%s was stripped to %s", bad, out)
		}
	}
	for _, good := range []string{`{"a": "\u0061 \/", "b": ["a", "a"], "c": {"a": {"a": "a"}, "b": ["a", {"a": 1}]}}`, "{\"\u00e9\": {}, \"e\": \"e\"}\n\n", `{"<&>": 1, "\"q\"": 2, "": 3}`} {
		merged, err := agentNamed("claude").addHooks([]byte(good), both)
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		stripped, err := agentNamed("claude").removeHooks(merged)
		if err != nil {
			t.Errorf("%s: %v", good, err)
		}
		if got, want := squeezed(stripped), squeezed([]byte(good)); got != want {
			t.Errorf("%s came back as %s", want, got)
		}
	}
}

// squeezed returns JSON without white space. Strings keep their bytes.
func squeezed(data []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return err.Error()
	}
	return b.String()
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"a": {"b": 1}, "hooks": {"Stop": [{"matcher": "x", "hooks": []}, {}]}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"hooks":{"PreToolUse":[{"hooks":[{"command":"x","args":["hook","claude"]}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		merged, err := agentNamed("claude").addHooks(data, both)
		if err != nil {
			return
		}
		if run, err := agentNamed("claude").installed(merged, "Stop"); err != nil || !cmp.Equal(run, self) {
			t.Fatalf("merged, Stop runs %v, %v", run, err)
		}
		stripped, err := agentNamed("claude").removeHooks(merged)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stripped), "/opt/segno") && !strings.Contains(string(data), "/opt/segno") {
			t.Fatalf("a hook of ours is left:\n%s", stripped)
		}
	})
}

// TestOtherSettingsInHooks has members of "hooks" that are no events, as Gemini CLI had them before it moved them to hooksConfig.
func TestOtherSettingsInHooks(t *testing.T) {
	const before = `{"hooks": {"enabled": true, "disabled": ["mine"], "notifications": null, "AfterAgent": [{"hooks": [{"type": "command", "command": "true"}]}]}}`
	a := agentNamed("gemini")
	merged, err := a.addHooks([]byte(before), a.commandsFor([]string{"/opt/segno"}))
	if err != nil {
		t.Fatal(err)
	}
	if run, err := a.installed(merged, "AfterAgent"); err != nil || run == nil {
		t.Errorf("AfterAgent runs %v, %v", run, err)
	}
	rest, err := a.removeHooks(merged)
	if err != nil || squeezed(rest) != squeezed([]byte(before)) {
		t.Errorf("the settings became %s, %v", rest, err)
	}
}

// TestAHookOfSegnoWithOtherValues removes hooks in which the user changed values other than the command.
func TestAHookOfSegnoWithOtherValues(t *testing.T) {
	a := agentNamed("claude")
	for _, change := range []string{`"timeout": 7.5`, `"timeout": "60"`, `"timeout": 5, "async": true`} {
		merged, err := a.addHooks(nil, both)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.ReplaceAll(merged, []byte(`"timeout": 5`), []byte(change))
		if bytes.Equal(changed, merged) {
			t.Fatal("no hook has that timeout")
		}
		rest, err := a.removeHooks(changed)
		if err != nil || bytes.Contains(rest, []byte("/opt/segno")) {
			t.Errorf("%s: %v\n%s", change, err, rest)
		}
	}
}
