package hook

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// claudeHome is a user with settings of Claude Code.
type claudeHome struct {
	t     *testing.T
	place local.Place
	file  string // the settings
}

func newClaudeHome(t *testing.T, settings string, mode os.FileMode) *claudeHome {
	t.Helper()
	dir := t.TempDir()
	h := &claudeHome{t: t, place: local.Place{Store: filepath.Join(dir, "store"), Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")}}}
	h.file = agentNamed("claude").settingsFile(h.place, "")
	h.write(h.file, settings)
	if err := os.Chmod(h.file, mode); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *claudeHome) write(name, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *claudeHome) read(name string) string {
	h.t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

// plan plans to enable the hooks, or to disable them.
func (h *claudeHome) plan(enable bool) Edit {
	h.t.Helper()
	edit, err := PlanDisable(h.place, "claude", h.file)
	if enable {
		edit, err = PlanEnable(h.place, "claude", h.file, []string{"/opt/segno"})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return edit
}

func (h *claudeHome) apply(edit Edit, enable bool) {
	h.t.Helper()
	if err := edit.Apply(h.place, enable); err != nil {
		h.t.Fatal(err)
	}
}

// TestSettingsKeepTheirMode enables and disables with a umask that would take permissions away.
func TestSettingsKeepTheirMode(t *testing.T) {
	before := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(before) })
	for _, mode := range []os.FileMode{0o664, 0o644, 0o600, 0o444} {
		h := newClaudeHome(t, `{"model": "x"}`, mode)
		for _, enable := range []bool{true, false} {
			h.apply(h.plan(enable), enable)
			fi, err := os.Stat(h.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := fi.Mode().Perm(); got != mode {
				t.Errorf("settings with the mode %o have the mode %o; enable is %t", mode, got, enable)
			}
		}
	}
}

// TestSettingsKeepTheirOwner enables as root, as sudo does with the home of the user.
func TestSettingsKeepTheirOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root may give files to other users
	}
	const user, group = 4242, 4343
	h := newClaudeHome(t, `{"model": "x"}`, 0o600)
	if err := os.Chown(h.file, user, group); err != nil {
		t.Fatal(err)
	}
	h.apply(h.plan(true), true)
	fi, err := os.Stat(h.file)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Uid != user || st.Gid != group || fi.Mode().Perm() != 0o600 {
		t.Errorf("the settings of the user %d have the owner %d:%d and the mode %o", user, st.Uid, st.Gid, fi.Mode().Perm())
	}
}

// TestSettingsThatChangedMeanwhileAreNotOverwritten changes the settings between the plan and the edit, as an agent does
// when its user allows a command.
func TestSettingsThatChangedMeanwhileAreNotOverwritten(t *testing.T) {
	for _, enable := range []bool{true, false} {
		h := newClaudeHome(t, `{"model": "x"}`, 0o600)
		if !enable {
			h.apply(h.plan(true), true)
		}
		edit := h.plan(enable)
		meanwhile := strings.Replace(h.read(h.file), `"x"`, `"y"`, 1)
		h.write(h.file, meanwhile)
		if err := edit.Apply(h.place, enable); segno.KindOf(err) != segno.KindConflict {
			t.Errorf("enable is %t: %v", enable, err)
		}
		if got := h.read(h.file); got != meanwhile {
			t.Errorf("enable is %t: the settings %s became %s", enable, meanwhile, got)
		}
		h.apply(h.plan(enable), enable)
		if got := h.read(h.file); !strings.Contains(got, `"y"`) || strings.Contains(got, "/opt/segno") != enable {
			t.Errorf("enable is %t: after the second attempt the settings are %s", enable, got)
		}
	}
}

// TestALinkInALinkedDirectory enables hooks in settings that are a relative link, in a home that is a link, too. The
// kernel, and so the agent, follows the relative link from the real directory.
func TestALinkInALinkedDirectory(t *testing.T) {
	h := newClaudeHome(t, `{"model": "x"}`, 0o600)
	home := filepath.Dir(h.file)
	root := filepath.Dir(filepath.Dir(home))
	dotfiles, shared := filepath.Join(root, "dotfiles", "claude"), filepath.Join(root, "dotfiles", "shared.json")
	h.write(shared, `{"model": "x"}`)
	for _, err := range []error{
		os.RemoveAll(home), os.MkdirAll(dotfiles, 0o700), os.Symlink(dotfiles, home),
		os.Symlink(filepath.Join("..", "shared.json"), filepath.Join(dotfiles, "settings.json")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.apply(h.plan(true), true)
	if got := h.read(h.file); !strings.Contains(got, "/opt/segno") || !strings.Contains(got, `"model"`) {
		t.Errorf("the agent reads the settings %s", got)
	}
	if got, err := os.Readlink(h.file); err != nil || got != filepath.Join("..", "shared.json") {
		t.Errorf("the link became %q, %v", got, err)
	}
	h.apply(h.plan(false), false)
	if got := h.read(shared); got != `{"model": "x"}` {
		t.Errorf("after disable the settings are %s", got)
	}
}

// TestAUsersHookInTheGroupOfSegno adds a command to a group that segno wrote, as Claude Code's /hooks does for the same
// event and matcher.
func TestAUsersHookInTheGroupOfSegno(t *testing.T) {
	const own = `{"type":"command","command":"say done","note":"<mine>"}`
	a := agentNamed("claude")
	merged, err := a.addHooks(nil, both)
	if err != nil {
		t.Fatal(err)
	}
	top, hooks, err := openSettings(merged)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hooks {
		g, err := groupsOf(h.value)
		if err != nil || len(g) != 1 {
			t.Fatal(g, err)
		}
		o, err := readObject(g[0])
		if err != nil {
			t.Fatal(err)
		}
		list := strings.TrimSuffix(strings.TrimSpace(string(o.get("hooks"))), "]")
		o = o.set("hooks", []byte(list+","+own+"]"))
		hooks[i].value = []byte("[" + string(o.text()) + "]")
	}
	with, err := closeSettings(top, hooks, "  ")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Hooks.Registrations {
		if run, err := a.installed(with, r.Event); err != nil || run == nil {
			t.Errorf("%s runs segno, but segno finds %v, %v", r.Event, run, err)
		}
	}
	events := len(a.Hooks.Registrations)
	again, err := a.addHooks(with, both)
	if err != nil {
		t.Fatal(err)
	}
	if segnos, users := strings.Count(string(again), `"/opt/segno`), strings.Count(string(again), "<mine>"); segnos != events || users != events {
		t.Errorf("after enabling again, %d events run segno %d times and the user's command %d times", events, segnos, users)
	}
	for _, settings := range [][]byte{with, again} {
		rest, err := a.removeHooks(settings)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rest), "/opt/segno") || strings.Count(squeezed(rest), own) != events {
			t.Errorf("after disable the settings are\n%s", rest)
		}
	}
}

// TestSettingsThatAreADevice links settings to /dev/null, as users do to have none. As root, enable would replace the device.
func TestSettingsThatAreADevice(t *testing.T) {
	h := newClaudeHome(t, "", 0o600)
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.DevNull, h.file); err != nil {
		t.Fatal(err)
	}
	if edit, err := PlanEnable(h.place, "claude", h.file, []string{"/opt/segno"}); segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
		t.Errorf("enable would write %s: %v", edit.File, err)
	}
	if edit, err := PlanDisable(h.place, "claude", h.file); err != nil || edit.Changed() {
		t.Errorf("disable would write %s: %v", edit.File, err)
	}
	if p := ProbeHooks(t.Context(), h.place, "claude", h.file, h.place.Store, nil); p.Error != "" || p.Command != nil {
		t.Errorf("settings without hooks of segno are %+v", p)
	}
}
