package sessions_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/damage"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestDamageIsFoundAndHealed damages a session in many ways. segno sessions heal finds each damage, unless the
// agent reads the whole session in spite of it. With the command that heal prints, the agent reads the
// whole repaired copy. segno's model of the agent reads the same facts as the agent. The whole suite has
// every kind of damage.
func TestDamageIsFoundAndHealed(t *testing.T) {
	kinds := damage.Claude()
	for some := range slices.Chunk(soak.Seeds(t, 3, len(kinds)), 5) { // a scenario has a time limit
		t.Run(fmt.Sprint(some[0]), func(t *testing.T) {
			e2erig.ScenarioOnNewest(t, nil, func(s *e2erig.Stage) {
				s.Segno("disable", "claude")
				s.Model.Strict()
				a := damagedSessions(s)
				var table []string
				for _, seed := range some {
					table = append(table, a.Try(s, kinds, seed))
				}
				s.Logf("Claude Code %s\n%s", s.Version, strings.Join(table, "\n"))
			})
		})
	}
}

// damagedSessions has the agent write a session, and removes the session's file.
func damagedSessions(s *e2erig.Stage) *damage.Agent {
	run := func(word string) map[string]any { return e2erig.Bash("echo FACT-" + word + " | tr A-Z a-z") }
	session := s.Say(e2erig.Prompt("fact-p1", map[string]any{"thinking": "hm", "text": "fact-t1", "tools": []any{run("R1")}}, "fact-a1"))
	for _, prompt := range []string{
		e2erig.Prompt("fact-p2", "fact-a2"),
		e2erig.Prompt("fact-p3", map[string]any{"tools": []any{run("R3A"), run("R3B")}}, "fact-a3"),
		e2erig.Prompt("fact-p4", "fact-a4"),
		e2erig.Prompt("fact-p5", run("R5"), "fact-a5"),
	} {
		s.Say(prompt, "--resume", session)
	}
	path, err := s.Rig.Transcript(session)
	if err != nil {
		s.Fatal(err)
	}
	base := damage.NewFile(spread(s.Transcript(session)), damage.ClaudeMessage)
	if err := os.Remove(path); err != nil {
		s.Fatal(err)
	}
	c := claude.New(s.Rig.Config, claude.Options{})
	return &damage.Agent{
		Base: base, Session: session, Path: path, IsLenient: s.Version != agentrig.ClaudeOldest,
		ID:      func(seed uint64) string { return fmt.Sprintf("c1a0de00-0000-4000-8000-%012d", seed) },
		Heal:    func(path string) (string, int) { return s.Try("sessions", "heal", path, "--json") },
		Command: func(session string) []string { return []string{"claude", "--resume", session} },
		Resume:  func(dir string, command []string) damage.Reading { return readOf(s, dir, command) },
		Model: func(session, path string) ([]int, string) {
			d, err := c.Check(s.Ctx, segno.Source{Session: segno.SessionID(session), Path: path}, transcript.LintOptions{})
			if err != nil {
				return nil, err.Error()
			}
			return d.Before.Lines, d.Before.Refusal
		},
	}
}

// spread moves the turns of a session minutes apart, like the turns of people. If turns are close
// together, the agent can use a record of about the same time instead of a lost record.
func spread(text string) []byte {
	var first time.Time
	return regexp.MustCompile(`"timestamp":"[^"]*"`).ReplaceAllFunc([]byte(text), func(field []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(field[len(`"timestamp":"`):len(field)-1]))
		if err != nil {
			return field
		}
		if first.IsZero() {
			first = at
		}
		return []byte(`"timestamp":"` + first.Add(900*at.Sub(first)-30*24*time.Hour).UTC().Format("2006-01-02T15:04:05.000Z") + `"`)
	})
}

// readOf runs a command that continues a session, and returns the facts that the model receives.
func readOf(s *e2erig.Stage, dir string, command []string) (r damage.Reading) {
	if dir != "" && dir != s.Rig.Project {
		s.Errorf("the command is to run in %s", dir)
	}
	calls, rejected := len(s.Model.Calls()), len(s.Model.Rejected())
	res, err := s.Rig.Print(s.Ctx, "probe", command[1:]...)
	if err != nil {
		s.Fatal(err)
	}
	if why := s.Model.Rejected()[rejected:]; len(why) > 0 {
		r.Problem = "the API rejects " + why[0]
	} else if res.Code != 0 {
		r.Problem = strings.TrimSpace(res.Stderr + res.Stdout)
	}
	if sent := s.Model.Calls()[calls:]; len(sent) > 0 {
		r.Facts = e2erig.Facts(sent[0])
	}
	return r
}
