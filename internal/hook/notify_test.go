package hook

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

// configs returns examples of users' settings, with the command that Codex calls.
func configs() map[string][]string {
	return map[string][]string{
		"":                          nil,
		"model = \"x\"\n":           nil,
		"\uFEFFmodel = 'x'\r\n":     nil,
		"notify = []\n[a]\nb = 1\n": nil,
		"# notify = [\"no\"]\n\n[tui]\nnotify = [\"no\"]":                                               nil,
		"instructions = \"\"\"\nnotify = [\"no\"]\n[table]\n\\\"\"\"\" # \"\nnotify=['a', \"b\\tc\"]":   {"a", "b\tc"},
		"a.b = { c = \"]\" }\n  \"notify\" = [ # why\n  \"sh\", # it's\n  '-c',\n\n]  # after\nx = 1.5": {"sh", "-c"},
		"x = '''\n'' ]\n'''\nd = 2026-11-22 07:32:00 # [\nnotify = [\"é\\u00e9\\\\\"]\r\n[x]\n":         {"éé\\"},
	}
}

// TestNotifySetting adds and removes the command in settings of users. Without other edits, the original settings
// return byte for byte, including the form of the user's own command.
func TestNotifySetting(t *testing.T) {
	self := []string{"/opt/it's \"segno\"", "--store", "/a\\b"}
	for before, own := range configs() {
		with, err := addNotify([]byte(before), self)
		if err != nil {
			t.Errorf("%q: %v", before, err)
			continue
		}
		s, err := findNotify(with)
		if err != nil || !slices.Equal(s.run, notifyOf(self, own)) {
			t.Errorf("%q became %q: it calls %q, %v", before, with, s.run, err)
		}
		again, err := addNotify(with, self)
		if err != nil || !bytes.Equal(again, with) {
			t.Errorf("%q: the second time it becomes %q, %v", with, again, err)
		}
		moved, err := addNotify(with, []string{"/new/segno"})
		if s, findErr := findNotify(moved); err != nil || findErr != nil || !slices.Equal(s.run, notifyOf([]string{"/new/segno"}, own)) {
			t.Errorf("after segno was moved %q calls %q, %v, %v", moved, s.run, err, findErr)
		}
		if got, err := removeNotify(with, []byte(before)); err != nil || string(got) != before {
			t.Errorf("removed %q, %v; want %q", got, err, before)
		}
		const added = "\n[added]\nx = 1\n"
		if got, err := removeNotify(append(with, added...), []byte(before)); err != nil || string(got) != before+added {
			t.Errorf("removed %q, %v; want %q", got, err, before+added)
		}
		without, err := removeNotify(with, nil) // without the backup
		if s, findErr := findNotify(without); err != nil || findErr != nil || !slices.Equal(s.run, own) {
			t.Errorf("without a backup %q calls %q, %v, %v", without, s.run, err, findErr)
		}
	}
}

// TestNotifySettingThatCannotBeEdited returns an error for settings that it cannot read for certain.
func TestNotifySettingThatCannotBeEdited(t *testing.T) {
	for _, config := range []string{"notify = \"sh\"", "notify = [1]", "notify = ['a' 'b']", "notify = ['a'", "notify = ['a']\nnotify = ['b']",
		"notify = ['''a''']", "notify = [\"\\q\"]", "notify", "= 1", "x = \"a\n", "x = \"\"\"a\n", "x = 'a' b\n", "notify = [['a']]", "notify = ['a',,]", "x = \""} {
		if got, err := addNotify([]byte(config), []string{"segno"}); err == nil {
			t.Errorf("%q became %q", config, got)
		}
		if got, err := removeNotify([]byte(config), nil); err == nil && string(got) != config {
			t.Errorf("%q became %q", config, got)
		}
	}
	if _, err := addNotify(nil, []string{"\xff"}); err == nil {
		t.Error("a path that is not UTF-8 was written")
	}
}

