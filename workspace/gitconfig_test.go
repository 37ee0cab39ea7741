package workspace

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// gitWorktree returns the core.worktree that git reads; ok is false if it is not set.
func gitWorktree(t *testing.T, file string) (string, bool) {
	t.Helper()
	cmd := exec.Command("git", "config", "--file", file, "-z", "core.worktree")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(out), "\x00"), err == nil
}

func asExit(err error, exit **exec.ExitError) (ok bool) {
	*exit, ok = err.(*exec.ExitError)
	return ok
}

// TestConfigurationsAreReadAsGitReadsThem compares core.worktree in written and generated texts
// of all forms, and in edited versions of them.
func TestConfigurationsAreReadAsGitReadsThem(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	texts := []string{
		"", "[core]\n\tworktree = /a\n", "[CORE]WorkTree=/a", "[core]\nworktree = /a\nworktree = /b\n",
		"[core]\n\tbare = false\n\tworktree = \"/a b\" # x\n", "[core]\r\nworktree = /a\r\n[x]\r\ny = 1\r\n",
		"\ufeff[core]\nworktree = /a\n", "[core]\nworktree = /a\\\n/b\n", "[core]\nworktree = /a\\\r\n/b\n",
		"[core \"sub\"]\nworktree = /a\n", "[core.sub]\nworktree = /a\n", "[core \"a\\\"]\"]\nworktree = /b\n[core]\nworktree = /c",
		"; [core]\n# worktree = /a\n[core] worktree = /b ; c\n", "[core]\nworktree = \"/a\\\"\\\\\" \n", "[core]\nworktree=/a;b\n",
		"[core]\nworktree = \"/a # b\"c\n", "[core]\nbare\nworktree = /a\n", "[core]\nworktree =\n", "[remote \"o\"]\nurl = x\n[core]\nworktree = ../../x\n",
		"[core]\nworktree = /a \\\n", "[core]\nworktree = \\\n /a\n", "[core]\nx = \"\\\n\"\nworktree = /a\n", "[core]\n\tworktree = /a b  \n",
	}
	pieces := []string{"[core]", "[CoRe]", "[core \"s\"]", "[other]", "\n", "\n", "\n", " ", "worktree", "worktree = ", "worktree=", "bare = true", "/a", "/b c", "\"", "\\\n", "\\\"", "\\\\", "#", ";", "\r\n", "\n\t", "x = y\n"}
	random := rand.New(rand.NewPCG(soak.Seed(t), 0))
	for range soak.Count(t, 120, 25_000) {
		text := "[core]\n"
		for range random.IntN(14) {
			text += pieces[random.IntN(len(pieces))]
		}
		texts = append(texts, text)
	}
	file := filepath.Join(t.TempDir(), "config")
	compared := 0
	for _, text := range texts {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if exec.Command("git", "config", "--file", file, "--list").Run() != nil {
			settings([]byte(text)) // git rejects the whole text; settings must not panic
			continue
		}
		want, has := gitWorktree(t, file)
		if got, ok := worktreeOf([]byte(text)); got != want || ok != has {
			t.Errorf("%q: core.worktree is %q %v, git says %q %v", text, got, ok, want, has)
		}
		checkEdit(t, file, text, has)
		compared++
	}
	if compared < len(texts)/4 { // nearly half are, in the mean
		t.Errorf("only %d of %d texts are configurations", compared, len(texts))
	}
}

// checkEdit replaces core.worktree in a text, then drops it, and lets git read each result.
func checkEdit(t *testing.T, file, text string, has bool) {
	t.Helper()
	for _, value := range []string{"/new \"x\" # y\\", ""} {
		next := editConfig([]byte(text), func(s *setting) (string, bool) {
			if value == "" {
				return "", s.isWorktree()
			}
			return "worktree = " + quoteConfig(value), s.isWorktree()
		})
		if err := os.WriteFile(file, next, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("git", "config", "--file", file, "--list").CombinedOutput(); err != nil {
			t.Errorf("%q became %q, which git rejects: %s", text, next, out)
			continue
		}
		want := has && value != ""
		if got, ok := gitWorktree(t, file); ok != want || ok && got != value {
			t.Errorf("%q became %q, core.worktree %q %v, want %q", text, next, got, ok, value)
		}
	}
}
