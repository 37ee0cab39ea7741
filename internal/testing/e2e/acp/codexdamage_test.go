package acp_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACPCodexDamaged damages the session of Codex between two runs. The conversation continues with
// every turn, from the agent's file or from the store, never from a summary.
func TestACPCodexDamaged(t *testing.T) {
	t.Parallel()
	damages := map[string]func(s *acpStage, path string) error{
		"truncated": func(_ *acpStage, path string) error { return os.Truncate(path, 25_000) },
		"empty":     func(_ *acpStage, path string) error { return os.Truncate(path, 0) },
		"deleted":   func(_ *acpStage, path string) error { return os.Remove(path) },
		"torn": func(_ *acpStage, path string) error { // Codex does not resume it
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString(`{"timestamp":"caf` + "\xc3")
			return errors.Join(err, f.Close())
		},
		"fifo": func(_ *acpStage, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600)
		},
		"archived": func(s *acpStage, path string) error {
			dir := filepath.Join(s.Rig.Home, ".codex", "archived_sessions")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			return os.Rename(path, filepath.Join(dir, filepath.Base(path)))
		},
	}
	for _, name := range e2erig.Cases(t, []string{"archived"}, "deleted", "truncated", "empty", "torn", "fifo") {
		for _, agent := range codexAgents(t) {
			t.Run(name+"/"+string(agent), func(t *testing.T) { codexDamaged(t, agent, damages[name]) })
		}
	}
}

func codexDamaged(t *testing.T, agent agentrig.ACPAgent, damage func(*acpStage, string) error) {
	s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
	c := s.open()
	c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer to alpha"))
	beta := e2erig.Prompt("beta", "answer to beta")
	c.say(beta)
	c.hangUp()
	files, err := s.agent.Transcripts()
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := damage(s, files[0]); err != nil {
		t.Fatal(err)
	}
	id := c.session
	c = s.connect()
	c.begin("load", id, nil)
	if got := c.shown(); !strings.Contains(got, "answer to alpha") || !strings.Contains(got, "answer to beta") {
		t.Errorf("a load shows %q", got)
	}
	c.say(e2erig.Prompt("gamma", "answer to gamma"))
	s.heard("gamma", []string{"alpha", "answer to alpha", "answer to beta"}, nil)
	c.say("/undo 2")
	c.say(beta)
	s.sameRequest("beta")
	c.hangUp()
	if got := s.fidelities(); strings.Contains(got, "preamble") {
		t.Errorf("the chain is %s", got)
	}
}
