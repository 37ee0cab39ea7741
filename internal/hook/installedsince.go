package hook

import (
	"os"
	"time"

	"github.com/dalsegno/segno/internal/local"
)

// InstalledSince returns the time since which an agent has had segno's hooks for sessions in dir. This is the last
// change of the settings of the user or of the project, whichever is older. ok is false if neither has the hooks.
func InstalledSince(p local.Place, agentName, dir string) (since time.Time, ok bool) {
	a, err := agentOf(agentName)
	if err != nil {
		return since, false
	}
	for _, file := range []string{a.settingsFile(p, ""), a.settingsFile(p, dir)} {
		e, err := a.readSettings(p, file)
		if err != nil {
			continue // 'segno doctor' names settings that cannot be read
		}
		if run, err := a.installed(e.Old, a.turnEnd()); err != nil || run == nil {
			continue
		}
		if fi, err := os.Stat(e.File); err == nil && (!ok || fi.ModTime().Before(since)) {
			since, ok = fi.ModTime(), true
		}
	}
	return since, ok
}
