package event

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/agenttool"
)

// Bounds are the directories that decide which paths are outside the recorded workspace.
type Bounds struct {
	Root  string // the root of the workspace, with symlinks resolved
	Dir   string // the directory of the session, to which paths are relative
	Home  string // the directory that ~ expands to
	Agent string // the agent's own directory; its plans and transcripts are not recorded
}

// Outside returns the paths outside the workspace that a tool call names as files to write, sorted,
// without duplicates. The input of a tool that writes names them. For a shell command, only words
// that certainly name a file to write count (see shellTargets). Paths in directories for temporary
// files and devices do not count. Tools that only read do not count.
func (b Bounds) Outside(tool string, input json.RawMessage) []string {
	var named []string
	var in fields
	switch {
	case json.Unmarshal(input, &in) != nil:
		return nil
	case agenttool.IsShell(tool):
		// The event does not have the directory of the command, so only absolute paths of a patch count.
		patched := slices.DeleteFunc(agenttool.PatchFiles(in.command()), func(p string) bool { return !filepath.IsAbs(p) })
		named = slices.DeleteFunc(append(shellTargets(in.command()), patched...), b.isScratch)
	case tool == agenttool.ApplyPatch:
		named = agenttool.PatchFiles(in.command())
	case writesFiles(tool):
		named = []string{in.FilePath, in.OpenCodePath, in.NotebookPath, in.Path, in.Source, in.Destination}
	}
	var out []string
	for _, p := range named {
		if p == "" {
			continue
		}
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
	OpenCodePath string          `json:"filePath"`
	NotebookPath string          `json:"notebook_path"`
	Path         string          `json:"path"`
	Source       string          `json:"source"`
	Destination  string          `json:"destination"`
	Command      json.RawMessage `json:"command"`
	Cmd          json.RawMessage `json:"cmd"`
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

// writesFiles reports whether a tool writes the files that its input names. A table lists the tools
// of agents. For tools of MCP servers, the verb in the name decides.
func writesFiles(tool string) bool {
	if agenttool.Of(tool).Effect == agenttool.Writes {
		return true
	}
	if !strings.HasPrefix(tool, "mcp__") {
		return false
	}
	name := strings.ToLower(tool[strings.LastIndex(tool, "__")+2:])
	return slices.ContainsFunc([]string{"write", "edit", "create", "delete", "remove", "move", "rename", "save", "append", "insert", "patch"},
		func(verb string) bool { return strings.Contains(name, verb) })
}

// absolute makes a path absolute. It returns "" if that is impossible.
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

// contains reports whether a path is inside the workspace, symlinks resolved, among the
// agent's own files, or a device. /dev/shm has ordinary files.
func (b Bounds) contains(p string) bool {
	p = realPath(p)
	if isWithin("/dev", p) && !isWithin("/dev/shm", p) {
		return true
	}
	dirs := []string{b.Root, realPath(filepath.Join(b.Agent, "plans")), realPath(filepath.Join(b.Agent, "projects"))}
	return slices.ContainsFunc(dirs, func(dir string) bool { return isWithin(dir, p) })
}

// isScratch reports whether a path is inside a directory for devices or temporary files
// that does not contain the workspace.
func (b Bounds) isScratch(p string) bool {
	p = realPath(b.absolute(p))
	dirs := []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", os.TempDir()}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir = realPath(dir)
		return isWithin(dir, p) && !isWithin(dir, b.Root)
	})
}

func isWithin(dir, p string) bool {
	return filepath.IsAbs(dir) && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}

// realPath resolves the symlinks of as much of a path as exists.
func realPath(p string) string {
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

// maxPath is the length limit of a path in an event and in a clipped input.
const maxPath = 4096

// clipInput shortens a tool's input like [segno.Clip], but keeps the members that name the
// file.
func clipInput(raw json.RawMessage) json.RawMessage {
	clipped := segno.Clip(raw)
	if len(clipped) == len(raw) {
		return clipped
	}
	var in, out map[string]json.RawMessage
	if json.Unmarshal(raw, &in) != nil || json.Unmarshal(clipped, &out) != nil {
		return clipped
	}
	if headers := agenttool.PatchHeaders(fields{Command: in["command"]}.command()); headers != nil {
		out["command"], _ = json.Marshal(agenttool.PatchBegin + strings.Join(headers, "")) // a string always encodes
	}
	for _, name := range []string{"file_path", "filePath", "notebook_path", "path"} {
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
