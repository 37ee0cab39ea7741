package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// addOutcomes adds the results of the turn's calls.
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

// resultSize is the number of bytes shown of a result.
const resultSize = 200

// phrases describe the calls of tools: one that succeeded, and one that failed. A $ is the
// call's main argument.
var phrases = map[string]struct {
	did, try   string
	withResult bool
}{
	"write_file":  {"wrote $", "write $", false},
	"append_file": {"appended to $", "append to $", false},
	"edit_file":   {"edited $", "edit $", false},
	"write_todos": {"noted the todos", "note the todos", false},
	"read_file":   {"read $", "read $", true},
	"ls":          {"listed $", "list $", true},
	"glob":        {"glob `$`", "glob `$`", true},
	"grep":        {"grep `$`", "grep `$`", true},
	"execute":     {"ran `$`", "run `$`", true},
	"task":        {"$", "have $ do it", true},
}

// outcome describes a call and its result in one line.
func (c callResult) outcome() string {
	var args struct{ Path, Pattern, Command, Agent string }
	_ = json.Unmarshal(c.Args, &args) // arguments of another form are not shown
	p, ok := phrases[c.Name]
	if !ok {
		p.did, p.try, p.withResult = c.Name, "call "+c.Name, true
	}
	argument := cmp.Or(args.Pattern, args.Command, args.Agent, args.Path)
	did, try := strings.TrimSpace(strings.ReplaceAll(p.did, "$", argument)), strings.TrimSpace(strings.ReplaceAll(p.try, "$", argument))
	if c.result == nil {
		return fmt.Sprintf("could not %s: no result", try)
	}
	text := clip(c.result.Text, resultSize)
	if n := len(c.result.Parts); n > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s (and %d images or files)", text, n))
	}
	switch {
	case c.result.Error && c.Name == "execute" && strings.Contains(text, "exit code"):
		return did + ": " + text // the command ran
	case c.result.Error:
		return fmt.Sprintf("could not %s: %s", try, text)
	case p.withResult && text != "":
		return did + ": " + text
	}
	return did
}

// clip returns one line of text of at most size bytes. It leaves out the middle, because an exit
// code is at the beginning or the end.
func clip(text string, size int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	if len(text) <= size {
		return text
	}
	const mark = " … "
	head := prefixOf(text, (size-len(mark))*2/3)
	return head + mark + strings.ToValidUTF8(text[len(text)-(size-len(mark)-len(head)):], "")
}

// prefixOf returns the beginning of text, in whole characters, of at most size bytes.
func prefixOf(text string, size int) string {
	return strings.ToValidUTF8(text[:min(size, len(text))], "")
}
