package pack_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// randomTree fills a directory with files, empty directories, symlinks and hard links. Every system
// allows their names.
func randomTree(t *testing.T, r *rapid.T, root string) {
	element := rapid.SampledFrom([]string{"a", "b", "c", "größe", ".hidden", "with space", "dist", "x.go", "日本", "-dash", "UPPER1", "a.b"})
	dirs := []string{"."}
	var files []string
	for range rapid.IntRange(0, 25).Draw(r, "entries") {
		name := path.Join(rapid.SampledFrom(dirs).Draw(r, "dir"), element.Draw(r, "name"))
		full := filepath.Join(root, name)
		if _, err := os.Lstat(full); err == nil {
			continue
		}
		switch rapid.SampledFrom([]string{"file", "file", "file", "dir", "dir", "link", "hard link"}).Draw(r, "kind") {
		case "dir":
			must(t, os.Mkdir(full, 0o755))
			dirs = append(dirs, name)
		case "link": // its target is inside the tree, and may not exist
			target, err := filepath.Rel(filepath.Dir(full), filepath.Join(root, rapid.SampledFrom(append(dirs, files...)).Draw(r, "target")))
			must(t, err)
			must(t, os.Symlink(target, full))
		case "hard link":
			if len(files) > 0 {
				must(t, os.Link(filepath.Join(root, rapid.SampledFrom(files).Draw(r, "first")), full))
				files = append(files, name)
			}
		default:
			content := strings.Repeat(rapid.StringMatching(`[a-e \n]{0,40}`).Draw(r, "content"), rapid.SampledFrom([]int{0, 1, 1, 3000}).Draw(r, "times"))
			must(t, os.WriteFile(full, []byte(content), 0o600))
			must(t, os.Chmod(full, os.FileMode(rapid.SampledFrom([]int{0o644, 0o755, 0o600, 0o700, 0o444}).Draw(r, "mode"))))
			at := time.Unix(0, rapid.Int64Range(0, 1<<60).Draw(r, "time"))
			must(t, os.Chtimes(full, at, at))
			files = append(files, name)
		}
	}
}

// TestAnyTreeMovesUnchanged packs random trees, unpacks them, and packs the result again.
func TestAnyTreeMovesUnchanged(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	soak.Rapid(t, 20, 500)
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t)
		randomTree(t, r, f.project)
		quiet := func(cp *segno.Checkpoint) { cp.Time = time.Unix(1, 0) }
		name, m := f.pack(f.checkpoint("t", quiet), pack.Options{})
		if len(m.Omitted) > 0 {
			r.Fatalf("omitted: %v", m.Omitted)
		}
		to := newTarget(t)
		_, err := pack.Unpack(t.Context(), f.open(name), to.into())
		must(t, err)
		if diff := cmp.Diff(tree(t, f.project), tree(t, to.dir)); diff != "" {
			r.Fatalf("the tree (-want +got):\n%s", diff)
		}
		f.project = to.dir
		_, again := f.pack(f.checkpoint("t", quiet), pack.Options{})
		if again.Digest != m.Digest {
			r.Fatalf("the digest of the copy is another one:\n%s", cmp.Diff(m, again))
		}
	})
}
