// Package agentrig runs the real Claude Code in tests, against a model server on
// this machine, because segno's guarantees about sessions depend on the behaviour
// of that program.
//
// A [Rig] has a separate home, configuration and project, and an environment
// without the caller's variables. It runs the agent in three ways: [Rig.Print]
// (claude -p), [Rig.Stream] (one long process that reads JSON lines) and [Rig.TUI]
// (the terminal program under a pty). Every wait is for an event and ends with its
// context. Nothing sleeps.
package agentrig

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// dummyKey has the form of a key and is not valid anywhere. The agent sends it to the model
// server and refers to it by its last 20 characters.
const dummyKey = "sk-ant-api03-not-a-key-00000000000000000000"

// Rig is one isolated installation of the agent. Change its fields only while
// none of its processes runs.
type Rig struct {
	Bin      string // the agent: see [Install]
	ModelURL string // the model's server
	Home     string // $HOME
	Config   string // $CLAUDE_CONFIG_DIR
	Project  string // its working directory; a real path

	// Flags are given to every process, before the caller's own.
	Flags []string
	// Path is put before the system's directories in $PATH.
	Path []string
	// Vars are set last and may replace variables that the rig sets. An empty value unsets
	// the variable.
	Vars map[string]string
}

// New makes a home, a configuration directory and a project under dir. It answers every
// question of a first start, and turns permission checks off.
func New(dir, bin, modelURL string) (*Rig, error) {
	dir, err := filepath.EvalSymlinks(dir) // the agent names sessions by the real path
	if err != nil {
		return nil, fmt.Errorf("agentrig: resolving %s: %w", dir, err)
	}
	r := &Rig{
		Bin:      bin,
		ModelURL: modelURL,
		Home:     filepath.Join(dir, "home"),
		Config:   filepath.Join(dir, "home", ".claude"),
		Project:  filepath.Join(dir, "project"),
		Flags:    []string{"--dangerously-skip-permissions"},
		Vars:     map[string]string{},
	}
	for _, d := range []string{r.Config, r.Project, r.tmp()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("agentrig: making the rig: %w", err)
		}
	}
	if err := r.WriteSettings(map[string]any{}); err != nil {
		return nil, err
	}
	return r, r.trust()
}

// In returns a rig with the same home that starts the agent in project, which
// must exist.
func (r *Rig) In(project string) (*Rig, error) {
	real, err := filepath.EvalSymlinks(project)
	if err != nil {
		return nil, fmt.Errorf("agentrig: resolving the project: %w", err)
	}
	other := *r
	other.Project = real
	other.Flags, other.Path, other.Vars = slices.Clone(r.Flags), slices.Clone(r.Path), maps.Clone(r.Vars)
	return &other, other.trust()
}

// WriteSettings writes the user's settings.json: hooks, permissions and so on.
func (r *Rig) WriteSettings(settings map[string]any) error {
	return writeJSON(filepath.Join(r.Config, "settings.json"), settings)
}

// CompactSoon makes the agent's next processes compact their conversation automatically, at
// the first model call after it has a few thousand tokens.
func (r *Rig) CompactSoon() {
	r.Vars["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = "100000" // the smallest value that the agent accepts
	r.Vars["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"] = "10"
}

// Hook returns an entry of settings.json that runs command on the named events, with args
// and without a shell.
func Hook(events []string, command string, args ...string) map[string]any {
	entry := map[string]any{"type": "command", "command": command, "timeout": 30}
	if len(args) > 0 {
		entry["args"] = args
	}
	hooks := map[string]any{}
	for _, e := range events {
		hooks[e] = []any{map[string]any{"matcher": "*", "hooks": []any{entry}}}
	}
	return map[string]any{"hooks": hooks}
}

// Transcript returns the file of a session. It searches the directories of all projects.
func (r *Rig) Transcript(session string) (string, error) {
	found, err := filepath.Glob(filepath.Join(r.Config, "projects", "*", session+".jsonl"))
	if err != nil {
		return "", fmt.Errorf("agentrig: looking for the transcript of %s: %w", session, err)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("agentrig: looking for the transcript of %s: %d files", session, len(found))
	}
	return found[0], nil
}

// Env returns the whole environment of the agent's processes.
func (r *Rig) Env() []string {
	path := ""
	for _, d := range append(slices.Clone(r.Path), "/usr/local/bin", "/usr/bin", "/bin") {
		path += d + string(os.PathListSeparator)
	}
	vars := map[string]string{
		"PATH":                    path[:len(path)-1],
		"HOME":                    r.Home,
		"CLAUDE_CONFIG_DIR":       r.Config,
		"TMPDIR":                  r.tmp(),
		"CLAUDE_CODE_TMPDIR":      r.tmp(),
		"LANG":                    "C.UTF-8",
		"TERM":                    "xterm-256color",
		"SHELL":                   "/bin/bash",
		"ANTHROPIC_API_KEY":       dummyKey,
		"ANTHROPIC_BASE_URL":      r.ModelURL,
		"DISABLE_TELEMETRY":       "1",
		"DISABLE_AUTOUPDATER":     "1",
		"DISABLE_ERROR_REPORTING": "1",
		"CLAUDE_CODE_MAX_RETRIES": "2",
		"IS_SANDBOX":              "1", // needed by root to turn permission checks off
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
	}
	maps.Copy(vars, r.Vars)
	var env []string
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if vars[k] != "" {
			env = append(env, k+"="+vars[k])
		}
	}
	return env
}

func (r *Rig) tmp() string { return filepath.Join(filepath.Dir(r.Home), "tmp") }

// trust writes answers into the agent's state file: to the questions of its first start, and to
// those of its first start in a directory.
func (r *Rig) trust() error {
	file := filepath.Join(r.Config, ".claude.json")
	state := map[string]any{}
	if raw, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(raw, &state); err != nil {
			return fmt.Errorf("agentrig: reading %s: %w", file, err)
		}
	}
	projects, ok := state["projects"].(map[string]any)
	if !ok {
		projects = map[string]any{}
	}
	projects[r.Project] = map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true, "allowedTools": []any{}}
	maps.Copy(state, map[string]any{
		"hasCompletedOnboarding":        true,
		"lastOnboardingVersion":         "99.0.0",
		"lastReleaseNotesSeen":          "99.0.0",
		"theme":                         "dark",
		"bypassPermissionsModeAccepted": true,
		"numStartups":                   5,
		"autoUpdates":                   false,
		"customApiKeyResponses":         map[string]any{"approved": []string{dummyKey[len(dummyKey)-20:]}, "rejected": []string{}},
		"projects":                      projects,
	})
	return writeJSON(file, state)
}

func writeJSON(file string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("agentrig: encoding %s: %w", filepath.Base(file), err)
	}
	if err := os.WriteFile(file, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("agentrig: writing %s: %w", filepath.Base(file), err)
	}
	return nil
}
