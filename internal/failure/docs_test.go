package failure

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/acp-failures.md")

const page = "../../docs/acp-failures.md"

func TestThePageIsTheTable(t *testing.T) {
	want := document()
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/acp-failures.md is not what the table says; run go test ./internal/failure -update")
	}
}

func document() []byte {
	var b bytes.Buffer
	b.WriteString(`# When an ACP agent fails

What agents show when something is wrong, what that means, and what ` + "`segno acp`" + ` does. The first row that is true
of an answer counts. This page is made from the table in ` + "`internal/failure`" + `; each row has a test with what the
agent sent.

A version is one that was seen to do it with real runs against a scripted model; one in parentheses has it in its
published code. A row holds for other versions of its agent too. Texts are compared without regard to case.

The session is *kept* (it takes the next prompt), *lost* (it must be resumed, loaded or built again) or *dead* (the
agent must be started again). A prompt that *did not start* is sent again if the agent's transcript does not have it, and
if nothing was seen of its turn: a tool call or a word makes it *seen*. A prompt that was seen is never sent again; the
agent is asked to go on, and told what already happened. If a turn *failed*, the user sees the agent's error, and nothing is sent.
Of requests that are no prompt only what is said of the session counts.

| what is wrong | what the wire shows | agent and versions | session | turn | what segno does |
| --- | --- | --- | --- | --- | --- |
`)
	for _, row := range Rows() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
			row.Is.Name, cell(row.wire()), cell(row.versions()), row.Is.Session, row.turn(), row.does())
	}
	b.WriteString(`
An error of another request that no row knows is passed on. What is not here is no failure: ` + "`usage:null`" + ` alone, for one, is
also what codex-acp answers to ` + "`/status`" + ` and to a cancelled turn.
`)
	return b.Bytes()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (r Row) versions() string {
	versions := slices.Clone(r.Seen)
	for _, v := range r.Read {
		versions = append(versions, "("+v+")")
	}
	agent := map[string]string{claude: "claude-agent-acp", codex: "codex-acp", opencode: "opencode", gemini: "gemini-cli", "": "any"}[r.Agent]
	return strings.TrimSpace(agent + " " + strings.Join(versions, ", "))
}

// wire is what an answer must be for the row.
func (r Row) wire() string {
	var parts []string
	if r.Methods != nil {
		parts = append(parts, codes(r.Methods, ", ")+":")
	}
	switch {
	case r.Way == ByExit:
		parts = append(parts, "the agent's output ends")
	case r.Way == ByResult:
		parts = append(parts, r.result()...)
	case r.Code != 0:
		parts = append(parts, fmt.Sprintf("error `%d`", r.Code))
	default:
		parts = append(parts, "an error")
	}
	if r.Key != "" {
		with := "with `data." + r.Key + "`"
		if r.Values != nil {
			with += " = " + codes(r.Values, " or ")
		}
		parts = append(parts, with)
	}
	if r.Text != nil {
		parts = append(parts, "that says "+quoted(r.Text))
	}
	return strings.Join(parts, " ")
}

func (r Row) result() []string {
	var parts []string
	if r.Stop != nil {
		parts = append(parts, "`stopReason` "+codes(r.Stop, " or "))
	} else {
		parts = append(parts, "a result")
	}
	if r.Category != nil {
		parts = append(parts, "with `_meta.jetbrains.air.sessionFailure.category` = "+codes(r.Category, " or "))
	}
	if r.System {
		parts = append(parts, "after `_meta.codex.threadStatus.type` = `systemError`")
	}
	switch {
	case r.Idle:
		parts = append(parts, "without a word or any update and with `usage.outputTokens` 0, in a session that was just opened")
	case r.Silent:
		parts = append(parts, "without a word or a tool call")
	}
	return parts
}

func codes(list []string, or string) string { return "`" + strings.Join(list, "`"+or+"`") + "`" }

func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		start, anchored := strings.CutPrefix(text, "^")
		if list[i] = `"` + start + `"`; anchored {
			list[i] = `"` + start + `…"`
		}
	}
	return strings.Join(list, " or ")
}

// does is what segno does about it.
func (r Row) does() string {
	session := map[Session]string{Lost: "opens the session again", Dead: "starts the agent again and opens the session"}[r.Is.Session]
	turn := map[Turn]string{NotStarted: "sends the prompt again", Seen: "asks the agent to go on", Failed: "passes the answer on"}[r.Is.Turn]
	switch {
	case !r.ofPrompts() && slices.Contains(r.Methods, "session/delete"), session == "" && turn == "" && r.ofPrompts():
		return "passes the answer on"
	case !r.ofPrompts() && r.Is.Session == Lost:
		return "opens the session another way"
	case session == "" && turn == "":
		return "forks by itself"
	case session == "" || turn == "":
		return session + turn
	case r.Is.Turn == Failed:
		return turn + "; " + session + " before the next prompt"
	}
	return session + ", then " + turn
}

func (r Row) ofPrompts() bool { return among(r.Methods, "session/prompt") }

// turn is what is true of the turn, if the row can be of one.
func (r Row) turn() string {
	if !r.ofPrompts() {
		return ""
	}
	return r.Is.Turn.String()
}
