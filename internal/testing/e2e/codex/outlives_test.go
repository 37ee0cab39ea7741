package codex_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACommandOutlivesItsTurn lets a command work after its turn and during a later turn. The turn that started it owns its changes, and
// no move happens while it runs.
func TestACommandOutlivesItsTurn(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n", "yours.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		step := func(n string) string { return filepath.Join(agent.Home, "step"+n) }
		wait := func(n string) string { return "until [ -e " + step(n) + " ]; do sleep 0.1; done; " }
		release := func(n string) {
			s.Helper()
			if err := os.WriteFile(step(n), nil, 0o600); err != nil {
				s.Fatal(err)
			}
		}
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", leaves("echo 1 > a.txt; "+wait("1")+"echo 1 > between.txt; "+wait("2")+"echo 1 > beside.txt; "+wait("3")), "done alpha"))
		waitForTurns(s, 1)
		waitForEnd(s, agent, 1)
		if out := s.Segno("status"); !strings.Contains(out, "shell") || !strings.Contains(out, "is running: echo 1 > a.txt") {
			s.Errorf("status while the command runs:\n%s", out)
		}
		if out, code := s.Try("undo", "-y"); code == 0 || !strings.Contains(out, "background work") {
			s.Errorf("undo while the command runs: exit %d\n%s", code, out)
		}
		release("1")
		s.WaitFor("between.txt")

		term.submit(e2erig.Prompt("beta", shell("echo 2 > b.txt"), map[string]any{"text": "done beta", "until": step("4")}))
		s.Poll("the model's call after the command", func() bool { return s.Exists("b.txt") && len(s.Model.Calls()) == 4 })
		release("2")
		s.WaitFor("beside.txt")
		release("4")
		waitForTurns(s, 2)
		release("3")
		s.Poll("the end of the command", func() bool { return !strings.Contains(s.Segno("status"), "is running") })
		s.WaitForClock()
		s.Write("yours.txt", "mine\n")

		for turn, want := range map[string]string{"t1": "~ a.txt\n+ between.txt\n+ beside.txt", "t2": "+ b.txt"} {
			show := s.Segno("show", turn)
			for _, line := range strings.Split(want, "\n") {
				if !strings.Contains(show, line) {
					s.Errorf("%s lacks %q:\n%s", turn, line, show)
				}
			}
			if strings.Count(show, "\n  + ")+strings.Count(show, "\n  ~ ") != strings.Count(want, "\n")+1 {
				s.Errorf("%s has other files than\n%s:\n%s", turn, want, show)
			}
		}
		s.Segno("undo", "2", "-y")
		for name, want := range map[string]string{"a.txt": "0\n", "yours.txt": "mine\n"} {
			if got := s.Read(name); got != want {
				s.Errorf("%s is %q after the undo, want %q", name, got, want)
			}
		}
		if s.Exists("between.txt") || s.Exists("beside.txt") || s.Exists("b.txt") {
			s.Errorf("files after the undo:\n%s", s.Tree())
		}
	})
}

// TestALaterTurnTypesIntoACommand starts a command in one turn, types into it in the next one, and waits for its end in the third. Each
// turn owns what it typed. What the user does after the end of the command is not a turn's.
func TestALaterTurnTypesIntoACommand(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		knowsCommand(s, agent)
		saved := filepath.Join(agent.Home, "saved")
		term := open(s, agent)
		term.submit(e2erig.Prompt("alpha", leaves(`echo 1 > a.txt; read x; eval "$x"; read x; eval "$x"`), "the-first-is-done"))
		waitForTurns(s, 1)
		waitForEnd(s, agent, 1)
		term.submit(e2erig.Prompt("beta", types("echo 2 > a.txt; echo 2 > b.txt"), "done beta"))
		waitForTurns(s, 2)
		waitForEnd(s, agent, 2)
		term.submit(e2erig.Prompt("gamma", shell("echo 3 > c.txt"), types("echo 3 > d.txt"), map[string]any{"text": "done gamma", "until": saved}))
		s.Poll("the end of the command", func() bool {
			return strings.Count(rolloutText(s, agent), "Process exited with code 0") == 2 && s.Exists("d.txt")
		})
		s.Poll("the call of the model after it", func() bool { return len(s.Model.Calls()) == 7 })
		s.WaitForClock()
		s.Write("new.txt", "mine\n")
		if err := os.WriteFile(saved, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		waitForTurns(s, 3)
		s.Segno("undo", "-y")
		if got := s.Read("a.txt"); got != "2\n" || s.Exists("c.txt") || s.Exists("d.txt") || !s.Exists("new.txt") || !s.Exists("b.txt") {
			s.Errorf("files after the undo of the third turn:\n%s\n%s", s.Tree(), s.Segno("show", "t3"))
		}
		s.Segno("undo", "-y")
		if got := s.Read("a.txt"); got != "1\n" || s.Exists("b.txt") || !s.Exists("new.txt") {
			s.Errorf("files after the undo of the second turn:\n%s\n%s", s.Tree(), s.Segno("show", "t2"))
		}
	})
}

// types is a call that types a line into the newest command that runs. It waits long enough for the command's answer.
func types(line string) map[string]any {
	return map[string]any{"tool": "write_stdin", "input": map[string]any{"session_id": newestCommand, "chars": line + "\n", "yield_time_ms": 3000}}
}

// newestCommand stands for the id of the newest command that runs, which a script cannot know.
const newestCommand = 424242

// knowsCommand replaces newestCommand in the answers of the model by the id that Codex reported to it.
func knowsCommand(s *e2erig.Stage, agent *agentrig.Codex) {
	s.Helper()
	reported := regexp.MustCompile(`session ID (\d+)`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if all := reported.FindAllSubmatch(body, -1); len(all) > 0 {
			w = &commandWriter{w, all[len(all)-1][1]}
		}
		s.Model.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	file := filepath.Join(agent.CodexHome(), "config.toml")
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(data, []byte(agent.ModelURL), []byte(server.URL), 1), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

type commandWriter struct {
	http.ResponseWriter
	id []byte
}

func (w *commandWriter) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.ReplaceAll(p, fmt.Append(nil, newestCommand), w.id))
	return len(p), err
}

func (w *commandWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// leaves is a call of a command for which the model does not wait.
func leaves(command string) map[string]any {
	return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": command, "yield_time_ms": 300, "tty": true}}
}

// TestACommandDetachesAProcess lets a command detach a process, which Codex does not know. The turn names it.
func TestACommandDetachesAProcess(t *testing.T) {
	withHooks(t, drawn(t), map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage, agent *agentrig.Codex) {
		signal := filepath.Join(agent.Home, "signal")
		s.Cleanup(func() { _ = os.WriteFile(signal, nil, 0o600) }) // ends the process if the test fails
		term := open(s, agent)
		term.send("alpha", "echo 1 > a.txt; setsid sh -c 'until [ -e "+signal+" ]; do sleep 0.1; done' > /dev/null 2>&1 &")
		waitForTurns(s, 1)
		if show := s.Segno("show", "t1"); !strings.Contains(show, "left processes running: sh (pid ") || strings.Count(show, "(pid ") != 1 {
			s.Errorf("the turn does not name the process that it left behind:\n%s", show)
		}
	})
}
