package sessions_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// damageCase is a way to damage a session, and the agent's reaction to it.
type damageCase struct {
	code   string
	damage func(lines []string) []string
	fails  bool // the API answers 400; else the agent silently loses lost
	lost   string
	keeps  []string // texts that the model gets after the repair
}

// damageCases returns ways to damage a session with the prompts alpha, which calls a tool, beta and
// gamma.
func damageCases() []damageCase {
	all := []string{"text alpha", "text one", "text beta", "text two", "text gamma", "text three"}
	edit := func(word, pattern, by string) func([]string) []string {
		return func(lines []string) []string {
			i := indexOf(lines, word)
			lines[i] = regexp.MustCompile(pattern).ReplaceAllLiteralString(lines[i], by)
			return lines
		}
	}
	without := func(word string) func([]string) []string {
		return func(lines []string) []string {
			i := indexOf(lines, word)
			return slices.Delete(lines, i, i+1)
		}
	}
	const content = `"content":"(\\.|[^"\\])*"`
	return []damageCase{
		{code: "missing-parent", damage: func(lines []string) []string {
			i := indexOf(lines, `"text":"two"`)
			lines[i] = regexp.MustCompile(`"timestamp":"[^"]*"`).ReplaceAllLiteralString(lines[i], `"timestamp":"2031-01-01T00:00:00.000Z"`)
			i = indexOf(lines, `"content":"beta`)
			return slices.Delete(lines, i, i+1)
		}, lost: "text alpha", keeps: []string{"text alpha", "text one", "text two", "text gamma", "text three"}},
		{code: "call-without-result", damage: without(`"type":"tool_result"`), lost: " tool_use ", keeps: append(all, " tool_use ", "result of this call was lost")},
		{code: "result-without-call", damage: without(`"type":"tool_use"`), lost: "text ran it", keeps: append(all, "text ran it")},
		{code: "unsigned-thinking", damage: edit(`"type":"thinking"`, `"signature":"[^"]*"`, `"signature":""`), fails: true, keeps: all},
		{code: "bad-image", damage: edit(`"content":"gamma`, content, `"content":[`+imageBlock("image/png", 9000)+`,{"type":"text","text":"gamma"}]`), fails: true, keeps: all},
		{code: "bad-image", damage: edit(`"content":"gamma`, content, `"content":[`+imageBlock("image/jpeg", 20)+`,{"type":"text","text":"gamma"}]`), fails: true, keeps: append(all, "user image ")},
		{code: "bad-image", damage: edit(`"content":"gamma`, content, `"content":[`+strings.Repeat(imageBlock("image/png", 2100)+",", 21)+`{"type":"text","text":"gamma"}]`), fails: true, keeps: all},
		{code: "empty-text", damage: edit(`"type":"tool_result"`, `"content":"ran it"`, `"content":[{"type":"text","text":""}]`), fails: true, keeps: all},
		{code: "glued-lines", damage: func(lines []string) []string {
			i := indexOf(lines, `"content":"beta`)
			lines[i] = `{"type":"last-prompt","sessionId":"x","leaf` + strings.TrimSuffix(lines[i], "\n") + lines[i+1]
			return slices.Delete(lines, i+1, i+2)
		}, lost: "text beta", keeps: all},
		{code: "two-writers", damage: func(lines []string) []string {
			i, k := indexOf(lines, `"text":"two"`), indexOf(lines, `"content":"gamma`)
			parent := regexp.MustCompile(`"parentUuid":"[^"]*"`)
			lines[k] = parent.ReplaceAllLiteralString(lines[k], parent.FindString(lines[i]))
			late := regexp.MustCompile(`"timestamp":"[^"]*"`).ReplaceAllLiteralString(lines[i], `"timestamp":"2031-01-01T00:00:00.000Z"`)
			return append(slices.Delete(lines, i, i+1), late)
		}, lost: "text two", keeps: all},
		{code: "nul-bytes", damage: edit(`"text":"two"`, `^`, strings.Repeat("\x00", 4096)), lost: "text two", keeps: all},
	}
}

// indexOf returns the first message with a text.
func indexOf(lines []string, text string) int {
	return slices.IndexFunc(lines, func(l string) bool {
		return strings.Contains(l, text) && strings.Contains(l, `"isSidechain":false`) && strings.Contains(l, `"message":`)
	})
}

func imageBlock(media string, width int) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 10))) // a write to a buffer does not fail
	return `{"type":"image","source":{"type":"base64","media_type":"` + media + `","data":"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `"}}`
}

