//go:build linux && (amd64 || arm64 || loong64 || riscv64) && !portable

package workspace_test

import (
	"testing"

	"github.com/dalsegno/segno/workspace"
)

// TestNamesOfAnUnknownFileSystemAreListed checks that a restore relies on lookups only on file systems that compare names byte by
// byte. On one of Windows or macOS, which Linux mounts as FUSE, 9p or cifs, undo of a rename from README to readme would otherwise
// remove the file: README is found while the file is called readme, so it counts as restored.
func TestNamesOfAnUnknownFileSystemAreListed(t *testing.T) {
	for dir, want := range map[string]bool{"/proc": true, t.TempDir(): false} {
		if got, err := workspace.FoldsNames(dir); err != nil || got != want {
			t.Errorf("%s: %v, %v", dir, got, err)
		}
	}
}
