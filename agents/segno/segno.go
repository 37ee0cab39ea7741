// Package segno describes segno's own agent, and the tools of other agents in Go.
package segno

import "github.com/dalsegno/segno/agents/profile"

// Profile describes the agent. A Go agent commits its steps itself, and this is only for agents that use the same
// tools through a proxy or hooks.
func Profile() profile.Profile {
	return profile.Profile{
		Name:  "segno",
		Tools: tools(),
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"execute":     profile.Run,
		"write_file":  profile.Write("path"),
		"edit_file":   profile.Edit("path"),
		"append_file": profile.Edit("path"),
		"read_file":   profile.Read,
		"ls":          profile.Search,
		"glob":        profile.Search,
		"grep":        profile.Search,
		"write_todos": profile.Plan,
		"task":        profile.Start,
		// Names that other agents in Go use:
		"create_file": profile.Write("path", "file_path"),
		"str_replace": profile.Edit("path", "file_path"),
	}
}
