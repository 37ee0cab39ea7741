// Package claude describes Claude Code 2.1.
package claude

import "github.com/dalsegno/segno/agents/profile"

// Profile describes the agent.
func Profile() profile.Profile {
	return profile.Profile{
		Name:         "claude",
		Tools:        tools(),
		ReportsCalls: true, HasAllResults: true,
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"bash":             profile.Run,
		"powershell":       profile.Run,
		"write":            profile.Write("file_path"),
		"edit":             profile.Edit("file_path"),
		"multiedit":        profile.Edit("file_path"),
		"notebookedit":     profile.Edit("notebook_path"),
		"read":             profile.Read,
		"notebookread":     profile.Search,
		"glob":             profile.Search,
		"grep":             profile.Search,
		"ls":               profile.Search,
		"lsp":              profile.Search,
		"webfetch":         profile.Search,
		"websearch":        profile.Search,
		"toolsearch":       profile.Search,
		"bashoutput":       profile.Search,
		"taskoutput":       {Effect: profile.Reads},
		"todowrite":        profile.Plan,
		"todoread":         profile.Plan,
		"enterplanmode":    profile.Plan,
		"exitplanmode":     profile.Plan,
		"taskcreate":       {Effect: profile.Plans},
		"taskupdate":       {Effect: profile.Plans},
		"tasklist":         {Effect: profile.Plans},
		"taskget":          {Effect: profile.Plans},
		"taskstop":         profile.Ask,
		"killshell":        profile.Ask,
		"askuserquestion":  profile.Ask,
		"pushnotification": profile.Ask,
		"skill":            profile.Ask,
		"agent":            profile.Start,
		"task":             profile.Start,
	}
}
