//go:build !portable

package vfs_test

import (
	"os/exec"
	"testing"
)

// TestPortableFunctions runs the tests of this package with the functions that macOS uses.
func TestPortableFunctions(t *testing.T) {
	if testing.Short() {
		return // it links another test binary
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "portable", "-count=1", "-vet=off", ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test -tags portable: %v\n%s", err, out)
	}
}
