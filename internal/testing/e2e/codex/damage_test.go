package codex_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/damage"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestDamageIsFoundAndHealed damages a session in many ways. segno sessions heal finds each damage, unless Codex
// reads the whole session in spite of it. Codex reads the whole repaired copy, and segno's model of Codex
// reads the same facts as Codex. The whole suite has every kind of damage.
func TestDamageIsFoundAndHealed(t *testing.T) {
	t.Parallel()
	kinds := damage.Codex()
	seeds := soak.Seeds(t, 3, len(kinds))
	for _, v := range newest(t) {
		for some := range slices.Chunk(seeds, 5) { // a stage has a time limit
			t.Run(fmt.Sprint(v, " ", some[0]), func(t *testing.T) {
				t.Parallel()
				s, agent := e2erig.Codex(t, v, nil)
				s.Segno("disable", "codex")
				s.Model.Strict()
				a := damagedSessions(s, agent)
				var table []string
				for _, seed := range some {
					table = append(table, a.Try(s, kinds, seed))
				}
				s.Logf("Codex %s\n%s", v, strings.Join(table, "\n"))
			})
		}
	}
}

// damagedSessions has Codex write a session.
func damagedSessions(s *e2erig.Stage, agent *agentrig.Codex) *damage.Agent {
	run := func(word string) map[string]any {
		return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": "echo FACT-" + word + " | tr A-Z a-z"}}
	}
	var session string
	var resume []string
	for _, prompt := range []string{
		e2erig.Prompt("fact-p1", run("R1"), "fact-a1"),
		e2erig.Prompt("fact-p2", "fact-a2"),
		e2erig.Prompt("fact-p3", map[string]any{"tools": []any{run("R3A"), run("R3B")}}, "fact-a3"),
		e2erig.Prompt("fact-p4", "fact-a4"),
		e2erig.Prompt("fact-p5", run("R5"), "fact-a5"),
	} {
		res, err := agent.Exec(s.Ctx, prompt, resume...)
		if err != nil {
			s.Fatal(err)
		}
		session = res.Thread
		resume = []string{"resume", session}
	}
	path := rolloutOf(s, agent, session)
	data, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	c := codex.New(agent.CodexHome(), codex.Options{})
	return &damage.Agent{
		Base: damage.NewFile(data, damage.CodexMessage), Session: session, Path: path, IsLenient: agent.Version == agentrig.CodexOldest,
		ID:      func(seed uint64) string { return fmt.Sprintf("01a20562-62f8-7731-83e7-%012d", seed) },
		Heal:    func(path string) (string, int) { return s.Try("sessions", "heal", path, "--json") },
		Command: func(session string) []string { return []string{"codex", "resume", session, "-C", agent.Project} },
		Resume:  func(_ string, command []string) damage.Reading { return readOf(s, agent, command[2]) },
		Model: func(session, path string) ([]int, string) {
			d, err := c.Check(s.Ctx, segno.Source{Session: segno.SessionID(session), Path: path}, transcript.LintOptions{})
			if err != nil {
				return nil, err.Error()
			}
			return d.Before.Lines, d.Before.Refusal
		},
	}
}

// readOf continues a session and returns the facts that the model receives. It reorders the arguments,
// because codex exec takes them in another order than codex.
func readOf(s *e2erig.Stage, agent *agentrig.Codex, session string) (r damage.Reading) {
	calls, rejected := len(s.Model.Calls()), len(s.Model.Rejected())
	res, err := agent.Exec(s.Ctx, "probe", "resume", session)
	switch why := s.Model.Rejected()[rejected:]; {
	case len(why) > 0:
		r.Problem = "the API rejects " + why[0]
	case err != nil:
		r.Problem = err.Error()
	case res.Thread != session:
		r.Problem = "Codex continues " + res.Thread
	}
	if sent := s.Model.Calls()[calls:]; len(sent) > 0 {
		r.Facts = e2erig.Facts(sent[0])
	}
	return r
}
