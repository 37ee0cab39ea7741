package archive

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNoDirectoryIsARepository has directories that git takes for repositories, with a program in their
// config: complete ones, ones made of links, and ones with a second directory. After the extraction, git
// takes no directory for a repository.
func TestNoDirectoryIsARepository(t *testing.T) {
	t.Parallel()
	h := newHostileTree()
	const config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch ran; false\n"
	for _, dir := range []string{"", "sub/"} {
		h.files[dir+"HEAD"], h.files[dir+"config"] = "ref: refs/heads/master\n", config
		h.files[dir+"objects/info/x"], h.files[dir+"refs/x"] = "", ""
	}
	h.files["linked/config"], h.files["linked/r/heads/x"], h.files["linked/o/x"] = config, "", ""
	h.links["linked/HEAD"], h.links["linked/objects"], h.links["linked/refs"] = "refs/heads/x", "o", "r"
	h.files["common/HEAD"], h.files["common/commondir"], h.files["common/main/config"] = "ref: refs/heads/master\n", "main\n", config
	h.files["common/main/objects/x"], h.files["common/main/refs/x"] = "", ""
	h.files["docs/HEAD"], h.files["bin/head"] = "of a page\n", "a program\n"
	repositories := []string{"", "sub", "linked", "common"}

	// The original tree has repositories, so their absence below proves that the archive omits them.
	plain := t.TempDir()
	for name, text := range h.files {
		at := filepath.Join(plain, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range h.links {
		if err := os.Symlink(target, filepath.Join(plain, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range repositories {
		if !isRepository(t, filepath.Join(plain, dir)) {
			t.Errorf("git does not take %q for a repository", dir)
		}
	}
	for _, extracted := range h.extract(t) {
		for _, dir := range repositories {
			if isRepository(t, filepath.Join(extracted, dir)) {
				t.Errorf("git takes %q of an archive for a repository", dir)
			}
		}
		for _, name := range []string{"docs/HEAD", "bin/head"} {
			if _, err := os.Stat(filepath.Join(extracted, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// isRepository reports whether git takes a directory for a repository and would use its config.
func isRepository(t *testing.T, dir string) bool {
	t.Helper()
	cmd := exec.Command("git", "rev-parse", "--git-dir")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	return cmd.Run() == nil
}
