package claude

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// defaultCleanup is the number of days until Claude Code deletes a session if no setting changes it.
const defaultCleanup = 30

// managedSettings is the directory of the settings that an administrator writes for all users.
func managedSettings() string {
	if runtime.GOOS == "darwin" {
		return "/Library/Application Support/ClaudeCode"
	}
	return "/etc/claude-code"
}

// Retention returns the age at which the agent may delete a session, counted from its last change. The
// administrator's settings decide, then the user's. ok is false if the agent deletes none.
func (c *Transcripts) Retention() (age time.Duration, ok bool) { return c.RetentionIn("") }

// RetentionIn is [Transcripts.Retention] for an agent that runs in dir. The settings of a project rank
// between the administrator's and the user's. An agent that starts in a project deletes the sessions of
// all projects by that project's settings, so a session may be deleted earlier than the settings of its project allow.
func (c *Transcripts) RetentionIn(dir string) (age time.Duration, ok bool) {
	const most = 100_000 // days; a time.Duration cannot hold many more
	days := float64(defaultCleanup)
	for _, name := range c.settings(dir) {
		var settings struct {
			Days *float64 `json:"cleanupPeriodDays"`
		}
		if json.Unmarshal(readStart(name), &settings) == nil && settings.Days != nil {
			days = *settings.Days
			break
		}
	}
	// Zero means that nothing is deleted; newer versions reject it.
	return time.Duration(days * 24 * float64(time.Hour)), days > 0 && days <= most
}

// settings are the files of settings that the agent reads in dir. The first one that has a setting decides.
func (c *Transcripts) settings(dir string) []string {
	all, _ := filepath.Glob(filepath.Join(c.managed, "managed-settings.d", "*.json")) // the pattern is valid
	slices.Reverse(all)
	all = append(all, filepath.Join(c.managed, "managed-settings.json"))
	if dir != "" {
		all = append(all, filepath.Join(dir, ".claude", "settings.local.json"), filepath.Join(dir, ".claude", "settings.json"))
	}
	return append(all, filepath.Join(c.home, "settings.json"))
}
