package workspace_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// gitHistory is a repository with a random history, and the states to which the test can return.
type gitHistory struct {
	*fixture
	*rand.Rand
	commits, branches int
	states            []gitState
}

// gitState is the state of the files and of HEAD at one moment.
type gitState struct {
	git   segno.Git
	files map[string]string
}

func (h *gitHistory) git(args ...string) string { return git(h.t, h.root, args...) }

// try runs a git command that may fail, because the current history may not allow it.
func (h *gitHistory) try(args ...string) {
	_ = exec.Command("git", append([]string{"-C", h.root}, args...)...).Run()
}

func (h *gitHistory) name() string {
	return []string{"a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"}[h.IntN(4)]
}

// files returns the files in the work tree.
func (h *gitHistory) files() map[string]string {
	files := map[string]string{}
	_ = filepath.WalkDir(h.root, func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(h.root, p)
		if err == nil && d.IsDir() && rel == ".git" {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				h.t.Fatal(err)
			}
			files[rel] = string(data)
		}
		return nil
	})
	return files
}

// step does one thing that users and agents do.
func (h *gitHistory) step() {
	switch h.IntN(12) {
	case 0, 1, 2, 3:
		h.commits++
		h.write(h.name(), fmt.Sprintf("version %d\n", h.commits))
		if h.git("add", "-A"); h.IntN(4) > 0 {
			h.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("commit ", h.commits))
		}
	case 4:
		h.branches++
		h.try("switch", "-q", "-c", fmt.Sprint("branch-", h.branches))
	case 5:
		h.try("switch", "-q", fmt.Sprint("branch-", h.IntN(h.branches+1)))
	case 6:
		h.try("switch", "-q", "main")
	case 7:
		h.try("checkout", "-q", "--detach", fmt.Sprint("HEAD~", h.IntN(3)))
	case 8:
		h.try("-c", "user.name=n", "-c", "user.email=e@x", "merge", "-q", "-X", "ours", "--no-edit", fmt.Sprint("branch-", h.IntN(h.branches+1)))
	case 9:
		h.try("branch", "-q", "-D", fmt.Sprint("branch-", h.IntN(h.branches+1)))
	case 10:
		h.try("gc", "-q")
	case 11:
		h.write(h.name(), fmt.Sprintf("not committed %d\n", h.Int()))
	}
	h.save()
}

func (h *gitHistory) save() {
	if s := h.fixture.save(); s.Git != nil {
		h.states = append(h.states, gitState{*s.Git, h.files()})
	}
}

// reachable returns the commits that the references and HEAD reach.
func (h *gitHistory) reachable() []string {
	args := []string{"rev-list", "--all"}
	if exec.Command("git", "-C", h.root, "rev-parse", "-q", "--verify", "HEAD").Run() == nil {
		args = append(args, "HEAD")
	}
	return strings.Fields(h.git(args...))
}

// moveTo gets the command for a move of all or some of the files to a state. It makes the move, executes the
// command, and checks that no commit is lost.
func (h *gitHistory) moveTo(then gitState) (command string) {
	h.t.Helper()
	written, contents := map[string]segno.Entity{}, map[segno.Hash][]byte{}
	now := h.files()
	for name, text := range then.files {
		if now[name] != text && h.IntN(8) > 0 {
			id := segno.HashOf([]byte(text))
			contents[id] = []byte(text)
			written[name] = segno.Entity{Type: segno.EntityFile, Hash: id, Size: int64(len(text))}
		}
	}
	for name := range now {
		if _, stays := then.files[name]; !stays && h.IntN(8) > 0 {
			written[name] = segno.Entity{}
		}
	}
	command = h.dir.GitCommand(h.t.Context(), then.git, written, func(id segno.Hash) ([]byte, error) { return contents[id], nil })
	for name, e := range written {
		if e.Type == segno.EntityFile {
			h.write(name, string(contents[e.Hash]))
		} else if err := os.Remove(filepath.Join(h.root, name)); err != nil {
			h.t.Fatal(err)
		}
	}
	before, files := h.reachable(), h.files()
	hasHead := len(before) > 0
	isClean := hasHead && exec.Command("git", "-C", h.root, "diff", "--quiet", "HEAD").Run() == nil
	if command == "" {
		return ""
	}
	if isClean && h.git("status", "--porcelain") == "" {
		h.t.Errorf("the files equal HEAD, and the command is %q", command)
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = h.root
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Errorf("%s: %v: %s", command, err, out)
	}
	after := h.reachable()
	for _, id := range before {
		if !slices.Contains(after, id) {
			h.t.Errorf("%s is lost by %q", id, command)
		}
	}
	if got := *h.fixture.save().Git; got.Head != then.git.Head {
		h.t.Errorf("HEAD is %s after %q, want %s", got.Head, command, then.git.Head)
	}
	if !equalFiles(h.files(), files) {
		h.t.Errorf("the files changed by %q", command)
	}
	return command
}

