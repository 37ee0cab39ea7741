// Package opencode describes OpenCode 1.18.
package opencode

import "github.com/dalsegno/segno/agents/profile"

// Name is the agent's name.
const Name = "opencode"

// Profile describes the agent.
func Profile() profile.Profile {
	return profile.Profile{
		Name:         Name,
		Home:         profile.Dir{{Variable: "OPENCODE_CONFIG_DIR"}, {Variable: "XDG_CONFIG_HOME", Below: "opencode"}, {Variable: profile.UserHome, Below: ".config/opencode"}},
		Data:         profile.Dir{{Variable: "XDG_DATA_HOME", Below: "opencode"}, {Variable: profile.UserHome, Below: ".local/share/opencode"}},
		Hooks:        hooks(),
		ShellEnv:     "OPENCODE",
		Tools:        tools(),
		Failures:     failures,
		ReportsCalls: true,
		Login:        &profile.Login{File: "auth.json", Parts: []profile.LoginPart{{Expiry: []profile.Expiry{{Path: []string{"expires"}}}}}},
		Denied: []string{
			".opencode",      // https://opencode.ai/docs/config/
			"opencode.json",  // https://opencode.ai/docs/config/
			"opencode.jsonc", // https://opencode.ai/docs/config/
		},
	}
}

// hooks describes the events of a plugin: OpenCode has no hooks that run commands. It loads plugins, and segno's plugin
// sends the events.
func hooks() *profile.Hooks {
	return &profile.Hooks{
		Registrations: []profile.Registration{
			{Event: "SessionStart", Timeout: 10},
			{Event: "UserPromptSubmit", Timeout: 60},
			{Event: "PreToolUse", Timeout: 5},
			{Event: "PostToolUse", Timeout: 5},
			{Event: "Stop", Timeout: 60},
			{Event: "Interrupt", Timeout: 60},
		},
		IsPlugin: true,
		UserFile: "plugins/segno.js", ProjectFile: ".opencode/plugins/segno.js",
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
		"plan_enter":       profile.Ask,
		"plan_exit":        profile.Ask,
		"skill":            profile.Ask,
		"task":             profile.Start,
	}
}
