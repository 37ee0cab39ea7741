package workspace

import (
	"path/filepath"
	"regexp"
	"strings"
)

// maxGitConfig is the largest size of a git configuration that is read. Each branch that tracks
// another one takes a section of about eighty bytes.
const maxGitConfig = 1 << 20

// setting is one assignment in a git configuration.
type setting struct {
	section string // lower case; with a dot at the end if there is a subsection
	key     string // lower case
	value   string
	from    int // the offset of the assignment in the text
	to      int // the offset of its end, before the newline
}

// settings returns the assignments of a git configuration, up to its end or the first line that
// git would reject. It does not read included files.
func settings(text []byte) (out []setting) {
	item := regexp.MustCompile(configItem)
	rest, section := strings.TrimPrefix(string(text), "\ufeff"), ""
	for {
		rest = strings.TrimLeft(rest, " \t\r\n")
		m := item.FindStringSubmatch(rest)
		if m == nil {
			return out
		}
		from := len(text) - len(rest)
		rest = rest[len(m[0]):]
		switch header, subsection, key, raw := m[1], m[2], m[3], m[4]; {
		case header != "":
			section = strings.ToLower(strings.Trim(header, "[ \t"))
			if subsection != "" {
				section += "."
			}
		case key != "":
			value, ok := configValue(raw)
			if !ok || rest != "" && rest[0] != '\n' && rest[0] != '\r' {
				return out
			}
			out = append(out, setting{section, strings.ToLower(key), value, from, len(text) - len(rest)})
		}
	}
}

// configItem matches the header of a section, an assignment with its comment, or a comment. Its
// groups are the name and the subsection of a header, and the key and the value of an assignment.
const configItem = `(?s)\A(?:` +
	`(\[[-.a-zA-Z0-9]*[ \t]*)("(?:[^"\\\n\x00]|\\[^\n\x00])*")?\]` +
	`|([-a-zA-Z0-9]+)[ \t]*(?:=[ \t]*((?:[^"\\\n#;]|\\\r?\n|\\[^\n]|"(?:[^"\\\n]|\\\r?\n|\\[^\n])*")*))?(?:[#;][^\n]*)?` +
	`|[#;][^\n]*)`

// configValue resolves the quotes, escapes and continued lines of a value and drops the white
// space at its end. It returns false if git does not accept an escape.
func configValue(raw string) (string, bool) {
	var out strings.Builder
	keep := 0 // the length up to which the value must not be trimmed
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			if i++; strings.HasPrefix(raw[i:], "\r\n") {
				i++
			}
			if raw[i] == '\n' {
				break // git keeps the white space before it
			}
			at := strings.IndexByte(`nbt\"`, raw[i])
			if at < 0 {
				return "", false
			}
			out.WriteByte("\n\b\t\\\""[at])
		case !quoted && out.Len() == 0 && strings.IndexByte(" \t\r", c) >= 0:
			continue // white space at the beginning, also of a continued line
		default:
			if out.WriteByte(c); !quoted {
				continue
			}
		}
		keep = out.Len()
	}
	value := out.String()
	return value[:keep] + strings.TrimRight(value[keep:], " \t\r"), true
}

// isWorktree reports whether s sets core.worktree.
func (s *setting) isWorktree() bool { return s.section == "core" && s.key == "worktree" }

// worktreeOf returns core.worktree of a git configuration.
func worktreeOf(text []byte) (tree string, ok bool) {
	for _, s := range settings(text) {
		if s.isWorktree() {
			tree, ok = s.value, true
		}
	}
	return tree, ok
}

// editConfig replaces each assignment for which change returns another text. If that text is
// empty, it removes the line.
func editConfig(text []byte, change func(s *setting) (string, bool)) []byte {
	var out []byte
	done := 0
	for _, s := range settings(text) {
		next, ok := change(&s)
		if !ok {
			continue
		}
		out = append(append(out, text[done:s.from]...), next...)
		if done = s.to; next != "" {
			continue
		}
		line := len(out) - len(strings.TrimRight(string(out), " \t"))
		if at := len(out) - line; (at == 0 || out[at-1] == '\n') && done < len(text) {
			out, done = out[:at], done+1
		}
	}
	return append(out, text[done:]...)
}

// quoteConfig formats a value so that git reads back the same value.
func quoteConfig(value string) string {
	if strings.Trim(value, " \t\r") == value && !strings.ContainsAny(value, "#;\"\\\n\b\t") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\b", `\b`, "\t", `\t`).Replace(value) + `"`
}

// dropWorktree drops the settings that make a repository bare or assign it to a directory.
func dropWorktree(s *setting) (string, bool) {
	return "", s.section == "core" && (s.key == "worktree" || s.key == "bare")
}

// moveWorktree returns an edit of core.worktree in the copy of the git directory was. It changes
// a path in the tree to the path in the fork, and drops any other path.
func (f *fork) moveWorktree(was string) func(s *setting) (string, bool) {
	return func(s *setting) (string, bool) {
		if !s.isWorktree() {
			return "", false
		}
		path, ok := f.inFork(resolve(was, s.value))
		if !ok {
			return "", true
		}
		if _, inTree := inside(f.from.root, was); inTree && !filepath.IsAbs(s.value) {
			return "", false
		}
		return "worktree = " + quoteConfig(path), true
	}
}
