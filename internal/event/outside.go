package event

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Bounds tell which paths that a tool names lie outside what is recorded.
type Bounds struct {
	Root  string // of the workspace, symlinks resolved
	Dir   string // of the session; relative paths start there
	Home  string // the directory that ~ expands to
	Agent string // the agent's own directory; its plans and notes there are not work
}

// Outside returns the paths outside the workspace that a tool call says it writes:
// sorted, each once. Structured inputs of tools that write are certain. Of a shell
// command only words count that certainly name a file to write (see shellTargets), and
// not in directories for temporary files and devices. Tools that only read do not count.
func (b Bounds) Outside(tool string, input json.RawMessage) []string {
	var named []string
	var in fields
	switch {
	case json.Unmarshal(input, &in) != nil:
		return nil
	case isShell(tool):
		named = slices.DeleteFunc(shellTargets(in.command()), b.isScratch)
	case writesFiles(tool):
		named = in.paths()
	}
	var out []string
	for _, p := range named {
		if p = b.absolute(p); p != "" && !b.contains(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fields are the members of a tool's input that name files.
type fields struct {
	FilePath     string          `json:"file_path"`
	NotebookPath string          `json:"notebook_path"`
	Path         string          `json:"path"`
	Source       string          `json:"source"`
	Destination  string          `json:"destination"`
	Command      json.RawMessage `json:"command"`
	Cmd          json.RawMessage `json:"cmd"`
}

func (f fields) paths() []string {
	return slices.DeleteFunc([]string{f.FilePath, f.NotebookPath, f.Path, f.Source, f.Destination}, func(s string) bool { return s == "" })
}

// command is the text of a shell command, which may be the last of a program's
// arguments.
func (f fields) command() string {
	for _, raw := range []json.RawMessage{f.Command, f.Cmd} {
		var text string
		var words []string
		switch {
		case json.Unmarshal(raw, &text) == nil && text != "":
			return text
		case json.Unmarshal(raw, &words) == nil && len(words) > 0:
			return words[len(words)-1]
		}
	}
	return ""
}

func isShell(tool string) bool {
	return slices.Contains([]string{"Bash", "exec_command", "shell", "execute"}, tool)
}

// writesFiles reports whether a tool writes the files that its input names: Claude
// Code's own tools and kinds of the Agent Client Protocol by name, tools of MCP servers
// by the verbs in their names.
func writesFiles(tool string) bool {
	if slices.Contains([]string{"Write", "Edit", "MultiEdit", "NotebookEdit", "edit", "delete", "move"}, tool) {
		return true
	}
	if !strings.HasPrefix(tool, "mcp__") {
		return false
	}
	name := strings.ToLower(tool[strings.LastIndex(tool, "__")+2:])
	return slices.ContainsFunc([]string{"write", "edit", "create", "delete", "remove", "move", "rename", "save", "append", "insert", "patch"},
		func(verb string) bool { return strings.Contains(name, verb) })
}

// absolute makes a path absolute; "" if it cannot be.
func (b Bounds) absolute(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok && b.Home != "" {
		p = filepath.Join(b.Home, rest)
	}
	if !filepath.IsAbs(p) && b.Dir != "" {
		p = filepath.Join(b.Dir, p)
	}
	if !filepath.IsAbs(p) || strings.ContainsRune(p, 0) {
		return ""
	}
	return filepath.Clean(p)
}

// contains reports whether a path lies in the workspace, by the directories that are
// there, or in the agent's own books.
func (b Bounds) contains(p string) bool {
	p = real(p)
	for _, dir := range []string{b.Root, real(filepath.Join(b.Agent, "plans")), real(filepath.Join(b.Agent, "projects")), "/dev"} {
		if in(dir, p) {
			return true
		}
	}
	return false
}

// isScratch reports whether a path lies in a directory for devices or temporary files,
// where the workspace does not lie itself.
func (b Bounds) isScratch(p string) bool {
	p = real(b.absolute(p))
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", os.TempDir()} {
		if dir = real(dir); in(dir, p) && !in(dir, b.Root) {
			return true
		}
	}
	return false
}

func in(dir, p string) bool {
	return filepath.IsAbs(dir) && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}

// real resolves the symlinks of as much of a path as is there.
func real(p string) string {
	rest := ""
	for at := p; ; at = filepath.Dir(at) {
		if resolved, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(resolved, rest)
		}
		if at == filepath.Dir(at) {
			return p
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// maxPath is the length of the longest path that is kept of a clipped input.
const maxPath = 4096

// clipInput is [segno.Clip] for a tool's input. What names the file is kept beside the
// clipped rest.
func clipInput(raw json.RawMessage) json.RawMessage {
	clipped := segno.Clip(raw)
	if len(clipped) == len(raw) {
		return clipped
	}
	var in map[string]json.RawMessage
	var out map[string]json.RawMessage
	if json.Unmarshal(raw, &in) != nil || json.Unmarshal(clipped, &out) != nil {
		return clipped
	}
	for _, name := range []string{"file_path", "notebook_path", "path"} {
		if v := in[name]; len(v) > 0 && len(v) <= maxPath && v[0] == '"' {
			out[name] = v
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return clipped
	}
	return data
}
