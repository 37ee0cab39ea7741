package arrivals

import (
	"testing"

	"github.com/dalsegno/segno"
)

// TestTrustBehindLinks checks that a file needs trust if a symbolic link of the tree gives it such a name.
func TestTrustBehindLinks(t *testing.T) {
	links := map[string]string{".claude": "docs", "docs": "real/docs", "sub/.vscode": "../editor", ".envrc": "env.sh", ".idea": "/etc", ".cursor": "../x", "loop": "loop",
		"a/.github": "loop", "plain": "elsewhere", "b/.mcp.json": "."}
	rule := NewRule(links, nil)
	for name, want := range map[string]bool{
		"real/docs/settings.json":  true,
		"real/docs/readme.md":      false,
		"real/docs2/settings.json": false,
		"docs/settings.json":       false, // docs is a link, so no file has this path
		"editor/tasks.json":        true,
		"editor/theme.json":        false,
		"env.sh":                   true,
		"elsewhere/settings.json":  false,
		"b/x":                      true,
	} {
		if got, _ := rule.Needs(name, segno.Entity{Type: segno.EntityFile, Mode: 0o644}); got != want {
			t.Errorf("%q needs trust: %v", name, got)
		}
	}
}
