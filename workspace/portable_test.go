//go:build !portable

package workspace_test

import (
	"os/exec"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestPortableFunctions runs tests of this package with the functions of platform_portable.go,
// which macOS uses. These functions cannot detect that a file is open for writing or consists
// of one hole, and they open a deep directory slowly. Tests of these abilities fail with this
// tag.
func TestPortableFunctions(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes seconds
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "portable", "-count=1", "-vet=off", "-rapid.checks=100",
		"-run", "RestoreIsExact|SnapshotAtIsExact|HardLinks|SpecialFiles|ASymlinkIsNever|LaterChange|"+
			"ForkRestores|ForkOfARepository|Spelling|BecomeOne|HolesStay", ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test -tags portable: %v\n%s", err, out)
	}
}
