// Package agents_test continues conversations of one real agent in another.
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
	"github.com/dalsegno/segno/internal/testing/soak"
)

// pair is a version of Claude Code and one of Codex that share a project and a store.
type pair struct {
	*e2erig.Stage
	codex *agentrig.Codex
}

// drawnScenario runs a scenario if the test is drawn.
func drawnScenario(t *testing.T, isNewest bool, do func(*pair)) {
	t.Helper()
	if soak.IsDrawn(t) {
		scenario(t, isNewest, do)
	}
}

// scenario runs on the oldest or the newest pair of versions; under SEGNO_SOAK, on both.
func scenario(t *testing.T, isNewest bool, do func(*pair)) {
	t.Helper()
	t.Parallel()
	claudes, codexes := agentrig.ClaudeVersions(), agentrig.CodexVersions()
	for n, v := range claudes {
		if !soak.IsWhole() && len(claudes) > 1 && isNewest != (n > 0) {
			continue
		}
		other := codexes[min(n, len(codexes)-1)]
		t.Run(fmt.Sprintf("%s with %s", v, other), func(t *testing.T) {
			t.Parallel()
			s, agent := e2erig.Pair(t, v, other, map[string]string{"a.txt": "0\n"})
			do(&pair{s, agent})
		})
	}
}

// resumed is the output of resume --with --json.
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
	s.JSON(&r, append([]string{"resume", "-y", "--with", agent}, args...)...)
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

// flat returns the conversation of a request as one text per block, without the agent's own texts and the
// model's thoughts, so that a test can compare the requests of both agents.
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

// history returns flat for a model call, up to the prompt that begins with a word.
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
	scenario(t, true, func(s *pair) {
		long := "seq 5000"
		if s.codex.Version == agentrig.CodexOldest { // this version shortens long results
			long = "seq 5"
		}
		session := s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), e2erig.Bash(long), "one"))
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