// TestAHealedSessionIsAccepted damages a session, resumes it, and resumes the copy that segno sessions heal
// writes. Under SEGNO_SOAK it tests each kind of damage, otherwise several kinds together.
func TestAHealedSessionIsAccepted(t *testing.T) {
	e2erig.ScenarioOnNewest(t, nil, func(s *e2erig.Stage) {
		s.Segno("disable", "claude")
		s.Model.Strict()
		session := s.Say(e2erig.Prompt("alpha", e2erig.Bash("echo ran it"), map[string]any{"thinking": "hm", "text": "one"}))
		s.Say(e2erig.Prompt("beta", "two"), "--resume", session)
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", session)
		text := s.Transcript(session)
		dir := filepath.Dir(slices.Collect(maps.Keys(s.Transcripts()))[0])
		cases := damageCases()
		if !soak.IsWhole() {
			cases = []damageCase{together(cases, "call-without-result", "unsigned-thinking", "bad-image", "glued-lines")}
		}
		for n, c := range cases {
			broken := fmt.Sprintf("c1a0de00-0000-4000-8000-0000000001%02d", n)
			lines := c.damage(strings.SplitAfter(text, "\n"))
			path := filepath.Join(dir, broken+".jsonl")
			damaged := strings.ReplaceAll(strings.Join(lines, ""), session, broken)
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				s.Fatal(err)
			}
			before := len(s.Model.Rejected())
			healed := healedSession(s, path, c.code)
			if after, err := os.ReadFile(path); err != nil || string(after) != damaged {
				s.Errorf("%s: heal changed the session itself", c.code)
			}
			if _, err := s.Rig.Print(s.Ctx, "probe", "--resume", broken); err != nil {
				s.Fatal(err)
			}
			rejected := len(s.Model.Rejected())
			failed := rejected > before
			if got := conversationText(s); failed != c.fails || c.lost != "" && strings.Contains(got, c.lost) {
				s.Errorf("%s: before the repair the turn failed: %v, want %v; the model got\n%s", c.code, failed, c.fails, got)
			}
			s.Say("probe", "--resume", healed)
			if why := s.Model.Rejected()[rejected:]; len(why) > 0 {
				s.Errorf("%s: after the repair the API rejects %q", c.code, why)
			}
			got := conversationText(s)
			for _, word := range c.keeps {
				if !strings.Contains(got, word) {
					s.Errorf("%s: after the repair the model does not get %q, but\n%s", c.code, word, got)
				}
			}
			said := regexp.MustCompile(`text (alpha|one|beta|two|gamma|three|probe)\b`).FindAllString(got, -1)
			if want := slices.DeleteFunc([]string{"text alpha", "text one", "text beta", "text two", "text gamma", "text three", "text probe"},
				func(w string) bool { return c.code == "missing-parent" && w == "text beta" }); !slices.Equal(said, want) {
				s.Errorf("%s: after the repair the model gets %q", c.code, said)
			}
		}
	})
}

// together combines the damage of several cases.
func together(cases []damageCase, codes ...string) damageCase {
	all := damageCase{code: codes[0], fails: true, keeps: []string{"alpha", "one", "beta", "two", "gamma", "three", "tool_use", "tool_result"}}
	var steps []func([]string) []string
	for _, code := range codes {
		steps = append(steps, cases[slices.IndexFunc(cases, func(c damageCase) bool { return c.code == code })].damage)
	}
	all.damage = func(lines []string) []string {
		for _, step := range steps {
			lines = step(lines)
		}
		return lines
	}
	return all
}

// healedSession heals the session at a path and returns the copy. The copy has no damage.
func healedSession(s *e2erig.Stage, path, code string) string {
	var res struct {
		Findings []struct{ Code string }
		Healed   struct{ Session string }
	}
	s.JSON(&res, "sessions", "heal", path)
	if !slices.ContainsFunc(res.Findings, func(f struct{ Code string }) bool { return f.Code == code }) {
		s.Errorf("heal found %+v, not %s", res.Findings, code)
	}
	if out := s.Segno("sessions", "heal", res.Healed.Session); !strings.Contains(out, "no damage found") {
		s.Errorf("the copy is damaged:\n%s", out)
	}
	return res.Healed.Session
}

// conversationText returns the conversation of the newest call, with the types of its blocks.
func conversationText(s *e2erig.Stage) string {
	var b strings.Builder
	for _, m := range s.LastCall().Messages() {
		for _, block := range m.Blocks {
			if m.Role != "system" && !strings.Contains(block.Text, "system-reminder") {
				fmt.Fprintf(&b, "%s %s %.150s\n", m.Role, block.Type, block.Text)
			}
		}
	}
	return b.String()
}

// TestALostCallIsTold kills the agent while a tool changes files, and heals the session. The copy is
// the thread's next session, and with its first prompt the agent receives once which files changed.
func TestALostCallIsTold(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		p, err := s.Rig.StartPrint(s.Ctx, e2erig.Prompt("alpha", e2erig.Bash("echo half > half.txt; while [ ! -e go ]; do sleep 0.05; done"), "one"))
		if err != nil {
			s.Fatal(err)
		}
		s.WaitFor("half.txt")
		if err := p.Kill(); err != nil {
			s.Fatal(err)
		}
		s.Write("go", "") // the tool outlives its agent
		s.Poll("the call to be in the transcript", func() bool {
			return strings.Contains(strings.Join(slices.Collect(maps.Values(s.Transcripts())), ""), `"tool_use"`)
		})
		path := slices.Collect(maps.Keys(s.Transcripts()))[0]
		healed := healedSession(s, path, "call-without-result")
		var resumed struct{ Session string }
		s.JSON(&resumed, "resume")
		if resumed.Session != healed {
			s.Errorf("resume continues with %s, not with the copy %s", resumed.Session, healed)
		}
		s.Say(e2erig.Prompt("beta", "two"), "--resume", healed)
		got := allText(s.CallFor("beta"))
		if !strings.Contains(got, "half.txt (added)") || len(s.CallFor("beta").Results()) != 1 {
			s.Errorf("the agent was not told about the lost call:\n%s", got)
		}
		s.Say(e2erig.Prompt("gamma", "three"), "--resume", healed)
		if n := strings.Count(allText(s.CallFor("gamma")), "Note from segno"); n != 1 {
			s.Errorf("the agent was told %d times", n)
		}
		if ts := s.Turns(); len(ts) != 3 || ts[2].Thread != ts[0].Thread || ts[2].Session != healed || !ts[0].Interrupted {
			s.Errorf("the turns are %+v", ts)
		}
	})
}