func equalFiles(a, b map[string]string) bool {
	for name := range b {
		if a[name] != b[name] {
			return false
		}
	}
	return len(a) == len(b)
}

func newGitHistory(t *testing.T, seed uint64) *gitHistory {
	h := &gitHistory{fixture: newFixture(t), Rand: rand.New(rand.NewPCG(seed, 0))}
	h.git("init", "-q", "-b", "main")
	h.save()
	return h
}

// TestGitCommandLosesNoCommit makes random histories with git, moves the files to a random earlier state and
// executes the command for HEAD. No commit may become unreachable, HEAD must be at its earlier position, and
// the files must stay. If there are no files to move back, there must be no command.
func TestGitCommandLosesNoCommit(t *testing.T) {
	t.Parallel()
	histories := 20
	if testing.Short() {
		histories = 8
	}
	for _, seed := range soak.Seeds(t, histories, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newGitHistory(t, seed)
			commands := 0
			for range 4 {
				for range 6 {
					h.step()
				}
				if h.moveTo(h.states[h.IntN(len(h.states))]) != "" {
					commands++
				}
				h.git("add", "-A")
				h.git("commit", "-q", "--allow-empty", "-m", "after")
			}
			t.Logf("%d commands", commands)
		})
	}
}

// TestGitCommand tests the cases that users meet.
func TestGitCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history func(h *gitHistory) (then gitState)
		want    string // TO is the commit to which HEAD moves
	}{
		"the first commit": {func(h *gitHistory) gitState {
			h.write("a", "1")
			h.save()
			h.write("a", "2")
			h.git("add", "-A")
			h.git("commit", "-qm", "first")
			return h.states[len(h.states)-1]
		}, "git branch KEEP-HEAD && git update-ref -d HEAD"},
		"a commit that a branch keeps": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.save()
			h.commit("a", "2")
			h.git("branch", "other")
			return h.states[len(h.states)-1]
		}, "git reset TO"},
		"a commit that nothing else keeps": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.save()
			h.commit("a", "2")
			return h.states[len(h.states)-1]
		}, "git branch KEEP-HEAD && git reset TO"},
		"a move forward": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.commit("a", "2")
			h.save()
			h.git("branch", "keeps")
			h.git("reset", "-q", "--hard", "HEAD^")
			return h.states[len(h.states)-1]
		}, "git reset TO"},
		"files that HEAD holds": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.write("a", "2")
			h.save()
			h.commit("a", "2")
			h.write("a", "3")
			return h.states[len(h.states)-1]
		}, ""},
		"a checkout of the user": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.git("switch", "-qc", "feature")
			h.commit("f", "feature")
			h.git("switch", "-q", "main")
			h.save()
			h.git("switch", "-q", "feature")
			h.states[len(h.states)-1].files["f"] = "feature" // the move does not touch it
			return h.states[len(h.states)-1]
		}, ""},
		"a branch that the user has continued": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.save()
			h.commit("a", "2")
			h.git("switch", "-qc", "feature", "HEAD^")
			h.commit("a", "feature")
			return h.states[len(h.states)-1]
		}, "git branch KEEP-MAIN && git symbolic-ref HEAD refs/heads/main && git reset TO"},
		"a rebase": {func(h *gitHistory) gitState {
			h.commit("a", "1")
			h.save()
			h.commit("a", "2")
			h.git("switch", "-qc", "feature", "HEAD^")
			h.commit("a", "3")
			h.try("rebase", "main")
			return h.states[len(h.states)-1]
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newGitHistory(t, 0)
			then := c.history(h)
			h.Rand = rand.New(always{})
			kept := func(ref string) string {
				id := h.git("rev-parse", ref)
				return "segno-kept-" + id[:12] + " " + id
			}
			want := strings.NewReplacer("KEEP-HEAD", kept("HEAD"), "KEEP-MAIN", kept("main"), "TO", then.git.Head).Replace(c.want)
			if got := h.moveTo(then); got != want {
				t.Errorf("the command is\n%q\nwant\n%q", got, want)
			}
		})
	}
}

// always is a source of large numbers, with which all files are moved.
type always struct{}

func (always) Uint64() uint64 { return 1<<64 - 1 }

func (h *gitHistory) commit(name, text string) {
	h.write(name, text)
	h.git("add", "-A")
	h.git("commit", "-qm", name+" "+text)
}
