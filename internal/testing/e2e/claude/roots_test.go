package claude_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// repository is a git work tree beside the project, which segno does not know yet.
type repository struct {
	*e2erig.Stage
	root string
}

func newRepository(s *e2erig.Stage, files map[string]string) *repository {
	r := &repository{Stage: s, root: filepath.Join(filepath.Dir(s.Rig.Project), "repository")}
	for name, content := range files {
		name = filepath.Join(r.root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	return r
}

// in runs the segno command in a directory and returns its output.
func (r *repository) in(dir string, args ...string) string {
	r.Helper()
	cmd := r.Command(r.Ctx, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		r.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// sayIn runs one turn of the agent in a directory.
func (r *repository) sayIn(dir, prompt string, args ...string) agentrig.Result {
	r.Helper()
	there, err := r.Rig.In(dir)
	if err != nil {
		r.Fatal(err)
	}
	res, err := there.Print(r.Ctx, prompt, args...)
	if err != nil {
		r.Fatal(err)
	}
	return res
}

func (r *repository) session(res agentrig.Result) string {
	r.Helper()
	out, err := res.Must()
	if err != nil {
		r.Fatal(err)
	}
	return out.SessionID
}

func (r *repository) wantFile(path, want string) {
	r.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		r.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

// TestASessionInASubdirectory works above the directory in which the agent was started,
// with a tool and with the shell. An undo reverts all of it, and the conversation continues
// in the same subdirectory, there and in a fork.
func TestASessionInASubdirectory(t *testing.T) {
	e2erig.ScenarioOnNewest(t, nil, func(s *e2erig.Stage) {
		r := newRepository(s, map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "",
			"top.txt": "0\n", "gone.txt": "0\n", "sub/deep/f": "0\n"})
		sub, top, made := filepath.Join(r.root, "sub", "deep"), filepath.Join(r.root, "top.txt"), filepath.Join(r.root, "new.txt")
		write := map[string]any{"tool": "Write", "input": map[string]string{"file_path": made, "content": "tool\n"}}
		session := r.session(r.sayIn(sub, e2erig.Prompt("first", write, e2erig.Bash("cd ../.. && echo 1 > top.txt && rm gone.txt"), "done 1")))
		r.session(r.sayIn(sub, e2erig.Prompt("second", e2erig.Bash("echo 2 > ../../top.txt; echo 2 > f"), "done 2"), "--resume", session))

		var moved struct {
			Command []string
			Dir     string `json:"session_dir"`
		}
		if err := json.Unmarshal([]byte(r.in(sub, "undo", "-y", "--json")), &moved); err != nil {
			s.Fatal(err)
		}
		r.wantFile(top, "1\n")
		r.wantFile(filepath.Join(sub, "f"), "0\n")
		if moved.Dir != sub {
			s.Errorf("the conversation continues in %s, want %s", moved.Dir, sub)
		}
		r.session(r.sayIn(moved.Dir, e2erig.Prompt("third", e2erig.Bash("echo 3 > ../../top.txt"), "done 3"), moved.Command[1:]...))
		if !e2erig.Said(s.LastCall(), "first") || e2erig.Said(s.LastCall(), "second") {
			s.Error("the agent did not continue after the first turn")
		}

		var fork struct {
			Dir     string
			Command []string
			In      string `json:"session_dir"`
		}
		if err := json.Unmarshal([]byte(r.in(r.root, "fork", "t1", "--to", "../fork", "--json")), &fork); err != nil {
			s.Fatal(err)
		}
		if fork.In != filepath.Join(fork.Dir, "sub", "deep") {
			s.Errorf("the fork's session runs in %s", fork.In)
		}
		r.session(r.sayIn(fork.In, e2erig.Prompt("in the fork", e2erig.Bash("echo fork > ../../top.txt"), "forked"), fork.Command[1:]...))
		if !e2erig.Said(s.LastCall(), "done 1") {
			s.Error("the fork's agent does not know the first turn")
		}
		r.in(fork.In, "undo", "-y")
		r.wantFile(filepath.Join(fork.Dir, "top.txt"), "1\n")

		r.in(r.root, "undo", "2", "-y")
		r.wantFile(top, "0\n")
		r.wantFile(filepath.Join(r.root, "gone.txt"), "0\n")
		if _, err := os.Stat(made); !os.IsNotExist(err) {
			s.Errorf("what a tool wrote above the subdirectory is still there: %v", err)
		}
	})
}

// TestASessionThatCannotBeRecorded starts the agent in its home directory. The agent works,
// and the user receives the reason once why segno records nothing.
func TestASessionThatCannotBeRecorded(t *testing.T) {
	e2erig.ScenarioOnNewest(t, nil, func(s *e2erig.Stage) {
		r := newRepository(s, nil)
		res := r.sayIn(s.Rig.Home, e2erig.Prompt("at home", e2erig.Bash("echo 1 > made"), "done"), "--output-format", "stream-json", "--verbose")
		if res.Code != 0 || !strings.Contains(res.Stdout, "done") {
			s.Errorf("the agent ended with %d: %s %s", res.Code, res.Stdout, res.Stderr)
		}
		shown := 0
		for _, line := range strings.Split(res.Stdout, "\n") {
			if strings.Contains(line, "this session is not recorded") {
				shown++
			}
		}
		if shown != 1 {
			s.Errorf("the user was shown %d lines: %s", shown, res.Stdout)
		}
		if out, code := s.Try("doctor"); code == 0 || !strings.Contains(out, "was not recorded") {
			s.Errorf("doctor ends with %d: %s", code, out)
		}
		if err := os.Remove(filepath.Join(s.Store, "hook.log")); err != nil { // it has the failure
			s.Error(err)
		}
	})
}

// TestTheUserEditsWhatACommandInASubdirectoryWrote runs the agent below the root of the workspace. A command names a file relative to the
// directory of the session, and the user saves the file before the turn ends. Both wrote it, so the file is a conflict.
func TestTheUserEditsWhatACommandInASubdirectoryWrote(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"sub/a.txt": "0\n", "sub/b.txt": "0\n"}, func(s *e2erig.Stage) {
		s.Say(e2erig.Prompt("in the root", "done"))
		below, err := s.Rig.In(s.Path("sub"))
		if err != nil {
			s.Fatal(err)
		}
		saved := filepath.Join(t.TempDir(), "saved")
		agent, err := below.StartPrint(s.Ctx, e2erig.Prompt("below", e2erig.Bash("echo 1 > a.txt; echo 1 > b.txt"), map[string]any{"text": "done", "until": saved}))
		if err != nil {
			s.Fatal(err)
		}
		s.Poll("the model to be called after the command", func() bool { return len(s.Model.Calls()) == 3 })
		s.WaitForClock()
		s.Write("sub/a.txt", "mine\n")
		if err := os.WriteFile(saved, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		if _, err := agent.Result(s.Ctx); err != nil {
			s.Fatal(err)
		}
		if out, code := s.Try("undo", "-y"); code != 4 || !strings.Contains(out, "! sub/a.txt") {
			s.Errorf("undo: exit %d\n%s", code, out)
		}
		if a, b := s.Read("sub/a.txt"), s.Read("sub/b.txt"); a != "mine\n" || b != "0\n" {
			s.Errorf("undo left %q in the user's file and %q in the turn's", a, b)
		}
	})
}

// TestTheWorktreeOfASubagent starts a subagent in a git worktree that the agent makes below the workspace's root. An undo removes the
// files of the worktree, and lists the file .git, which segno never changes.
func TestTheWorktreeOfASubagent(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		for _, args := range [][]string{{"init", "-q"}, {"add", "a.txt"}, {"-c", "user.name=u", "-c", "user.email=u", "commit", "-qm", "one"}} {
			git := exec.CommandContext(s.Ctx, "git", args...)
			git.Dir, git.Env = s.Rig.Project, s.Rig.Env()
			if out, err := git.CombinedOutput(); err != nil {
				s.Fatalf("git %s: %v\n%s", args, err, out)
			}
		}
		s.Say(e2erig.Prompt("work", map[string]any{"tool": "Agent", "input": map[string]any{"description": "d", "subagent_type": "general-purpose",
			"run_in_background": false, "isolation": "worktree", "prompt": e2erig.Prompt("sub", e2erig.Bash("pwd; echo 1 > new.txt"), "sub done")}}, "done"))
		made, err := filepath.Glob(s.Path(".claude/worktrees/*/new.txt"))
		if err != nil || len(made) != 1 {
			s.Fatalf("the subagent made %q, %v\n%s", made, err, s.Segno("show", "t1"))
		}
		show := s.Segno("show", "t1") + s.Segno("undo", "-y", "--verbose")
		left, err := filepath.Glob(s.Path(".claude/worktrees/*/*"))
		if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".git" || !strings.Contains(show, "protected: git") {
			s.Errorf("undo left %q, %v\n%s", left, err, show)
		}
	})
}
