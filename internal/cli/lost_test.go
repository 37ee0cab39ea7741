package cli_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/sqlite"
)

// TestALostTreeIsDamage checks that a user who names a path of a checkpoint learns that the store lost its tree, and not that
// the path does not exist.
func TestALostTreeIsDamage(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "project")
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := runIn(t, t.Context(), base, append([]string{"-C", dir}, args...)...)
		if code != want {
			t.Errorf("%v: code %d, want %d: %s%s", args, code, want, out, errs)
		}
		return errs
	}
	for _, content := range []string{"1", "2"} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sub", "f"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		run(0, "save")
	}
	run(3, "restore", "@-", "sub/none", "-y")
	loseTrees(t, filepath.Join(base, "home"))
	for _, args := range [][]string{
		{"diff", "@-", "@"}, {"diff", "@-", "@", "--", "sub/f"}, {"restore", "@-", "sub/f", "-y"}, {"restore", "@-", "sub/none", "-y"},
	} {
		errs := run(6, args...)
		if !strings.Contains(errs, "segno check") {
			t.Errorf("%v: %s", args, errs)
		}
	}
}

// loseTrees deletes the trees of a store in a home.
func loseTrees(t *testing.T, home string) {
	t.Helper()
	place, err := local.FindPlace(func(name string) string { return map[string]string{"HOME": home}[name] }, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []any
	store, err := place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range store.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		tree := c.Tree()
		names = append(names, tree[:])
	}
	store.Close()
	vfs, err := sqlite.VFS()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(place.Store, "segno.db")+"?vfs="+vfs)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range names {
		if _, err := db.Exec("DELETE FROM objects WHERE name = ?", name); err != nil {
			t.Fatal(err)
		}
	}
}
