package vfs

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// abandonedAge is the least age at which an unlocked temporary file counts as left by a killed process. A new file is
// unlocked for a moment.
const abandonedAge = time.Hour

// RemoveAbandoned removes the temporary files and directories in dir that no process uses: those that isTemp chooses, that are
// old enough, and that no process has locked. It is best effort.
func RemoveAbandoned(ctx context.Context, dir string, isTemp func(fs.DirEntry) bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !isTemp(e) {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < abandonedAge {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if Lock(ctx, f, 0) == nil {
			_ = os.RemoveAll(name)
		}
		f.Close()
	}
}
