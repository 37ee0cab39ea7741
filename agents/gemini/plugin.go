package gemini

import "github.com/dalsegno/segno/agents/profile"

// plugin describes an extension: https://geminicli.com/docs/extensions/reference/.
func plugin() *profile.Plugin {
	return &profile.Plugin{
		Files: map[string]string{
			"gemini-extension.json": `{"name":"segno","version":VERSION,"description":DESCRIPTION,"mcpServers":{"segno":{"command":COMMAND,"args":ARGS}}}`,
		},
		Skill: "skills/segno/SKILL.md",
		Verb:  "commands/NAME.toml", Form: profile.TOMLCommand, Arguments: "{{args}}",
		Install: []string{"gemini extensions install DIR"},
	}
}
