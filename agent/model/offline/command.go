package offline

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/dalsegno/segno"
)

// verb is a kind of command.
type verb struct {
	name    string
	usage   string   // its arguments in the help text
	tool    string   // the tool that it calls, "" if the model answers with text
	form    string   // of its arguments: a regular expression, compiled for each command, because few processes use the model
	keys    []string // names of the arguments in the call
	escapes bool     // the arguments may contain escapes, such as \n
}

const (
	anyForm  = `^(.*)$`
	someForm = `^(\S.*)$`
	pairForm = `^([^:]*[^:\s])\s*:(.*)$`
)

// verbs are in the order of the help text.
var verbs = []verb{
	{"write", "F: text", "write_file", pairForm, []string{"path", "content"}, true},
	{"append", "F: text", "append_file", pairForm, []string{"path", "content"}, true},
	{"edit", "F: old -> new", "edit_file", `^([^:]*[^:\s])\s*:\s*(\S.*?)\s-> (.*)$`, []string{"path", "old", "new"}, true},
	{"read", "F", "read_file", someForm, []string{"path"}, false},
	{"ls", "D", "ls", anyForm, []string{"path"}, false},
	{"glob", "P", "glob", someForm, []string{"pattern"}, false},
	{"grep", "P in D", "grep", `^(?:(\S.*) in (\S.*)|(\S.*))$`, []string{"pattern", "path"}, false},
	{"run", "CMD", "execute", someForm, []string{"command"}, false},
	{"todo", "X", "write_todos", someForm, nil, false},
	{"done", "X", "write_todos", someForm, nil, false},
	{"task", "NAME: prompt", "task", `^([^:]*[^:\s])\s*:\s*(\S.*)$`, []string{"agent", "prompt"}, true},
	{"call", "TOOL {json}", "", `^(\S+)\s+({.*})?\s*$`, nil, false},
	{"remember", "X is Y", "", `^(\S.*?) is (\s*\S.*)$`, nil, false},
	{"recall", "X", "", `^(.*?[^?\s])[?\s]*$`, nil, false},
	{"say", "T", "", someForm, nil, true},
	{"think", "T", "", someForm, nil, true},
	{"count", "", "", `^\s*$`, nil, false},
	{"summarize", "", "", anyForm, nil, false},
}

// verbNamed returns the verb with a name, or nil.
func verbNamed(name string) *verb {
	if name == "summarise" {
		name = "summarize"
	}
	if i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name }); i >= 0 {
		return &verbs[i]
	}
	return nil
}

// command is a parsed command.
type command struct {
	*verb
	args [3]string
}

// separator separates the commands of a line.
const separator = " ; "

// parseLine parses the commands of a line. It returns the first unknown command, or "".
func parseLine(line string) (cmds []command, unknown string) {
	for _, piece := range pieces(line) {
		c, ok := parse(piece)
		if !ok {
			return nil, piece
		}
		cmds = append(cmds, c)
	}
	return cmds, ""
}

// pieces splits a line at its separators, except at a separator that is part of a text: no verb
// follows it, as in "run a ; b", or it is inside the JSON of a call.
func pieces(line string) (all []string) {
	for _, p := range strings.Split(line, separator) {
		name, _ := cutVerb(p)
		if n := len(all) - 1; n >= 0 && (verbNamed(name) == nil || isOpenCall(all[n])) {
			all[n] += separator + p
			continue
		}
		all = append(all, p)
	}
	return all
}

// cutVerb returns the first word in lower case, and the rest.
func cutVerb(piece string) (name, rest string) {
	piece = strings.TrimSpace(piece)
	end := strings.IndexFunc(piece, unicode.IsSpace)
	if end < 0 {
		end = len(piece)
	}
	return strings.ToLower(piece[:end]), strings.TrimSpace(piece[end:])
}

// isOpenCall reports whether piece is a call with incomplete JSON.
func isOpenCall(piece string) bool {
	name, rest := cutVerb(piece)
	_, args, found := strings.Cut(rest, "{")
	return name == "call" && found && !json.Valid([]byte("{"+args))
}

func parse(piece string) (c command, ok bool) {
	name, rest := cutVerb(piece)
	if c.verb = verbNamed(name); c.verb == nil {
		return c, false
	}
	groups := regexp.MustCompile(c.form).FindStringSubmatch(rest + " ")
	if groups == nil {
		return c, false
	}
	n := 0
	for _, arg := range groups[1:] {
		if arg = strings.TrimSpace(arg); arg == "" {
			continue
		}
		if c.escapes {
			arg = escapes.Replace(arg)
		}
		c.args[n] = arg
		n++
	}
	if c.name == "call" {
		c.args[1] = cmp.Or(c.args[1], "{}")
		return c, json.Valid([]byte(c.args[1]))
	}
	return c, true
}

var escapes = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`)

// callArgs returns the arguments of a command's call.
func (c command) callArgs() json.RawMessage {
	if c.name == "call" {
		return json.RawMessage(c.args[1])
	}
	args := map[string]any{}
	for i, key := range c.keys {
		if c.args[i] != "" || key != "path" { // without a path the tool uses the root
			args[key] = c.args[i]
		}
	}
	if c.name == "append" {
		args["append"] = true
	}
	return encode(args)
}

// encode returns v as JSON with sorted keys.
func encode(v any) json.RawMessage {
	data, err := segno.Encode(v)
	if err != nil {
		panic("offline: internal error: " + err.Error())
	}
	return data
}
