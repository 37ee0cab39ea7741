package failure

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
)

var update = flag.Bool("update", false, "rewrite testdata/failures.md")

const page = "testdata/failures.md"

func TestDocumentMatchesTable(t *testing.T) {
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
		t.Errorf("testdata/failures.md is not what the table says; run go test ./internal/proxy/failure -update")
	}
}

func document() []byte {
	var b bytes.Buffer
	b.WriteString(`# When an ACP agent fails

What agents answer when something is wrong, what that means, and what ` + "`segno acp`" + ` does. The first row that matches
an answer counts. This page is generated from the table in ` + "`internal/proxy/failure`" + ` and from the directories
in ` + "`agents`" + `; each row has a test with an answer that an agent sent.

A version is one whose answer was recorded with a scripted model; one in parentheses has the answer in its
published code. A row holds for other versions of its agent too. Texts are compared without regard to case.

The session is *kept* (it takes the next prompt), *lost* (it must be resumed, loaded or built again) or *dead* (the
agent must be started again). A prompt that *did not start* is sent again if the agent's transcript does not have it, and
if its turn has neither a tool call nor a word: either makes it *seen*. A prompt that was seen is never sent again; segno asks
the agent to continue and lists what already happened. If a turn *failed*, the user sees the agent's error, and nothing is sent.
For other requests than prompts only the state of the session counts.

| what is wrong | what the wire shows | agent and versions | session | turn | what segno does |
| --- | --- | --- | --- | --- | --- |
`)
	for _, row := range table() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
			row.meaning().Name, cell(row.wire()), cell(row.versions()), row.meaning().Session, row.turn(), row.reaction())
	}
	b.WriteString(`
An error of another request that no row matches is passed on. An answer that is not here is a success. For example,
` + "`usage:null`" + ` alone is also the answer of codex-acp to ` + "`/status`" + ` and to a cancelled turn.
`)
	return b.Bytes()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (r row) versions() string {
	versions := slices.Clone(r.Observed)
	for _, v := range r.Documented {
		versions = append(versions, "("+v+")")
	}
	name := "any"
	if p, ok := agents.Of(r.agent); ok {
		name = append(p.Adapters, p.Name)[0]
	}
	return strings.TrimSpace(name + " " + strings.Join(versions, ", "))
}

// wire describes the answers that match the row.
func (r row) wire() string {
	var parts []string
	if methods := r.requests(); methods != nil {
		parts = append(parts, codes(methods, ", ")+":")
	}
	switch {
	case r.By == profile.ByExit:
		parts = append(parts, "the agent's output ends")
	case isResult(r.By):
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
		parts = append(parts, "with the text "+quoted(r.Text))
	}
	return strings.Join(parts, " ")
}

// requests returns the methods of the requests that the row is about, nil for any.
func (r row) requests() []string {
	if isResult(r.By) {
		return profile.Prompt
	}
	return r.Methods
}

func (r row) result() []string {
	var parts []string
	if r.Stop != nil {
		parts = append(parts, "`stopReason` "+codes(r.Stop, " or "))
	} else {
		parts = append(parts, "a result")
	}
	if r.Category != nil {
		parts = append(parts, "with `_meta.jetbrains.air.sessionFailure.category` = "+codes(r.Category, " or "))
	}
	if r.By == profile.BySystemError {
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

// reaction describes what segno does.
func (r row) reaction() string {
	session := map[Session]string{Lost: "opens the session again", Dead: "starts the agent again and opens the session"}[r.meaning().Session]
	turn := map[Turn]string{NotStarted: "sends the prompt again", Seen: "asks the agent to go on", Failed: "passes the answer on"}[r.meaning().Turn]
	switch {
	case !r.ofPrompts() && slices.Contains(r.Methods, "session/delete"), session == "" && turn == "" && r.ofPrompts():
		return "passes the answer on"
	case !r.ofPrompts() && r.meaning().Session == Lost:
		return "opens the session another way"
	case session == "" && turn == "":
		return "forks without the agent"
	case session == "" || turn == "":
		return session + turn
	case r.meaning().Turn == Failed:
		return turn + "; " + session + " before the next prompt"
	}
	return session + ", then " + turn
}

func (r row) ofPrompts() bool { return allows(r.requests(), "session/prompt") }

// turn returns the state of the turn, or "" for a row that no prompt can match.
func (r row) turn() string {
	if !r.ofPrompts() {
		return ""
	}
	return r.meaning().Turn.String()
}
