package offline

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

// command is a parsed command. The verb determines the meaning of a, b and c.
type command struct {
	verb    string
	a, b, c string
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
		if n := len(all) - 1; n >= 0 && (!isVerb(verbOf(p)) || openCall(all[n])) {
			all[n] += separator + p
			continue
		}
		all = append(all, p)
	}
	return all
}

// cutVerb returns the first word in lower case, and the rest.
func cutVerb(piece string) (verb, rest string) {
	piece = strings.TrimSpace(piece)
	end := strings.IndexFunc(piece, unicode.IsSpace)
	if end < 0 {
		end = len(piece)
	}
	return strings.ToLower(piece[:end]), strings.TrimSpace(piece[end:])
}

func isVerb(word string) bool { _, ok := verbs[word]; return ok }

func verbOf(piece string) string {
	verb, _ := cutVerb(piece)
	return verb
}

// openCall reports whether piece is a call with incomplete JSON.
func openCall(piece string) bool {
	if verbOf(piece) != "call" {
		return false
	}
	_, args, found := strings.Cut(piece, "{")
	return found && !json.Valid([]byte("{"+args))
}

// verbs are the verbs of commands, with the tool that each needs.
var verbs = map[string]string{"write": "write_file", "append": "append_file", "edit": "edit_file", "read": "read_file", "ls": "ls", "glob": "glob",
	"grep": "grep", "run": "execute", "todo": "write_todos", "done": "write_todos", "task": "task", "call": "", "remember": "", "recall": "",
	"say": "", "think": "", "count": "", "summarize": "", "summarise": ""}

// usages are the commands in the order of the help text.
var usages = [...]string{"write F: text", "append F: text", "edit F: old -> new", "read F", "ls D", "glob P", "grep P in D", "run CMD", "todo X", "done X",
	"task NAME: prompt", "call TOOL {json}", "remember X is Y", "recall X", "say T", "think T", "count", "summarize"}

// parse parses one command.
func parse(piece string) (command, bool) {
	verb, rest := cutVerb(piece)
	c := command{verb: verb, a: rest}
	switch c.verb {
	case "ls":
		return c, true
	case "count":
		return c, rest == ""
	case "summarize", "summarise":
		return command{verb: "summarize"}, true
	case "read", "glob", "run", "todo", "done":
		return c, rest != ""
	case "recall":
		c.a = strings.TrimRight(rest, "?")
		return c, c.a != ""
	case "say", "think":
		c.a = unescape(rest)
		return c, rest != ""
	}
	return parsePair(c)
}

// parsePair parses a command with several arguments.
func parsePair(c command) (command, bool) {
	switch c.verb {
	case "grep":
		if i := strings.LastIndex(c.a, " in "); i > 0 {
			c.a, c.b = strings.TrimSpace(c.a[:i]), strings.TrimSpace(c.a[i+len(" in "):])
		}
		return c, c.a != ""
	case "write", "append", "task":
		name, text, found := strings.Cut(c.a, ":")
		c.a, c.b = strings.TrimSpace(name), unescape(strings.TrimSpace(text))
		return c, found && c.a != "" && (c.verb != "task" || c.b != "")
	case "edit":
		return parseEdit(c)
	case "call":
		return parseCall(c)
	case "remember":
		subject, value, found := strings.Cut(c.a, " is ")
		c.a, c.b = strings.TrimSpace(subject), strings.TrimSpace(value)
		return c, found && c.a != "" && c.b != ""
	}
	return command{}, false
}

func parseEdit(c command) (command, bool) {
	name, change, found := strings.Cut(c.a, ":")
	before, after, arrow := strings.Cut(change+" ", " -> ")
	c.a = strings.TrimSpace(name)
	c.b, c.c = unescape(strings.TrimSpace(before)), unescape(strings.TrimSpace(after))
	return c, found && arrow && c.a != "" && c.b != ""
}

func parseCall(c command) (command, bool) {
	tool, args, _ := strings.Cut(c.a, " ")
	c.a, c.b = tool, strings.TrimSpace(args)
	if c.b == "" {
		c.b = "{}"
	}
	return c, tool != "" && strings.HasPrefix(c.b, "{") && json.Valid([]byte(c.b))
}

var escape = regexp.MustCompile(`\\[nt\\]`)

func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(e string) string {
		switch e {
		case `\n`:
			return "\n"
		case `\t`:
			return "\t"
		}
		return `\`
	})
}
