package historycmd

import (
	"path/filepath"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
)

// hintOnce prints a hint on a terminal, once in the user's own store. The file hints/NAME of the store records that it
// was shown. If that file cannot be written, hintOnce prints nothing, because the hint would appear every time.
func (a *app) hintOnce(store *local.Store, name, text string) {
	if a.JSON || a.StorePath != "" || !cli.Terminal(a.Stdout) || !cli.Terminal(a.Stderr) || store.ReadOnly() {
		return
	}
	place := store.Place()
	fsys := place.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	dir := filepath.Join(place.Store, "hints")
	if vfs.MkdirAll(fsys, dir) == nil && vfs.WriteSynced(fsys, filepath.Join(dir, name), nil, 0o600) == nil {
		a.Notef("%s", text)
	}
}
