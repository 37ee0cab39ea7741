package opencode_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// task returns a call of OpenCode's tool that starts a subagent, which runs a command, or that continues one by its id.
func task(agent *agentrig.ACP, word, command, id string) map[string]any {
	input := map[string]any{"description": "d", "subagent_type": "general", "prompt": e2erig.Prompt(word, agent.Shell(command), "sub done")}
	if id != "" {
		input["task_id"] = id
	}
	return map[string]any{"tool": "task", "input": input}
}

// TestContinuedSubagent continues a subagent in another process of OpenCode than the one that started it. Its work belongs to
// the turn that continued it.
func TestContinuedSubagent(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	session, err := agent.RunOpenCode(s.Ctx, e2erig.Prompt("alpha\n", task(agent, "sub", "echo 1 > a.txt", ""), "done"))
	if err != nil {
		s.Fatal(err)
	}
	first := s.Tree()
	var id string
	for _, c := range s.Model.Requests() {
		if m := regexp.MustCompile(`ses_\w+`).FindString(string(c.Body)); m != "" && m != session {
			id = m
		}
	}
	if id == "" {
		s.Fatal("the model did not receive the id of the subagent")
	}
	if _, err := agent.RunOpenCode(s.Ctx, e2erig.Prompt("beta\n", task(agent, "again", "echo 2 > a.txt; echo x > b.txt", id), "done"), "--session", session); err != nil {
		s.Fatal(err)
	}
	turns := s.Turns()
	if len(turns) != 2 || turns[1].Shared || turns[1].Shell != 1 {
		s.Errorf("the turns are %+v", turns)
	}
	s.Segno("undo", "-y")
	if diff := cmp.Diff(first, s.Tree()); diff != "" {
		s.Errorf("files after undo (-want +got):\n%s", diff)
	}
}
