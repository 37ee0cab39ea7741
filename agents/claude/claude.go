// Package claude describes Claude Code 2.1.
package claude

import "github.com/dalsegno/segno/agents/profile"

// Name is the agent's name.
const Name = "claude"

// Profile describes the agent.
func Profile() profile.Profile {
	return profile.Profile{
		Name:         Name,
		Adapters:     []string{"claude-agent-acp", "claude-code-acp"},
		Home:         profile.Dir{{Variable: "CLAUDE_CONFIG_DIR"}, {Variable: profile.UserHome, Below: ".claude"}},
		Hooks:        hooks(),
		ShellEnv:     "CLAUDECODE",
		SessionEnv:   "CLAUDE_CODE_SESSION_ID",
		Tools:        tools(),
		Failures:     failures,
		ReportsCalls: true, HasAllResults: true,
		Login: &profile.Login{File: ".credentials.json", Parts: []profile.LoginPart{
			{Keys: []string{"claudeAiOauth", "organizationUuid"}, Expiry: []profile.Expiry{{Path: []string{"claudeAiOauth", "expiresAt"}}}},
			{Parent: "mcpOAuth", Expiry: []profile.Expiry{{Path: []string{"expiresAt"}}}},
		}},
		Archived: &profile.Archived{
			Format: "claude-code-v1",
			Files: []string{
				"projects/@cwd/SESSION.jsonl", "projects/@cwd/SESSION/subagents/**", "projects/@cwd/SESSION/tool-results/**",
				"tasks/SESSION/**", "file-history/SESSION/**",
			},
			Credentials: []string{"session-env/SESSION/**"}, // dumps of the environment
		},
		Plugin: plugin,
		Denied: denied(),
	}
}

// hooks describes hooks that run synchronously: Claude Code kills an asynchronous Stop hook together with a print-mode
// process, which would lose the turn. WorktreeCreate is not registered, because a hook on it replaces the creation.
func hooks() *profile.Hooks {
	return &profile.Hooks{
		Registrations: []profile.Registration{
			{Event: "SessionStart", Timeout: 10},
			{Event: "UserPromptSubmit", Timeout: 60},
			{Event: "PreToolUse", Matcher: "*", Timeout: 5},
			{Event: "PostToolUse", Matcher: "*", Timeout: 5},
			{Event: "PostToolUseFailure", Matcher: "*", Timeout: 5},
			{Event: "Stop", Timeout: 60},
			{Event: "StopFailure", Timeout: 60},
			{Event: "SubagentStop", Timeout: 5},
			{Event: "WorktreeRemove", Timeout: 30},
			{Event: "SessionEnd", Timeout: 30},
		},
		UserFile: "settings.json", ProjectFile: ".claude/settings.local.json", Sessions: "projects",
		DirVariable: "CLAUDE_PROJECT_DIR", WritesAfterStop: true,
		Switch: &profile.Switch{Path: []string{"disableAllHooks"}, Off: true},
	}
}

func denied() []string {
	return []string{
		".claude/settings.json",        // https://code.claude.com/docs/en/settings
		".claude/settings.local.json",  // https://code.claude.com/docs/en/settings
		".claude/hooks",                // https://code.claude.com/docs/en/hooks
		".claude/agents",               // https://code.claude.com/docs/en/sub-agents
		".claude/commands",             // https://code.claude.com/docs/en/slash-commands
		".claude/plugins",              // https://code.claude.com/docs/en/plugins
		".claude/skills",               // https://code.claude.com/docs/en/skills
		".claude/workflows",            // npm @anthropic-ai/claude-code
		".claude/launch.json",          // https://code.claude.com/docs/en/desktop
		".claude/scheduled_tasks.json", // https://code.claude.com/docs/en/scheduled-tasks
		".claude-plugin",               // https://code.claude.com/docs/en/plugins-reference
		".mcp.json",                    // https://code.claude.com/docs/en/mcp
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
