package claude

import "github.com/dalsegno/segno/agents/profile"

// plugin describes a marketplace with one plugin: https://code.claude.com/docs/en/plugins-reference. It has no hooks: those of
// 'segno enable' are in settings.json, where an administrator and all kinds of sessions accept them.
func plugin() *profile.Plugin {
	return &profile.Plugin{
		Files: map[string]string{
			".claude-plugin/marketplace.json":  `{"name":"segno","description":DESCRIPTION,"owner":{"name":"segno"},"plugins":[{"name":"segno","source":"./segno","description":DESCRIPTION}]}`,
			"segno/.claude-plugin/plugin.json": `{"name":"segno","version":VERSION,"description":DESCRIPTION,"author":{"name":"segno"}}`,
			"segno/.mcp.json":                  `{"mcpServers":{"segno":{"command":COMMAND,"args":ARGS}}}`,
		},
		Skill: "segno/skills/segno/SKILL.md",
		Verb:  "segno/commands/NAME.md", Form: profile.MarkdownCommand, Arguments: "$ARGUMENTS",
		Install: []string{"claude plugin marketplace add DIR", "claude plugin install segno@segno"},
	}
}
