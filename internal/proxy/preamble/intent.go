package preamble

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agents"
)

// readIntent decodes an intent's body that the proxy recorded. Any other body is a tool's
// input as a hook received it.
func readIntent(body json.RawMessage) (title, kind string, input json.RawMessage, path string) {
	ms := members(body)
	isProxy := (get(ms, "title") != nil || get(ms, "kind") != nil) && hasOnly(ms, "title", "kind", "input", "locations", "clipped")
	if !isProxy {
		return "", "", body, ""
	}
	var locations []struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(get(ms, "locations"), &locations) == nil && len(locations) > 0 {
		path = locations[0].Path
	}
	return TextOf(get(ms, "title")), TextOf(get(ms, "kind")), get(ms, "input"), path
}

// splitInput splits a tool's input into the subject of the call and the rest.
func splitInput(tool string, v verb, input json.RawMessage) (subject, rest string) {
	ms := members(input)
	if v == verbOf(kindOther) || len(ms) == 0 {
		text := TextOf(input)
		if text == "{}" {
			return "", ""
		}
		if len(ms) > 0 && clipped(input) == nil {
			text = string(input)
		}
		return "", plainDetail(text)
	}
	// The last three do not change the effect of the call.
	ignored := []string{"", "description", "timeout", "run_in_background"}
	for _, key := range agents.SubjectFields(tool) {
		if v := get(ms, key); v != nil {
			ignored[0], subject = key, commandText(v)
			break
		}
	}
	ms = slices.DeleteFunc(ms, func(m member) bool { return slices.Contains(ignored, m.key) })
	var parts []string
	for _, m := range ms {
		text := plainDetail(TextOf(m.value))
		if len(ms) > 1 {
			text = oneLine(plain(m.key, maxSubject), maxSubject) + ": " + text
		}
		parts = append(parts, text)
	}
	rest = clip(strings.Join(parts, "\n"), maxDetail)
	subject = strings.TrimSpace(plain(subject, maxDetail))
	if strings.Contains(subject, "\n") || len(subject) > maxSubject { // one line is too short for it
		rest = strings.TrimSpace(clip(subject+"\n"+rest, maxDetail))
	}
	return subject, rest
}

// commandText returns a command as a user would type it. Some tools receive it as a list of
// arguments, with a shell in front.
func commandText(v json.RawMessage) string {
	var words []string
	if json.Unmarshal(v, &words) != nil {
		return TextOf(v)
	}
	if len(words) == 3 && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// readResult decodes a result's body from a hook or from the proxy.
func readResult(body json.RawMessage) (state, string) {
	ms := members(body)
	answer, end := "", done
	switch status := TextOf(get(ms, "status")); {
	case get(ms, "response") != nil || get(ms, "error") != nil && status == "":
		answer, end = readHookResult(ms)
	case status == "pending" || status == "in_progress":
		end = begun
	case status != "":
		answer, end = readProxyResult(ms, status)
	case len(ms) > 0 && hasOnly(ms, "exit", "interrupt", "duration_ms", "agent"): // hooks record these for every call
	default:
		answer = TextOf(body)
	}
	return end, plainDetail(withoutFence(answer))
}

// ResultText returns the answer in a result's body as text, "" if it has none.
func ResultText(body json.RawMessage) string {
	_, answer := readResult(body)
	return answer
}

// readHookResult reads the result of a hook: the tool's response or error, and its exit
// status.
func readHookResult(ms []member) (string, state) {
	response, e := get(ms, "response"), get(ms, "error")
	answer, end := TextOf(response), done
	if e != nil {
		answer = TextOf(e)
	}
	if e != nil || isNonZero(get(ms, "exit")) {
		end = failed
	}
	if TextOf(get(ms, "interrupt")) == "true" || TextOf(get(members(response), "interrupted")) == "true" {
		end = interrupted
	}
	return answer, end
}

// readProxyResult reads the last update of an ACP tool call.
func readProxyResult(ms []member, status string) (string, state) {
	answer, end := TextOf(get(ms, "content")), done
	if strings.TrimSpace(answer) == "" {
		answer = TextOf(get(ms, "output"))
	}
	output := members(get(ms, "output")) // some agents put the exit status there
	switch {
	case status == "cancelled", status == "canceled":
		end = interrupted
	case status == "failed", isNonZero(get(output, "exit_code")), isNonZero(get(output, "exitCode")):
		end = failed
	}
	return answer, end
}

// isNonZero reports whether an exit status is present and not 0.
func isNonZero(exit json.RawMessage) bool {
	text := TextOf(exit)
	return text != "" && text != "0"
}

func hasOnly(ms []member, keys ...string) bool {
	return !slices.ContainsFunc(ms, func(m member) bool { return !slices.Contains(keys, m.key) })
}

// withoutFence removes the code fence in which some agents show a command's output.
func withoutFence(s string) string {
	s = strings.TrimSpace(s)
	first, rest, more := strings.Cut(s, "\n")
	body, isFenced := strings.CutSuffix(rest, "```")
	if more && isFenced && strings.HasPrefix(first, "```") && !strings.Contains(body, "```") {
		return body
	}
	return s
}

// todo is one item of the agent's todo list.
type todo struct{ text, status string }

// readTodos decodes a todo list: the entries of an ACP plan, or the input of a tool that
// writes such a list. It returns nil if raw is neither, and an empty list if the list is
// empty.
func readTodos(raw json.RawMessage) []todo {
	list := unclip(raw)
	if ms := members(list); ms != nil {
		if list = get(ms, "todos"); list == nil {
			list = get(ms, "plan")
		}
	}
	var points []struct {
		Content string `json:"content"`
		Step    string `json:"step"`
		Status  string `json:"status"`
	}
	if len(list) == 0 || list[0] != '[' || json.Unmarshal(list, &points) != nil {
		return nil
	}
	const maxTodos = 100
	out := []todo{}
	for _, p := range points[:min(maxTodos, len(points))] {
		if text := oneLine(plain(p.Content+p.Step, maxSubject), maxSubject); text != "" {
			out = append(out, todo{text, p.Status})
		}
	}
	return out
}

// planText returns the open items of a todo list in at most room bytes.
func planText(plan []todo, room int) string {
	const heading, more = 80, 20
	shown, left := 0, 0
	var points strings.Builder
	for _, t := range plan {
		if t.status == "completed" {
			continue
		}
		line := "- " + quote(t.text, maxSubject)
		if t.status == "in_progress" {
			line += ", begun"
		}
		if heading+points.Len()+len(line)+more > room {
			left++
			continue
		}
		shown++
		points.WriteString(line + "\n")
	}
	if shown == 0 {
		return ""
	}
	if left > 0 {
		fmt.Fprintf(&points, "- and %d more\n", left)
	}
	return fmt.Sprintf("Of the %d points on your list of things to do, these are open:\n%s", len(plan), points.String())
}
