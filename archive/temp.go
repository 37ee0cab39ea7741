package archive

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/vfs"
)

// tempPrefix begins the names of temporary files, followed by random text. A scan of a workspace
// ignores such names.
const tempPrefix = ".segno-"

// createTemp creates a file beside the archive. A lock on it shows other processes that it is in use.
func createTemp(ctx context.Context, fsys vfs.FS, dir string) (vfs.File, error) {
	f, err := fsys.OpenFile(filepath.Join(dir, tempPrefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_ = vfs.Lock(ctx, f, 0) // without a lock its age protects it
	}
	return f, err
}

// removeAbandoned removes the temporary files in a directory that no process uses, because they contain
// parts of an archive.
func removeAbandoned(ctx context.Context, dir string) {
	vfs.RemoveAbandoned(ctx, dir, func(e fs.DirEntry) bool {
		random, ok := strings.CutPrefix(e.Name(), tempPrefix)
		return ok && e.Type().IsRegular() && len(random) == len(rand.Text()) && strings.ToUpper(random) == random
	})
}
