package archive

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// tempPrefix begins the names of temporary files, followed by random text. A scan of a workspace
// ignores such names.
const tempPrefix = ".segno-"

// abandonedAge is the least age at which a temporary file is removed because its process was
// killed.
const abandonedAge = time.Hour

// createTemp creates a file beside the archive. A lock on it shows other processes that it is in use.
func createTemp(ctx context.Context, fsys vfs.FS, dir string) (vfs.File, error) {
	f, err := fsys.OpenFile(filepath.Join(dir, tempPrefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_ = vfs.Lock(ctx, f, 0) // without a lock its age protects it
	}
	return f, err
}

// removeAbandoned removes the temporary files in a directory that no process uses, because they contain
// parts of an archive. It is best effort.
func removeAbandoned(ctx context.Context, dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), tempPrefix)
		if !ok || !e.Type().IsRegular() || len(random) != len(rand.Text()) || strings.ToUpper(random) != random {
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
		if vfs.Lock(ctx, f, 0) == nil {
			_ = os.Remove(name)
		}
		f.Close()
	}
}
