package cli

import (
	"fmt"

	"github.com/dalsegno/segno/workspace"
)

// WatchText describes the counts of a process that watches a directory.
func WatchText(s workspace.WatchStats) string {
	return fmt.Sprintf("with %s: %s of other processes, %s, %s", s.Kind, Plural(s.Served, "snapshot"), Plural(s.Checks, "comparison"), Plural(s.Missed, "missed change"))
}
