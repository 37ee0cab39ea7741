// Package codex describes Codex 0.125 to 0.169.
package codex

import "github.com/dalsegno/segno/agents/profile"

// Profile describes the agent. It may run tools without hooks, so it does not report all calls.
func Profile() profile.Profile {
	return profile.Profile{
		Name:  "codex",
		Tools: tools(),
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"bash":               profile.Run, // the name of all shells in hooks
		"exec_command":       profile.Run,
		"shell":              profile.Run,
		"shell_command":      profile.Run,
		"local_shell":        profile.Run,
		profile.ApplyPatch:   profile.Remove("edit", "command", "input"), // a patch names its files
		"update_plan":        profile.Plan,
		"web_search":         profile.Search,
		"tool_search":        profile.Search,
		"list_dir":           profile.Search,
		"grep_files":         profile.Search,
		"read_file":          profile.Read,
		"view_image":         profile.Read,
		"request_user_input": profile.Ask,
		"wait_agent":         profile.Ask,
		"list_agents":        profile.Ask,
		"close_agent":        profile.Ask,
	}
}
