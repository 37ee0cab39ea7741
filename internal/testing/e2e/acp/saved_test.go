package acp_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

const tenLines = "l1\nl2\nl3\nl4\nl5\nl6\nl7\nl8\nl9\nl10\n"

// replaces returns the steps in which the agent replaces a line with its own tool for files.
func (s *acpStage) replaces(name, old, fresh string) []any {
	path := filepath.Join(s.Rig.Project, name)
	if s.agent.Agent.IsCodex() {
		return []any{s.patches("*** Update File: " + name + "\n@@\n-" + old + "\n+" + fresh)}
	}
	return []any{
		map[string]any{"tool": "Read", "input": map[string]any{"file_path": path}},
		map[string]any{"tool": "Edit", "input": map[string]any{"file_path": path, "old_string": old, "new_string": fresh}},
	}
}

// patches returns a step in which Codex applies a patch.
func (s *acpStage) patches(files string) map[string]any {
	return s.shell("apply_patch <<'EOF'\n*** Begin Patch\n" + files + "\n*** End Patch\nEOF")
}

// lastAnswer returns a step with the last text of a turn, which the model does not send before [acpStage.beforeTheAnswer] allows it.
func (s *acpStage) lastAnswer(text string) map[string]any {
	return map[string]any{"text": text, "until": filepath.Join(filepath.Dir(s.Rig.Project), text)}
}

// beforeTheAnswer waits until the agent has made all calls of a turn that ends with a step of [acpStage.lastAnswer], then calls save, and
// lets the model answer.
func (s *acpStage) beforeTheAnswer(prompt, text string, calls int, save func()) {
	s.Helper()
	s.Poll("the model's last call", func() bool {
		for _, c := range s.Model.Calls() {
			if c.HasText(prompt) && len(c.Results()) >= calls {
				return true
			}
		}
		return false
	})
	save()
	s.Write(filepath.Join("..", text), "")
}

// TestACPSavedAfterEdits saves files after the agent edited them and before its turn ends: another line, and a file of their
// own. An undo takes back the agent's lines and leaves those of the user.
func TestACPSavedAfterEdits(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest, agentrig.ClaudeACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": tenLines, "b.txt": tenLines})
			c := s.open()
			steps := append(s.replaces("a.txt", "l2", "agent"), s.replaces("b.txt", "l2", "agent")...)
			calls := len(steps)
			turn, err := c.Prompt(c.session, e2erig.Prompt("alpha", append(steps, s.lastAnswer("edited"))...))
			if err != nil {
				t.Fatal(err)
			}
			s.beforeTheAnswer("alpha", "edited", calls, func() {
				s.Write("a.txt", strings.Replace(s.Read("a.txt"), "l9", "user", 1))
				s.Write("c.txt", "user\n")
			})
			if stop, err := turn.Stop(s.Ctx); err != nil || stop.Reason != "end_turn" {
				t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
			}
			c.say("/undo")
			for name, want := range map[string]string{"a.txt": strings.Replace(tenLines, "l9", "user", 1), "b.txt": tenLines, "c.txt": "user\n"} {
				if got := s.Read(name); got != want {
					t.Errorf("after the undo %s holds %q, want %q", name, got, want)
				}
			}
			c.say("/redo")
			if got, want := s.Read("a.txt"), strings.NewReplacer("l2", "agent", "l9", "user").Replace(tenLines); got != want {
				t.Errorf("after the redo a.txt holds %q, want %q", got, want)
			}
			c.hangUp()
		})
	}
}

// TestACPCodexPatches undoes one patch that adds, changes, moves and deletes files. codex-acp shows neither the old name of a moved file
// nor that it deletes it.
func TestACPCodexPatches(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": tenLines, "old.txt": tenLines, "gone.txt": "1\n", "plain.txt": "2\n"})
			before := s.Tree()
			c := s.open()
			c.say(e2erig.Prompt("alpha",
				s.patches("*** Add File: dir/new.txt\n+new\n*** Update File: a.txt\n@@\n-l2\n+agent\n*** Delete File: gone.txt"),
				s.patches("*** Update File: old.txt\n*** Move to: moved.txt\n@@\n-l2\n+agent"), "done"))
			after := s.Tree()
			if !s.Exists("dir/new.txt") || !s.Exists("moved.txt") || s.Exists("old.txt") || s.Exists("gone.txt") {
				t.Fatalf("the patches made\n%s", after)
			}
			c.say("/undo")
			if got := s.Tree(); got != before {
				t.Errorf("after the undo the files are\n%s\nwant\n%s", got, before)
			}
			c.say("/redo")
			if got := s.Tree(); got != after {
				t.Errorf("after the redo the files are\n%s\nwant\n%s", got, after)
			}
			c.hangUp()
		})
	}
}

// TestACPSavedBesideAnAnswer saves files while the agent answers without a call. They are the user's: an undo of the turn leaves them.
func TestACPSavedBesideAnAnswer(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest, agentrig.ClaudeACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > new.txt"), "one"))
			turn, err := c.Prompt(c.session, e2erig.Prompt("beta", s.lastAnswer("two")))
			if err != nil {
				t.Fatal(err)
			}
			s.beforeTheAnswer("beta", "two", 0, func() {
				s.Write("a.txt", "user\n")
				s.Write("mine.txt", "user\n")
			})
			if stop, err := turn.Stop(s.Ctx); err != nil || stop.Reason != "end_turn" {
				t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
			}
			c.say("/undo")
			if a, mine := s.Read("a.txt"), s.Exists("mine.txt"); a != "user\n" || !mine {
				t.Errorf("after the undo a.txt holds %q, and mine.txt exists: %v", a, mine)
			}
			c.say("/undo")
			if s.Exists("new.txt") || s.Read("a.txt") != "user\n" {
				t.Errorf("the second undo left new.txt: %v, and %q", s.Exists("new.txt"), s.Read("a.txt"))
			}
			c.hangUp()
		})
	}
}

// TestACPCodexCutCommand kills Codex as soon as a command has begun, which is before codex-acp reports the command. What the command made
// belongs to the turn, which another process continues.
func TestACPCodexCutCommand(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": tenLines})
			c := s.open()
			c.say(e2erig.Prompt("alpha", "answer to alpha"))
			before := s.Tree()
			steps := append(s.replaces("a.txt", "l2", "agent"), s.half(), "answer to beta")
			turn, err := c.Prompt(c.session, e2erig.Prompt("beta", steps...))
			if err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			if err := syscall.Kill(-c.agentPID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if stop, err := turn.Stop(s.Ctx); err != nil || stop.Reason != "end_turn" {
				t.Errorf("the turn ended with %q, %v", stop.Reason, err)
			}
			if !s.Exists("begun") || !s.Exists("ledger") {
				t.Fatal("the command made no files")
			}
			c.say("/undo")
			if got := s.Tree(); got != before {
				t.Errorf("after the undo the files are\n%s\nwant\n%s", got, before)
			}
			c.hangUp()
		})
	}
}
