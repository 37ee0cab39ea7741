package codex_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/codex"
)

// damageCase is a way to damage a session of Codex, and the reaction of Codex to it.
type damageCase struct {
	code   string
	damage func(lines []string) []string
	fails  bool   // Codex does not resume the session
	lost   string // if Codex resumes it: the text that the model does not receive
	keeps  []string
}

func damageCases() []damageCase {
	all := []string{"text alpha", "text one", "text beta", "text two"}
	without := func(word string) func([]string) []string {
		return func(lines []string) []string {
			return slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, word) })
		}
	}
	return []damageCase{
		{code: transcript.CodeNotUTF8, damage: func(lines []string) []string {
			i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "two") })
			lines[i] = strings.Replace(lines[i], "two", "two\xe6\x97", 1)
			return lines
		}, fails: true, keeps: all},
		{code: transcript.CodeTorn, damage: func(lines []string) []string {
			return append(lines, `{"timestamp":"2026-11-20T12:08:14.178Z","type":"event_msg","payload":{"message":"`+"\xe6\x97")
		}, fails: true, keeps: all},
		{code: transcript.CodeNoMeta, damage: func(lines []string) []string { return lines[1:] }, fails: true, keeps: all},
		{code: transcript.CodeOrdinal, damage: func(lines []string) []string {
			last := len(lines) - 2 // an empty string follows the last newline
			lines[last] = regexp.MustCompile(`"ordinal":\d+,`).ReplaceAllString(lines[last], "")
			return lines
		}, fails: true, keeps: all},
		{code: transcript.CodeNoResult, damage: without(`"type":"function_call_output"`), lost: "ran it", keeps: append(all, "result of this call was lost")},
		{code: transcript.CodeNoCall, damage: without(`"type":"function_call"`), lost: "ran it", keeps: append(all, "ran it")},
		{code: transcript.CodeGlued, damage: func(lines []string) []string {
			i := slices.IndexFunc(lines, func(l string) bool {
				return strings.Contains(l, `"type":"response_item"`) && strings.Contains(l, "beta")
			})
			lines[i] = `{"timestamp":"2026-11-20T12:08:14.1` + lines[i]
			return lines
		}, lost: "text beta", keeps: all},
	}
}

