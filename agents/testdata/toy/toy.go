// Package toy describes an agent that exists only in a test.
package toy

import "github.com/dalsegno/segno/agents/profile"

// Profile describes the agent. Its hooks run as those of Gemini CLI do, with other names of events.
func Profile() profile.Profile {
	return profile.Profile{
		Name: "toy",
		Home: profile.Dir{{Variable: "TOY_HOME"}, {Variable: profile.UserHome, Below: ".toy"}},
		Hooks: &profile.Hooks{
			Registrations: []profile.Registration{
				{Event: "Asked", Timeout: 60},
				{Event: "Calling", Timeout: 5},
				{Event: "Called", Timeout: 5},
				{Event: "Answered", Timeout: 60},
			},
			Events:   map[string]string{"Asked": "UserPromptSubmit", "Calling": "PreToolUse", "Called": "PostToolUse", "Answered": "Stop"},
			UserFile: "settings.json", ProjectFile: ".toy/settings.json",
			RunsShell: true,
		},
		Tools: map[string]profile.Tool{
			"scribble": profile.Write("target"),
			"peek":     profile.Search,
		},
		ReportsCalls: true,
		Login:        &profile.Login{File: "login.json", Parts: []profile.LoginPart{{Keys: []string{"token"}}}},
		Denied:       []string{".toy/plugins"},
	}
}
