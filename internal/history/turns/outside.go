package turns

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/vfs"
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
	switch t := agents.Tool(tool); {
	case t.Effect == profile.Runs:
		command := t.Command(input)
		// The event does not have the directory of the command, so only absolute paths of a patch count.
		patched := slices.DeleteFunc(profile.PatchFiles(command), func(p string) bool { return !filepath.IsAbs(p) })
		named = slices.DeleteFunc(append(shellTargets(command), patched...), b.isScratch)
	case isWriterOfServer(tool):
		named = profile.Edit(FileFields()...).Files(input)
	default:
		named = t.Files(input)
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

// FileFields returns the fields in which tools that no table lists name a file.
func FileFields() []string {
	return []string{"file_path", "filePath", "notebook_path", "path", "source", "destination"}
}

// isWriterOfServer reports whether a tool of an MCP server writes the files that its input names. The verb in its name
// decides, because no table lists it.
func isWriterOfServer(tool string) bool {
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
	p = vfs.RealPath(p)
	if isWithin("/dev", p) && !isWithin("/dev/shm", p) {
		return true
	}
	dirs := []string{b.Root, vfs.RealPath(filepath.Join(b.Agent, "plans")), vfs.RealPath(filepath.Join(b.Agent, "projects"))}
	return slices.ContainsFunc(dirs, func(dir string) bool { return isWithin(dir, p) })
}

// isScratch reports whether a path is inside a directory for devices or temporary files
// that does not contain the workspace.
func (b Bounds) isScratch(p string) bool {
	p = vfs.RealPath(b.absolute(p))
	dirs := []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", os.TempDir()}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir = vfs.RealPath(dir)
		return isWithin(dir, p) && !isWithin(dir, b.Root)
	})
}

func isWithin(dir, p string) bool {
	return filepath.IsAbs(dir) && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}
