package spool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
)

// TestAStoreOfAnotherUserIsRefused checks directories and symlinks of this user and of another
// user. Only root can make those of another user.
func TestAStoreOfAnotherUserIsRefused(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const theirs = 12345
	store := filepath.Join(base, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	link := func(name, target string, uid int) string {
		name = filepath.Join(base, name)
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		if uid != os.Geteuid() {
			if err := os.Lchown(name, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		return name
	}
	own := os.Geteuid()
	for _, dir := range []string{store, filepath.Join(base, "none", "at", "all"), link("absolute", store, own), link("relative", "../"+filepath.Base(base)+"/store", own), link("chain", "relative", own),
		filepath.Join(link("up", ".", own), "store")} {
		if err := spool.CheckOwner(dir); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := spool.CheckOwner(link("loop", "loop", own)); segno.KindOf(err) != segno.KindIO {
		t.Errorf("a loop of symlinks: %v", err)
	}
	if own != 0 {
		return
	}
	other := filepath.Join(base, "other")
	if err := os.Mkdir(other, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(other, theirs, theirs); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{other, link("to-other", other, own), link("planted", store, theirs), filepath.Join(link("below", base, theirs), "store"),
		link("through", "planted", own)} {
		if err := spool.CheckOwner(dir); segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