// FuzzNotifySetting edits any file. Either the file stays unchanged, or everything except the
// setting does.
func FuzzNotifySetting(f *testing.F) {
	for config := range configs() {
		f.Add([]byte(config))
	}
	self := []string{"segno"}
	f.Fuzz(func(t *testing.T, config []byte) {
		with, err := addNotify(config, self)
		if err != nil {
			return
		}
		before, err := findNotify(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, isOurs := notifiedBefore(before.run); isOurs {
			return
		}
		s, err := findNotify(with)
		if err != nil || !slices.Equal(s.run, notifyOf(self, before.run)) {
			t.Fatalf("%q became %q: it calls %q, %v", config, with, s.run, err)
		}
		if rest, err := removeNotify(with, config); err != nil || !bytes.Equal(rest, config) {
			t.Fatalf("%q became %q, then %q, %v", config, with, rest, err)
		}
	})
}

// TestNotifyIsEnabledWithTheHooks enables and disables hooks. In between, Codex changes its
// settings, as it does when the user trusts the hooks.
func TestNotifyIsEnabledWithTheHooks(t *testing.T) {
	const own, added = "notify = [ 'say', \"done\" ] # mine\nmodel = \"x\"\n", "\n[hooks.state.\"x\"]\ntrusted_hash = \"y\"\n"
	for _, c := range []struct {
		name, before, added, after string
		isExact                    bool
	}{
		{"own command", own, "", own, true},
		{"own command, edited", own, added, own + added, false},
		{"no file", "", "", "", true},
		{"no file, edited", "", added, added, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			place := local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"codex": filepath.Join(dir, "codex")}}
			config := filepath.Join(place.Homes["codex"], "config.toml")
			if c.before != "" {
				writeFile(t, config, c.before)
			}
			settings := agentNamed("codex").settingsFile(place, "")
			for range 2 {
				edit, err := PlanEnable(place, "codex", settings, []string{"/opt/segno"})
				if err == nil {
					err = edit.Apply(place, true)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			data, err := os.ReadFile(config)
			if err != nil || !strings.Contains(string(data), NotifyArg) {
				t.Fatalf("enabled: %q, %v", data, err)
			}
			writeFile(t, config, string(data)+c.added)
			edit, err := PlanDisable(place, "codex", settings)
			if err == nil {
				err = edit.Apply(place, false)
			}
			if err != nil || edit.Notify == nil || edit.Notify.Exact != c.isExact {
				t.Fatalf("disabled %+v, %v", edit.Notify, err)
			}
			data, err = os.ReadFile(config)
			if (c.after == "") != os.IsNotExist(err) {
				t.Error(err)
			}
			if diff := cmp.Diff(c.after, string(data)); diff != "" {
				t.Errorf("config.toml (-want +got):\n%s", diff)
			}
		})
	}
	project := agentNamed("codex").settingsFile(local.Place{Homes: local.Homes{"codex": "/home/.codex"}}, "/project")
	if edit, err := PlanEnable(local.Place{Store: t.TempDir(), Homes: local.Homes{"codex": t.TempDir()}}, "codex", project, []string{"/opt/segno"}); err != nil || edit.Notify != nil {
		t.Errorf("a project's hooks edit %+v, %v", edit.Notify, err)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNotifyFaults enables and disables on a disk that fails. Each file has its old or its intended content, and
// another attempt completes the work. No setting of the user is lost.
func TestNotifyFaults(t *testing.T) {
	const own = "notify = [ 'say' ]\n"
	edit := func(place local.Place, enable bool) error {
		plan := PlanDisable
		if enable {
			plan = func(p local.Place, agent, settings string) (Edit, error) {
				return PlanEnable(p, agent, settings, []string{"/opt/segno"})
			}
		}
		e, err := plan(place, "codex", agentNamed("codex").settingsFile(place, ""))
		if err != nil {
			return err
		}
		return e.Apply(place, enable)
	}
	run := func(failEnable, failDisable *faultfs.Faults) {
		dir := t.TempDir()
		place := local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"codex": filepath.Join(dir, "codex")}}
		config := filepath.Join(place.Homes["codex"], "config.toml")
		writeFile(t, config, own)
		for _, c := range []struct {
			faults *faultfs.Faults
			enable bool
		}{{failEnable, true}, {failDisable, false}} {
			failing := place
			failing.FS = c.faults.Wrap(vfs.OS)
			if err := edit(failing, c.enable); (err != nil) != c.faults.Fired() {
				t.Errorf("enable %v: %v, fired %v: %v", c.enable, err, c.faults.Fired(), c.faults.Trace())
			}
			data, err := os.ReadFile(config)
			if s, findErr := findNotify(data); err != nil || findErr != nil || len(s.run) == 0 || s.run[len(s.run)-1] != "say" {
				t.Errorf("config.toml is %q, %v, %v", data, err, findErr)
			}
			if err := edit(place, c.enable); err != nil {
				t.Errorf("again: %v", err)
			}
		}
		if data, err := os.ReadFile(config); err != nil || string(data) != own {
			t.Errorf("config.toml is %q, %v", data, err)
		}
		if _, err := os.Stat(agentNamed("codex").settingsFile(place, "")); !os.IsNotExist(err) {
			t.Errorf("hooks.json is still there: %v", err)
		}
	}
	none := func() *faultfs.Faults { return faultfs.FailAt(-1) }
	enable, disable := none(), none()
	run(enable, disable)
	for _, n := range faultfs.Sample(t, enable.Trace()) {
		run(faultfs.FailAt(n), none())
	}
	for _, n := range faultfs.Sample(t, disable.Trace()) {
		run(none(), faultfs.FailAt(n))
	}
}

// TestNotificationsThatAreNone passes arguments that Codex would not send. The user's command still
// runs, and only the log changes.
func TestNotificationsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	place := local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"codex": filepath.Join(dir, "codex")}, Now: time.Now}
	for i, text := range []string{"", "{", "[]", "null", `{"type":7}`, `{"type":"agent-turn-complete"}`, `{"type":"agent-turn-complete","thread-id":"../x","turn-id":"a"}`,
		`{"type":"agent-turn-complete","thread-id":"a","turn-id":"` + strings.Repeat("x", 64<<10) + `"}`, `{"type":"other","thread-id":"a","turn-id":"b"}`} {
		var out bytes.Buffer
		ran := filepath.Join(dir, fmt.Sprint("ran", i))
		e := Event{Place: place, Stdout: &out, Getenv: func(string) string { return "" }}
		Notify(t.Context(), []string{"sh", "-c", `echo >> "$0"`, ran, text}, e)
		Notify(t.Context(), []string{filepath.Join(dir, "missing"), text}, e)
		for _, err := os.Stat(ran); err != nil; _, err = os.Stat(ran) { // the command outlives the call
			runtime.Gosched()
		}
		if out.Len() > 0 || place.Exists() {
			t.Errorf("%q: printed %q, made a store: %v", text, out.String(), place.Exists())
		}
	}
	Notify(t.Context(), nil, Event{Place: place})
}
