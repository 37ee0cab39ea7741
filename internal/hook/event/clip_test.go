package event

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
)

// TestClippedInputKeepsItsPath clips a large input.
func TestClippedInputKeepsItsPath(t *testing.T) {
	raw, err := json.Marshal(map[string]string{"content": strings.Repeat("x", 2*segno.MaxUnclipped), "file_path": "/away/big"})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]string{"command": "*** Begin Patch\n*** Add File: in\n" + strings.Repeat("+x\n", segno.MaxUnclipped) + "*** Add File: /away/new\n"})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"command", "input", "patchText"} { // the fields of Codex and OpenCode
		raw := []byte(strings.Replace(string(patch), "command", field, 1))
		if got := (turns.Bounds{Root: "/srv/project"}).Outside("apply_patch", clipInput("apply_patch", raw)); !slices.Equal(got, []string{"/away/new"}) {
			t.Errorf("outside of a clipped patch in the field %s: %q", field, got)
		}
	}
	clipped := clipInput("Write", raw)
	if got := (turns.Bounds{Root: "/srv/project"}).Outside("Write", clipped); len(clipped) >= len(raw) || !slices.Equal(got, []string{"/away/big"}) {
		t.Errorf("%d bytes became %d, outside %q", len(raw), len(clipped), got)
	}
}
