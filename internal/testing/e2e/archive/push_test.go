package archive_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// machine is another machine with the agent and a store.
type machine struct {
	*e2erig.Stage
	rig   *agentrig.Rig
	store string
}

// segno runs the command on the machine.
func (m *machine) segno(args ...string) []byte {
	m.Helper()
	cmd := exec.CommandContext(m.Ctx, m.Binary, append([]string{"--store", m.store}, args...)...)
	cmd.Dir, cmd.Env = m.rig.Project, m.rig.Env()
	out, err := cmd.Output()
	if err != nil {
		text := ""
		if exit, ok := err.(*exec.ExitError); ok {
			text = string(exit.Stderr)
		}
		m.Fatalf("segno %s: %v\n%s%s", strings.Join(args, " "), err, out, text)
	}
	return out
}

// pulled is the result of a pull.
type pulled struct {
	Outcome, Session string
	SessionDir       string `json:"session_dir"`
	Commits          int
}

func (m *machine) pull(args ...string) (p pulled) {
	m.Helper()
	if err := json.Unmarshal(m.segno(append([]string{"pull", "--json"}, args...)...), &p); err != nil {
		m.Fatal(err)
	}
	return p
}

// serve starts a server with a separate store. It returns the flags with which a client reaches it.
func (m *machine) serve() (remote []string) {
	m.Helper()
	dir := m.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, m.segno("serve", "token", "add", "laptop", "--tokens", filepath.Join(dir, "tokens"), "--scope", "read,write"), 0o600); err != nil {
		m.Fatal(err)
	}
	cmd := exec.CommandContext(m.Ctx, m.Binary, "serve", "--listen", "127.0.0.1:0", "--tokens", filepath.Join(dir, "tokens"))
	cmd.Env = append(m.rig.Env(), "XDG_DATA_HOME="+filepath.Join(dir, "data"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		m.Fatal(err)
	}
	address, _, _ := strings.Cut(line, "#")
	return []string{"--remote", address, "--token-file", file}
}

// TestAThreadContinuesElsewhereAndComesBack pushes a thread of the real agent, continues it with the agent on another
// machine, and brings it back.
func TestAThreadContinuesElsewhereAndComesBack(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		laptop := &machine{s, s.Rig, s.Store}
		session := s.Say(e2erig.Prompt("alpha", s.Writes("new.txt", "1\n"), "answer one"))
		beta := e2erig.Prompt("beta", e2erig.Bash("echo 2 > b.txt"), "answer two")
		s.Say(beta, "--resume", session)
		thread := s.Turns()[0].Thread
		remote := laptop.serve()
		laptop.segno(append([]string{"push"}, remote...)...)

		rig, err := agentrig.New(s.TempDir(), s.Rig.Bin, s.Rig.ModelURL)
		if err != nil {
			s.Fatal(err)
		}
		other := &machine{s, rig, filepath.Join(s.TempDir(), "store")}
		dir := filepath.Join(filepath.Dir(rig.Project), "other", "place")
		there := other.pull(append([]string{thread, "--to", dir}, remote...)...)
		if diff := cmp.Diff(s.Tree(), e2erig.Tree(s.T, dir)); diff != "" {
			s.Fatalf("the files there (-want +got):\n%s", diff)
		}
		if other.rig, err = rig.In(dir); err != nil {
			s.Fatal(err)
		}
		other.segno("enable", "claude")
		gamma := e2erig.Prompt("gamma", e2erig.Bash("echo 3 > c.txt"), "answer three")
		messages := resumed(s, other.rig, gamma, "--resume", there.Session)
		for _, want := range []string{"alpha", "answer one", "beta", "answer two"} {
			if !e2erig.Said(s.CallFor("gamma"), want) {
				s.Errorf("the agent there does not know %q: %+v", want, messages)
			}
		}
		other.segno(append([]string{"push"}, remote...)...)

		back := laptop.pull(append([]string{thread, "-y"}, remote...)...)
		if back.Outcome != "forwarded" || s.Read("c.txt") != "3\n" || s.Read("b.txt") != "2\n" {
			s.Fatalf("back on the laptop: %+v, and the files are\n%s", back, s.Tree())
		}
		s.Say(e2erig.Prompt("delta", "answer four"), "--resume", back.Session)
		if !e2erig.Said(s.CallFor("delta"), "answer three") {
			s.Error("the agent on the laptop does not know the turn of the other machine")
		}
		s.OnOneLine("alpha", "beta", "gamma", "delta")
	})
}
