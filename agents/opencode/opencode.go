// Package opencode describes OpenCode 1.18.
package opencode

import "github.com/dalsegno/segno/agents/profile"

// Profile describes the agent.
func Profile() profile.Profile {
	return profile.Profile{
		Name:         "opencode",
		Tools:        tools(),
		ReportsCalls: true,
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"bash":             profile.Run,
		"write":            profile.Write("filePath"),
		"edit":             profile.Edit("filePath"),
		profile.ApplyPatch: profile.Remove("edit", "patchText"),
		"read":             profile.Read,
		"glob":             profile.Search,
		"grep":             profile.Search,
		"list":             profile.Search,
		"codesearch":       profile.Search,
		"lsp":              profile.Search,
		"webfetch":         profile.Search,
		"websearch":        profile.Search,
		"todowrite":        profile.Plan,
		"todoread":         profile.Plan,
		"question":         profile.Ask,
		"skill":            profile.Ask,
		"task":             profile.Start,
	}
}