// TestCodexToClaude continues a session of Codex in Claude Code, undoes a turn there, forks the thread and
// continues the fork.
func TestCodexToClaude(t *testing.T) {
	drawnScenario(t, false, func(s *pair) {
		shell := func(cmd string) map[string]any {
			return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": cmd}}
		}
		session := s.exec(e2erig.Prompt("alpha", shell("echo 1 > a.txt"), "one"))
		s.exec(e2erig.Prompt("beta", map[string]any{"thinking": "hm", "text": "two calls", "tools": []any{shell("echo x"), shell("echo y")}},
			map[string]any{"tool": "apply_patch", "input": "*** no patch"}, "two é 日本"), session)
		s.exec(e2erig.Prompt("gamma", shell("echo 3 > c.txt"), "three"), session)
		want := history(s.T, s.CallFor("gamma"), "gamma")
		thread := s.Turns()[0].Thread

		var dry resumed
		s.JSON(&dry, "resume", "t2", "--with", "claude", "--dry-run")
		r := s.with("claude", "t2")
		if again := s.with("claude", "t2"); again.Session != r.Session || dry.Session != "" || dry.Messages != r.Messages {
			s.Errorf("the same again is %+v, first %+v, planned %+v", again, r, dry)
		}
		if s.Exists("c.txt") || s.Read("a.txt") != "1\n" {
			s.Error("the files are not those of turn 2")
		}
		s.Say(e2erig.Prompt("delta", s.Writes("new.txt", "4\n"), "four"), "--resume", r.Session)
		got := history(s.T, s.CallFor("delta"), "delta")
		for i, line := range want { // Claude Code's API allows only objects as inputs
			want[i] = strings.Replace(line, "apply_patch null", `apply_patch {"input":"*** no patch"}`, 1)
		}
		s.same("Claude's model", want, got)

		s.Say(e2erig.Prompt("epsilon", s.Writes("new.txt", "5\n"), "five"), "--resume", r.Session)
		var moved struct {
			Session string
			Command []string
		}
		s.JSON(&moved, "undo", "2", "-y", "--thread", thread)
		if moved.Session == "" || moved.Command[0] != "claude" || s.Exists("new.txt") {
			s.Errorf("undo continues in %+v", moved)
		}
		s.Say(e2erig.Prompt("zeta", "six"), "--resume", moved.Session)
		s.same("after undo", want, history(s.T, s.CallFor("zeta"), "zeta"))
		ts := s.Turns("--thread", thread)
		if c := last(ts, 1); c.Session != moved.Session || c.Parent == nil || c.Agent != "claude" {
			s.Errorf("the turn after undo is %+v", c)
		}

		s.Say(e2erig.Prompt("iota", "rewound"), "--resume", moved.Session, "--resume-session-at", firstAnswer(s, moved.Session))
		if got := history(s.T, s.CallFor("iota"), "iota"); len(got) >= len(want) {
			s.Errorf("the rewound model was sent\n%s", strings.Join(got, "\n"))
		}
		ts = s.Turns("--thread", thread)
		if rewound := ts[len(ts)-1]; rewound.Parent == nil || *rewound.Parent != *last(ts, 2).Parent {
			s.Errorf("the rewound turn is %+v after %+v", rewound, last(ts, 2))
		}

		var forked struct {
			Session    string
			SessionDir string `json:"session_dir"`
			Command    []string
		}
		s.JSON(&forked, "fork", "t4", "--to", s.Path("../forked"), "--thread", thread)
		there, err := s.Rig.In(forked.SessionDir)
		if err != nil {
			s.Fatal(err)
		}
		s.Rig = there
		s.Say(e2erig.Prompt("kappa", "seven"), "--resume", forked.Session)
		if got := history(s.T, s.CallFor("kappa"), "kappa"); len(got) < len(want)+4 || !slices.Equal(got[:len(want)], want) {
			s.Errorf("the fork's model was sent\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestSegno continues a session of Claude Code in segno's own agent, and then in Codex.
func TestSegno(t *testing.T) {
	drawnScenario(t, true, func(s *pair) {
		session := s.Say(e2erig.Prompt("alpha", map[string]any{"thinking": "hm", "text": "two calls", "tools": []any{e2erig.Bash("echo x"), s.Writes("b.txt", "1\n")}}, "one"))
		s.Say(e2erig.Prompt("probe", "probed"), "--resume", session, "--fork-session")
		want := history(s.T, s.LastCall(), "probe")
		thread := s.Turns()[0].Thread
		chat := s.with("segno", "t1", "--thread", thread)
		s.Segno("chat", "--session", chat.Session, "--model", "anthropic/claude-fake", "-p", e2erig.Prompt("beta", map[string]any{"tool": "ls", "input": map[string]any{"path": "."}}, "two"))
		s.same("the chat's model", want, history(s.T, s.CallFor("beta"), "beta"))
		s.Segno("chat", "--session", chat.Session, "--model", "anthropic/claude-fake", "-p", e2erig.Prompt("gamma", "three"))
		want = history(s.T, s.CallFor("gamma"), "gamma")

		r := s.with("codex", "t2", "--thread", chat.Session)
		s.exec(e2erig.Prompt("delta", "four"), r.Session)
		s.same("Codex's model", want, history(s.T, s.CallFor("delta"), "delta"))

		var present resumed
		if s.JSON(&present, "resume", "--thread", chat.Session, "--print"); present.Session != r.Session {
			s.Errorf("resume continues in %+v, not in %s", present, r.Session)
		}

		back := s.with("claude", "--thread", chat.Session)
		if back.Native == "" || !slices.Equal(back.From, []string{"segno", "codex"}) {
			s.Errorf("the way back is %+v", back)
		}
		s.Say(e2erig.Prompt("epsilon", "five"), "--resume", back.Session)
		got := history(s.T, s.CallFor("epsilon"), "epsilon")
		s.same("Claude's model", append(want, "user: "+e2erig.Prompt("delta", "four"), "assistant: four"), got)
	})
}

// last returns the n-th turn from the end.
func last(ts []e2erig.Checkpoint, n int) e2erig.Checkpoint { return ts[len(ts)-n] }

// firstAnswer returns the id of the model's first record with a text in a session of Claude Code.
func firstAnswer(s *pair, session string) string {
	s.Helper()
	for line := range strings.Lines(s.Transcript(session)) {
		var r struct {
			Type, UUID string
			Message    struct{ Content json.RawMessage }
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.Type == "assistant" && strings.Contains(string(r.Message.Content), `"text"`) {
			return r.UUID
		}
	}
	s.Fatal("no answer")
	return ""
}

// TestCompactionAfterTheSwitch continues a session of Codex in Claude Code, which compacts the conversation.
// The way back has the summary instead of Codex's own session.
func TestCompactionAfterTheSwitch(t *testing.T) {
	drawnScenario(t, true, func(s *pair) {
		s.exec(e2erig.Prompt("alpha", "one"))
		r := s.with("claude")
		s.Say(e2erig.Prompt("beta", "two"), "--resume", r.Session)
		s.Say("/compact", "--resume", r.Session)
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", r.Session)

		back := s.with("codex")
		if back.Native != "" || !slices.Equal(back.From, []string{"claude"}) {
			s.Errorf("the way back is %+v", back)
		}
		s.exec(e2erig.Prompt("delta", "four"), back.Session)
		got := strings.Join(history(s.T, s.CallFor("delta"), "delta"), "\n")
		if !strings.Contains(got, "This session is being continued") || !strings.HasSuffix(got, "three") || strings.Contains(got, "assistant: one") {
			s.Errorf("Codex's model was sent\n%s", got)
		}
	})
}
