package agents_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
)

// TestToolsThatOnlyRead lists the tools of each agent that change no file. A turn that uses only these changes nothing.
func TestToolsThatOnlyRead(t *testing.T) {
	for agent, names := range map[string][]string{
		"Claude Code": {"Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "TaskCreate", "AskUserQuestion", "Agent", "Task"},
		"Codex":       {"update_plan", "web_search", "view_image"},
		"Gemini CLI":  {"read_file", "read_many_files", "list_directory", "search_file_content", "google_web_search", "web_fetch", "write_todos"},
		"OpenCode":    {"read", "grep", "glob", "list", "webfetch", "todowrite", "todoread"},
		"ACP":         {"read", "search", "fetch", "think", "switch_mode"},
	} {
		for _, name := range names {
			if agents.Tool(name).ChangesFiles() {
				t.Errorf("%s: %s can change files", agent, name)
			}
		}
	}
	for _, name := range []string{"Bash", "exec_command", "run_shell_command", "bash", "execute", "Write", "Edit", "apply_patch", "replace", "write_file",
		"edit", "delete", "move", "mcp__files__read", "a tool of tomorrow", ""} {
		if !agents.Tool(name).ChangesFiles() {
			t.Errorf("%s changes no files", name)
		}
	}
}

// TestFilesOfACall reads the files that a call names from the field in which its agent puts them.
func TestFilesOfACall(t *testing.T) {
	const patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-0\n+1\n*** Add File: c\n+x\n*** End Patch\n"
	for _, tc := range []struct {
		tool  string
		input map[string]any
		want  []string
	}{
		{"Write", map[string]any{"file_path": "/p/a", "content": "see /p/b"}, []string{"/p/a"}},
		{"edit", map[string]any{"filePath": "/p/a", "oldString": "b"}, []string{"/p/a"}},
		{"NotebookEdit", map[string]any{"notebook_path": "/p/a.ipynb"}, []string{"/p/a.ipynb"}},
		{"replace", map[string]any{"file_path": "/p/a", "instruction": "like /p/b"}, []string{"/p/a"}},
		{"move", map[string]any{"source": "a", "destination": "b"}, []string{"a", "b"}},
		{"apply_patch", map[string]any{"command": patch}, []string{"a", "b", "c"}},
		{"Bash", map[string]any{"command": "rm a"}, nil},
		{"Read", map[string]any{"file_path": "/p/a"}, nil},
		{"Write", map[string]any{}, nil},
	} {
		input, err := json.Marshal(tc.input)
		if err != nil {
			t.Fatal(err)
		}
		if got := agents.Tool(tc.tool).Files(input); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s names %q, want %q", tc.tool, got, tc.want)
		}
	}
}

// FuzzPatch reads patches, which a model writes. The hunks are of files that the patch names, and each but a whole file has lines to find.
func FuzzPatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Add File: a\n+1\n*** Update File: b\n@@ func\n 1\n-2\n+3\n*** Move to: c\n*** End Patch")
	f.Add("apply_patch <<'E'\n*** Begin Patch\n*** Delete File: a\n*** Update File: a\n+1\n\n@@\n*** End of File\n*** End Patch\nE")
	f.Fuzz(func(t *testing.T, text string) {
		files := profile.PatchFiles(text)
		for file, hunks := range profile.PatchHunks(text) {
			if len(text) < 64<<10 && !slices.Contains(files, file) {
				t.Errorf("%q is none of %q", file, files)
			}
			for _, h := range hunks {
				if (h.Before == "") != h.IsWhole {
					t.Errorf("%+v of %q", h, file)
				}
			}
		}
	})
}
