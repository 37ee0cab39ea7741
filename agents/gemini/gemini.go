// Package gemini describes Gemini CLI 0.61.
package gemini

import "github.com/dalsegno/segno/agents/profile"

// Profile describes the agent.
func Profile() profile.Profile {
	return profile.Profile{
		Name:         "gemini",
		Tools:        tools(),
		ReportsCalls: true,
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"run_shell_command":   profile.Run,
		"write_file":          profile.Write("file_path"),
		"replace":             profile.Edit("file_path"),
		"read_file":           profile.Read,
		"read_many_files":     profile.Search,
		"glob":                profile.Search,
		"list_directory":      profile.Search,
		"search_file_content": profile.Search,
		"grep_search":         profile.Search,
		"google_web_search":   profile.Search,
		"web_fetch":           profile.Search,
		"get_internal_docs":   profile.Search,
		"write_todos":         profile.Plan,
		"enter_plan_mode":     profile.Plan,
		"update_topic":        profile.Plan,
		"ask_user":            profile.Ask,
		"activate_skill":      profile.Ask,
	}
}
