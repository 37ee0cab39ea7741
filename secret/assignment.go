package secret

import (
	"bytes"
	"strings"
)

// An assignment is the place where a text assigns a value to a name that contains a keyword.
type assignment struct {
	name  []byte // with the keyword
	start int    // the offset of the name
	value int    // the offset of the value
	style style
}

// A style is the syntax in which a value follows its name.
type style int

const (
	bare    style = iota // key: value, key := value
	quoted               // "key": "value", key = 'value', define('key', 'value')
	shell                // KEY=value
	element              // <key>value</key>, <entry name="key">value</entry>
)

// maxName limits the part of a name on each side of the keyword, as in secret_key_for_signing.
const maxName = 30

// maxIndent limits the part of a line before a value of YAML.
const maxIndent = 160

// assigned returns the assignment to the name whose keyword is between start and end of text.
func assigned(text []byte, start, end int) (a assignment, ok bool) {
	first, i := nameAround(text, start, end)
	a.name, a.start = text[first:i], first
	i = skip(text, i, "\"'`\\]", 4)
	i = skip(text, i, " \t", 8)
	if at, ok := otherField(text, i); ok {
		i = at
	}
	from := i
	i = skip(text, i, ":=>(,", 3)
	operator := string(text[from:i])
	if operator == "" || operator == "::" || operator == "," && !isArgument(text, first, from) {
		return a, false
	}
	spaces := i
	i = skip(text, i, " \t", 16)
	quotes := i
	i = skip(text, i, "\"'`\\", 4)
	if i >= len(text) {
		return a, false
	}
	a.value = i
	switch {
	case i > quotes:
		a.style = quoted
	case operator == "=" && spaces == quotes && isName(text[from-1]):
		a.style = shell
	case operator == ">":
		a.style = element
	}
	return a, true
}

// nameAround returns the offsets of the beginning and the end of the name whose keyword is between start and end.
func nameAround(text []byte, start, end int) (from, to int) {
	from, to = start, end
	for from > 0 && start-from < maxName && isName(text[from-1]) {
		from--
	}
	for to < len(text) && to-end < maxName && isName(text[to]) {
		to++
	}
	return from, to
}

func isName(c byte) bool { return isWord(c) || c == '-' || c == '.' }

// isArgument reports whether the comma at an offset separates a name from its value: the name is in
// double quotes, or is the first argument of define.
func isArgument(text []byte, name, comma int) bool {
	return text[comma-1] == '"' || bytes.Contains(text[max(0, name-12):name], []byte("define("))
}

// otherField returns the offset behind the word value. This is for a name that is itself a value, while
// its own value follows in another field: {"name": "KEY", "value": …}, <add key="KEY" value=…>, or the
// next line of YAML.
func otherField(text []byte, i int) (int, bool) {
	const word = "value"
	j := skip(text, i, ", \t\r\n\"'\\", 60)
	if len(text)-j <= len(word) || !bytes.EqualFold(text[j:j+len(word)], []byte(word)) {
		return 0, false
	}
	j = skip(text, j+len(word), "\"'\\", 2)
	return j, j < len(text) && (text[j] == ':' || text[j] == '=')
}

// isPlain reports whether an assignment cannot be an expression of a program. after is the offset
// behind the value.
func (a assignment) isPlain(text []byte, after int) bool {
	switch a.style {
	case quoted, shell:
		return true
	case element:
		return bytes.HasPrefix(text[after:], []byte("</"))
	}
	// The name begins a line of YAML.
	before := text[max(0, a.value-maxIndent):a.value]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	name, value, found := strings.Cut(string(line), ":")
	name = strings.Trim(name, " \t-\"'")
	if len(line) == maxIndent || !found || name == "" || value == "" || strings.Trim(value, " \t") != "" {
		return false
	}
	for i := range len(name) {
		if !isName(name[i]) {
			return false
		}
	}
	if !isConstant(a.name) && bytes.ContainsAny(text[a.value:after], ".[") {
		return false // a part of a structure
	}
	rest := bytes.TrimLeft(text[after:], " \t\r")
	return len(rest) == 0 || rest[0] == '\n' || rest[0] == '#'
}

// isSetting reports whether an assignment sets an environment variable: its name has the form of one and
// begins a line, perhaps behind a word of a shell or of a Dockerfile.
func (a assignment) isSetting(text []byte) bool {
	before := text[max(0, a.start-maxName):a.start]
	line := string(before[bytes.LastIndexByte(before, '\n')+1:])
	for _, word := range []string{"export ", "set ", "ENV ", "ARG ", "$env:"} {
		line = strings.Replace(line, word, "", 1)
	}
	return isConstant(a.name) && strings.Trim(line, " \t-\"'") == ""
}

// isConstant reports whether a name has the form of an environment variable, without small letters.
func isConstant(name []byte) bool {
	return !bytes.ContainsFunc(name, func(r rune) bool { return 'a' <= r && r <= 'z' })
}

// isSecretName reports whether a name contains a word for a credential.
func isSecretName(name []byte) bool {
	low := strings.ToLower(string(name))
	for _, word := range []string{"key", "token", "secret", "pass", "auth", "pat", "credential"} {
		if strings.Contains(low, word) {
			return true
		}
	}
	return false
}

// skip returns the first offset from i on whose byte is not in chars. It skips at most most bytes.
func skip(text []byte, i int, chars string, most int) int {
	for n := 0; n < most && i < len(text) && strings.IndexByte(chars, text[i]) >= 0; n++ {
		i++
	}
	return i
}