// TestAHealedSessionResumes damages a session of Codex, resumes it, and resumes the repaired copy.
// If SEGNO_SOAK is set, it does so for each kind of damage, otherwise for two kinds.
func TestAHealedSessionResumes(t *testing.T) {
	scenario(t, drawn(t), func(s *stage) {
		s.model.Strict()
		session, _ := s.say(s.agent, e2erig.Prompt("alpha", map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": "echo ran it | tr a-z a-z"}}, "one"))
		s.say(s.agent, e2erig.Prompt("beta", "two"), "resume", string(session))
		c := s.transcripts(s.agent)
		src, err := c.Find(s.ctx, session)
		if err != nil {
			s.Fatal(err)
		}
		text, err := os.ReadFile(src.Path)
		if err != nil {
			s.Fatal(err)
		}
		cases := damageCases()
		if !soak.IsWhole() {
			cases = cases[2:5:5]
			cases[0].damage = chain(cases[0].damage, damageCases()[0].damage)
			cases = slices.Delete(cases, 1, 2)
		}
		for n, d := range cases {
			if d.code == transcript.CodeOrdinal && !strings.Contains(string(text), `"history_mode":"paginated"`) {
				continue // this version does not write ordinals
			}
			broken := segno.SessionID(fmt.Sprintf("01a20562-62f8-7731-83e7-0000000000%02d", n))
			damaged := strings.ReplaceAll(strings.Join(d.damage(strings.SplitAfter(string(text), "\n")), ""), string(session), string(broken))
			path := strings.ReplaceAll(src.Path, string(session), string(broken))
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				s.Fatal(err)
			}
			healed := segno.SessionID(fmt.Sprintf("01a20562-62f8-7731-83e7-0000000001%02d", n))
			copied, findings, err := c.Repair(s.ctx, segno.Source{Session: broken, Path: path}, segno.Target{Session: healed, Dir: s.agent.Project}, transcript.LintOptions{})
			if err != nil || !slices.ContainsFunc(findings.Findings, func(f transcript.Finding) bool { return f.Code == d.code }) {
				s.Errorf("%s: found %+v, %v", d.code, findings, err)
				continue
			}
			if left, err := c.Check(s.ctx, copied, transcript.LintOptions{}); err != nil || len(left.Findings) > 0 {
				s.Errorf("%s: the copy has %+v, %v", d.code, left, err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != damaged || filepath.Dir(path) != filepath.Dir(src.Path) {
				s.Errorf("%s: the repair changed the session itself: %v", d.code, err)
			}
			s.checkBroken(d, string(broken))
			_, got := s.say(s.agent, "probe", "resume", string(healed))
			for _, word := range d.keeps {
				if text := conversation(got); !strings.Contains(text, word) {
					s.Errorf("%s: after the repair the model does not get %q, but\n%s", d.code, word, text)
				}
			}
		}
		if why := s.model.Rejected(); len(why) > 0 {
			s.Errorf("the API rejects %q", why)
		}
	})
}

// checkBroken checks how Codex reacts to a damaged session.
func (s *stage) checkBroken(d damageCase, session string) {
	before := len(s.model.Calls())
	res, err := s.agent.Exec(s.ctx, "probe", "resume", session)
	calls := s.model.Calls()[before:]
	failed := err != nil || len(calls) == 0 || !strings.Contains(conversation(calls[0].Messages()), "alpha")
	if failed != d.fails {
		s.Errorf("%s: resuming the damaged session failed: %v, want %v: %v %s", d.code, failed, d.fails, err, res.Stderr)
	}
	if !failed && d.lost != "" && strings.Contains(conversation(calls[0].Messages()), d.lost) {
		s.Errorf("%s: the model gets %q before the repair", d.code, d.lost)
	}
}

// chain returns a function that applies one damage after the other.
func chain(steps ...func([]string) []string) func([]string) []string {
	return func(lines []string) []string {
		for _, step := range steps {
			lines = step(lines)
		}
		return lines
	}
}

// conversation returns the words of the user, the agent and the tools, without the script and the calls.
func conversation(all []fakemodel.Message) string {
	var b strings.Builder
	for _, m := range all {
		for _, block := range m.Blocks {
			text, _, _ := strings.Cut(block.Text, "<<fake")
			fmt.Fprintf(&b, "%s %s %.300s\n", m.Role, block.Type, text)
		}
	}
	return b.String()
}

// TestAHealedThreadGoesOn heals a recorded session of Codex. segno resume continues with the copy, and
// its next turn is on the same thread.
func TestAHealedThreadGoesOn(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	versions := agentrig.CodexVersions()
	s, agent := e2erig.Codex(t, versions[len(versions)-1], map[string]string{"a.txt": "0\n"})
	res, err := agent.Exec(s.Ctx, e2erig.Prompt("alpha", "one"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := codex.New(agent.CodexHome(), codex.Options{}).Find(s.Ctx, segno.SessionID(res.Thread))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(src.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("{\"torn\":\"\xe6\x97")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	var healed struct {
		Healed struct{ Session, Thread string }
	}
	s.JSON(&healed, "sessions", "heal", res.Thread)
	var resumed struct{ Session string }
	s.JSON(&resumed, "resume")
	if resumed.Session != healed.Healed.Session {
		t.Errorf("resume continues with %s, not with the copy %s", resumed.Session, healed.Healed.Session)
	}
	if _, err := agent.Exec(s.Ctx, e2erig.Prompt("beta", "two"), "resume", healed.Healed.Session); err != nil {
		t.Fatal(err)
	}
	if !e2erig.Said(s.CallFor("beta"), "alpha") {
		t.Error("the model does not get the first turn")
	}
	if ts := s.Turns(); len(ts) != 2 || ts[1].Thread != healed.Healed.Thread || ts[1].Session != healed.Healed.Session {
		t.Errorf("the turns are %+v", ts)
	}
}
