package offline

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// args are the arguments of a command's call.
func (c command) args() json.RawMessage {
	switch c.verb {
	case "write":
		return encode(map[string]any{"path": c.a, "content": c.b})
	case "append":
		return encode(map[string]any{"path": c.a, "content": c.b, "append": true})
	case "edit":
		return encode(map[string]any{"path": c.a, "old": c.b, "new": c.c})
	case "read":
		return encode(map[string]any{"path": c.a})
	case "ls":
		return encode(omitEmpty("path", c.a))
	case "glob":
		return encode(map[string]any{"pattern": c.a})
	case "grep":
		args := omitEmpty("path", c.b)
		args["pattern"] = c.a
		return encode(args)
	case "run":
		return encode(map[string]any{"command": c.a})
	case "task":
		return encode(map[string]any{"agent": c.a, "prompt": c.b})
	}
	return json.RawMessage(c.b) // call
}

func omitEmpty(key, value string) map[string]any {
	if value == "" {
		return map[string]any{}
	}
	return map[string]any{key: value}
}

// encode is v as JSON, keys in order.
func encode(v any) json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("offline: internal error: " + err.Error())
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

// addOutcomes adds what came of the calls of the turn.
func (a *answer) addOutcomes(v *modelContext) {
	var all []string
	for _, c := range callsIn(v.since) {
		if c.Name != "final_answer" || c.result != nil && c.result.Error {
			all = append(all, c.outcome())
		}
	}
	if len(all) > 0 {
		a.text = append(a.text, strings.Join(all, "; "))
	}
	if len(a.text) == 0 && len(a.thinking) == 0 {
		a.text = []string{"done"}
	}
}

// resultSize is how much of a result is told, in bytes.
const resultSize = 200

// outcome says what came of a call, in one line.
func (c callResult) outcome() string {
	var args struct{ Path, Pattern, Command, Agent string }
	_ = json.Unmarshal(c.Args, &args) // arguments of another shape are not named
	var did, try string
	with := true // the result is worth telling
	switch c.Name {
	case "write_file":
		did, try, with = "wrote "+args.Path, "write "+args.Path, false
	case "append_file":
		did, try, with = "appended to "+args.Path, "append to "+args.Path, false
	case "edit_file":
		did, try, with = "edited "+args.Path, "edit "+args.Path, false
	case "write_todos":
		did, try, with = "noted the todos", "note the todos", false
	case "read_file":
		did, try = "read "+args.Path, "read "+args.Path
	case "ls":
		did, try = strings.TrimSpace("listed "+args.Path), strings.TrimSpace("list "+args.Path)
	case "glob", "grep":
		did, try = fmt.Sprintf("%s `%s`", c.Name, args.Pattern), fmt.Sprintf("%s `%s`", c.Name, args.Pattern)
	case "execute":
		did, try = fmt.Sprintf("ran `%s`", args.Command), fmt.Sprintf("run `%s`", args.Command)
	case "task":
		did, try = args.Agent, "have "+args.Agent+" do it"
	default:
		did, try = c.Name, "call "+c.Name
	}
	if c.result == nil {
		return fmt.Sprintf("could not %s: no result", try)
	}
	text := clip(c.result.Text, resultSize)
	if n := len(c.result.Parts); n > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s (and %d images or files)", text, n))
	}
	switch {
	case c.result.Error && c.Name == "execute" && strings.Contains(text, "exit code"):
		return did + ": " + text // it did run
	case c.result.Error:
		return fmt.Sprintf("could not %s: %s", try, text)
	case with && text != "":
		return did + ": " + text
	}
	return did
}

// clip makes one line of text, of at most size bytes. What is left out is the middle:
// an exit code stands at one end or the other.
func clip(text string, size int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	if len(text) <= size {
		return text
	}
	const mark = " … "
	head := prefixOf(text, (size-len(mark))*2/3)
	from := len(text) - (size - len(mark) - len(head))
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return head + mark + text[from:]
}

// prefixOf is the beginning of text, in whole characters, of at most size bytes.
func prefixOf(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
