package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

// OutFlag adds the flag for the directory of the runs of experiments.
func OutFlag(c *cobra.Command, out *string) {
	c.Flags().StringVar(out, "out", "runs", "the `DIR` of the runs")
}

// CheckOutput rejects a path where no new file can be made. Callers check it before the long work
// begins.
func CheckOutput(op, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return segno.Errorf(segno.KindConflict, op, path, "already exists").WithHint("give a new file with -o")
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return segno.Errorf(segno.KindNotFound, op, filepath.Dir(path), "there is no such directory").WithHint("make it, or give another file with -o")
	}
	return nil
}
