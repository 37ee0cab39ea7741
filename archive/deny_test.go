package archive

import "testing"

// TestFilesThatRunOrTellAreKnown has files that agents and editors run, or follow as instructions, when they start.
func TestFilesThatRunOrTellAreKnown(t *testing.T) {
	for _, name := range []string{".vscode/mcp.json", ".devcontainer.json", "x/.devcontainer/go/devcontainer.json", "opencode.json", "sub/.opencode/plugin/a.js",
		".github/hooks/a.json", ".gemini/extensions/x/gemini-extension.json", ".agents/skills/a/SKILL.md", ".Zed/tasks.json", ".git/hooks/pre-commit",
		"\uff0egit/config", ".claude/\u017fettings.json"} {
		if !denied(Workspace, name) {
			t.Errorf("%s is not denied", name)
		}
	}
	for _, name := range []string{"CLAUDE.md", "sub/Agents.md", ".claude/rules/a.md", ".clinerules/a.md", ".github/copilot-instructions.md", ".github/instructions/a.instructions.md"} {
		if !IsInstruction(name) {
			t.Errorf("%s does not count as an instruction of an agent", name)
		}
	}
	for _, name := range []string{"main.go", "docs/claude.md.txt", "rules/a.md"} {
		if denied(Workspace, name) || IsInstruction(name) {
			t.Errorf("%s is special", name)
		}
	}
}
