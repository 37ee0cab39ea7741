package cli

import (
	"path/filepath"

	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
)

// HintOnce prints a hint on a terminal, once in the user's own store. The file hints/NAME of the store records that it
// was shown. If that file cannot be written, HintOnce prints nothing, because the hint would appear every time.
func (a *App) HintOnce(store *local.Store, name, text string) {
	if a.JSON || a.StorePath != "" || !Terminal(a.Stdout) || !Terminal(a.Stderr) || store.ReadOnly() {
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
