// Package codex describes Codex 0.125 to 0.171.
package codex

import "github.com/dalsegno/segno/agents/profile"

// Name is the agent's name.
const Name = "codex"

// Profile describes the agent. It may run tools without hooks, so it does not report all calls.
func Profile() profile.Profile {
	return profile.Profile{
		Name:     Name,
		Adapters: []string{"codex-acp"},
		Home:     profile.Dir{{Variable: "CODEX_HOME"}, {Variable: profile.UserHome, Below: ".codex"}},
		Hooks:    hooks(),
		ShellEnv: "CODEX_THREAD_ID", SessionEnv: "CODEX_THREAD_ID",
		Tools:    tools(),
		Failures: failures,
		Login: &profile.Login{File: "auth.json", Parts: []profile.LoginPart{{
			Keys:   []string{"OPENAI_API_KEY", "auth_mode", "tokens", "last_refresh"},
			Expiry: []profile.Expiry{{Path: []string{"tokens", "access_token"}, Form: profile.JWT}, {Path: []string{"last_refresh"}, Form: profile.Date}},
		}}},
		Archived: &profile.Archived{
			Format: "codex-v1",
			// A cut is one rollout below sessions. Another program may also pack rollouts that Codex wrote. Compressed
			// rollouts are not allowed, because the limits of an archive do not bound their decompressed size.
			Files: []string{"{sessions/*/*/*,archived_sessions}/rollout-*-SESSION{,_*}.jsonl"},
		},
		Plugin: plugin,
		Denied: []string{
			".codex",        // https://developers.openai.com/codex/config-basic
			".codex-plugin", // https://developers.openai.com/codex/plugins
		},
	}
}

// hooks describes the hooks. Codex waits at most 3 seconds for those of Interrupt and SessionEnd, and warns about a
// longer timeout. Version 0.125 ignores these two events and SubagentStop. The list and its order are part of what the
// user trusts: a change makes Codex ask the user to review the hooks again.
func hooks() *profile.Hooks {
	return &profile.Hooks{
		Registrations: []profile.Registration{
			{Event: "SessionStart", Timeout: 10},
			{Event: "UserPromptSubmit", Timeout: 60},
			{Event: "PreToolUse", Timeout: 5},
			{Event: "PostToolUse", Timeout: 5},
			{Event: "Stop", Timeout: 60},
			{Event: "SubagentStop", Timeout: 5},
			{Event: "Interrupt", Timeout: 3},
			{Event: "SessionEnd", Timeout: 3},
		},
		RunsShell: true, IsReviewed: true, HasSubagentPrompts: true,
		UserFile: "hooks.json", ProjectFile: ".codex/hooks.json", Config: "config.toml", Sessions: "sessions",
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"bash":               profile.Run, // the name of all shells in hooks
		"exec_command":       profile.Run,
		"shell":              profile.Run,
		"shell_command":      profile.Run,
		"local_shell":        profile.Run,
		"write_stdin":        {Effect: profile.Runs, Kind: "execute", Subject: []string{"chars"}}, // hooks do not report it
		profile.ApplyPatch:   profile.Remove("edit", "command", "input"),                          // a patch names its files
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
