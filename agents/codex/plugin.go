package codex

import "github.com/dalsegno/segno/agents/profile"

// plugin describes a marketplace with one plugin: https://developers.openai.com/codex/plugins/build. Plugins have no commands,
// so each verb is a skill.
func plugin() *profile.Plugin {
	return &profile.Plugin{
		Files: map[string]string{
			".agents/plugins/marketplace.json": `{"name":"segno","interface":{"displayName":"segno"},"plugins":[{"name":"segno","source":{"source":"local","path":"./segno"},` +
				`"policy":{"installation":"AVAILABLE","authentication":"ON_INSTALL"},"category":"Productivity"}]}`,
			"segno/.codex-plugin/plugin.json": `{"name":"segno","version":VERSION,"description":DESCRIPTION,"skills":"./skills/","mcpServers":"./.mcp.json",` +
				`"interface":{"displayName":"segno","shortDescription":DESCRIPTION,"category":"Productivity"}}`,
			"segno/.mcp.json": `{"mcpServers":{"segno":{"command":COMMAND,"args":ARGS}}}`,
		},
		Skill: "segno/skills/segno/SKILL.md",
		Verb:  "segno/skills/NAME/SKILL.md", Form: profile.SkillCommand, Arguments: "what the user asked for",
		Install: []string{"codex plugin marketplace add DIR", "codex plugin add segno@segno"},
	}
}
