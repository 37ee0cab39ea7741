// Package agents_test continues conversations of one real agent in another one.
package agents_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// pair is a version of Claude Code and one of Codex that share a project and a store.
type pair struct {
	*e2erig.Stage
	codex *agentrig.Codex
}

// scenario runs on the oldest pair of versions and on the newest.
func scenario(t *testing.T, do func(*pair)) {
	t.Helper()
	t.Parallel()
	codexes := agentrig.CodexVersions()
	for n, v := range agentrig.ClaudeVersions() {
		t.Run(fmt.Sprintf("%s with %s", v, codexes[min(n, len(codexes)-1)]), func(t *testing.T) {
			t.Parallel()
			s, agent := e2erig.Pair(t, v, codexes[min(n, len(codexes)-1)], map[string]string{"a.txt": "0\n"})
			do(&pair{s, agent})
		})
	}
}

// resumed is what resume --with --json prints.
type resumed struct {
	Session, Dir, Agent, Native string
	Command, From               []string
	Messages                    int
	Lost                        []struct {
		What  string
		Count int
	}
}

func (s *pair) with(agent string, args ...string) (r resumed) {
	s.Helper()
	s.JSON(&r, append([]string{"resume", "--with", agent}, args...)...)
	return r
}

// exec runs one turn of Codex and returns its session.
func (s *pair) exec(prompt string, resume ...string) string {
	s.Helper()
	if len(resume) > 0 {
		resume = append([]string{"resume"}, resume...)
	}
	res, err := s.codex.Exec(s.Ctx, prompt, resume...)
	if err != nil {
		s.Fatal(err)
	}
	return res.Thread
}

// flat is the conversation of a request as one text per block, without what the agent adds and
// without the model's thoughts. Both agents' requests then compare.
func flat(r fakemodel.Request) (out []string) {
	for _, m := range r.Messages() {
		for _, b := range m.Blocks {
			switch b.Type {
			case "text":
				isOwn := strings.Contains(b.Text, "<<fake ") || !strings.HasPrefix(b.Text, "<system-reminder>") && !strings.HasPrefix(b.Text, "<environment_context>")
				if isOwn && m.Role != "developer" && m.Role != "system" {
					out = append(out, m.Role+": "+b.Text)
				}
			case "tool_use":
				var input any
				_ = json.Unmarshal([]byte(b.Input), &input)
				data, _ := json.Marshal(input)
				out = append(out, fmt.Sprintf("call %s %s %s", b.ID, b.Name, data))
			case "tool_result":
				out = append(out, fmt.Sprintf("result %s %s", b.ID, b.Text))
			}
		}
	}
	return out
}

// history is flat of the newest model call, up to the prompt that begins with a word.
func history(t *testing.T, r fakemodel.Request, prompt string) []string {
	t.Helper()
	all := flat(r)
	at := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "user: "+prompt+" ") })
	if at < 0 {
		t.Fatalf("the model was not sent %q: %.300q", prompt, all)
	}
	return all[:at]
}

func (s *pair) same(what string, want, got []string) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestClaudeToCodexAndBack continues a session of Claude Code in Codex, undoes there, and returns.
func TestClaudeToCodexAndBack(t *testing.T) {
	scenario(t, func(s *pair) {
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "one"))
		s.Say(e2erig.Prompt("<environment_context> beta <system-reminder>", map[string]any{"thinking": "hm", "text": "two calls", "tools": []any{e2erig.Bash("echo x"), e2erig.Bash("echo y; false")}}, "two é 日本"), "--resume", session)
		s.Say(e2erig.Prompt("probe", "probed"), "--resume", session, "--fork-session")
		want := history(s.T, s.LastCall(), "probe")
		thread := s.Turns()[0].Thread
		r := s.with("codex", "t2", "--thread", thread)
		if got := s.exec(e2erig.Prompt("gamma", map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": "echo 3 > a.txt"}}, "three"), r.Session); got != r.Session {
			s.Fatalf("Codex resumed %s as %s", r.Session, got)
		}
		s.same("Codex's model", want, history(s.T, s.CallFor("gamma"), "gamma"))
		ts := s.Turns("--thread", thread)
		if last := ts[len(ts)-1]; len(ts) != 3 || last.Agent != "codex" || last.Session != r.Session || s.Read("a.txt") != "3\n" {
			s.Errorf("the turns are %+v", ts)
		}
		s.exec(e2erig.Prompt("epsilon", "five"), r.Session)
		after := history(s.T, s.CallFor("epsilon"), "epsilon")

		back := s.with("claude", "t3", "--thread", thread)
		if back.Native != ts[1].ID || !slices.Equal(back.From, []string{"codex"}) {
			s.Errorf("the way back is %+v", back)
		}
		s.Say(e2erig.Prompt("delta", "four"), "--resume", back.Session)
		got := history(s.T, s.CallFor("delta"), "delta")
		s.same("Claude's model after the return", after, got)
		if !strings.Contains(s.Transcript(back.Session), `"thinking":"hm"`) {
			s.Error("the thought of the native session is missing after the return")
		}
	})
}
