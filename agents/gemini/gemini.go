// Package gemini describes Gemini CLI 0.61.
package gemini

import "github.com/dalsegno/segno/agents/profile"

// Name is the agent's name.
const Name = "gemini"

// Profile describes the agent.
func Profile() profile.Profile {
	return profile.Profile{
		Name:         Name,
		Home:         profile.Dir{{Variable: "GEMINI_CLI_HOME", Below: ".gemini"}, {Variable: profile.UserHome, Below: ".gemini"}},
		Hooks:        hooks(),
		ShellEnv:     "GEMINI_CLI",
		Tools:        tools(),
		Failures:     failures,
		ReportsCalls: true,
		Login: &profile.Login{File: "oauth_creds.json", Parts: []profile.LoginPart{{
			Keys:   []string{"access_token", "refresh_token", "id_token", "token_type", "scope", "expiry_date"},
			Expiry: []profile.Expiry{{Path: []string{"expiry_date"}}},
		}}},
		Plugin: plugin,
		Denied: []string{
			".gemini/settings.json",      // https://geminicli.com/docs/reference/configuration/
			".gemini/hooks",              // https://geminicli.com/docs/hooks/
			".gemini/commands",           // https://geminicli.com/docs/cli/custom-commands/
			".gemini/extensions",         // https://geminicli.com/docs/extensions/
			".gemini/skills",             // https://geminicli.com/docs/cli/skills/
			".gemini/agents",             // https://geminicli.com/docs/core/subagents/
			".gemini/sandbox.bashrc",     // https://geminicli.com/docs/cli/sandbox/
			".gemini/sandbox.dockerfile", // https://geminicli.com/docs/cli/sandbox/
		},
	}
}

// hooks describes the hooks. PreCompress is not registered, because Gemini CLI fires it at every call of the model,
// whether it compresses or not.
func hooks() *profile.Hooks {
	return &profile.Hooks{
		Registrations: []profile.Registration{
			{Event: "SessionStart", Timeout: 10},
			{Event: "BeforeAgent", Timeout: 60},
			{Event: "BeforeTool", Timeout: 5},
			{Event: "AfterTool", Timeout: 5},
			{Event: "AfterAgent", Timeout: 60},
			{Event: "SessionEnd", Timeout: 30},
		},
		Events:    map[string]string{"BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop", "BeforeTool": "PreToolUse", "AfterTool": "PostToolUse"},
		RunsShell: true, InMilliseconds: true, ShowsNames: true, TimeIsPromptID: true, HidesInterruptions: true,
		UserFile: "settings.json", ProjectFile: ".gemini/settings.json", Sessions: "tmp",
		DirVariable: "GEMINI_PROJECT_DIR", Switch: &profile.Switch{Path: []string{"hooksConfig", "enabled"}, Off: false},
	}
}

func tools() map[string]profile.Tool {
	return map[string]profile.Tool{
		"run_shell_command":      profile.Run,
		"write_file":             profile.Write("file_path"),
		"replace":                profile.Edit("file_path"),
		"read_file":              profile.Read,
		"read_many_files":        profile.Search,
		"glob":                   profile.Search,
		"list_directory":         profile.Search,
		"search_file_content":    profile.Search,
		"grep_search":            profile.Search,
		"google_web_search":      profile.Search,
		"web_fetch":              profile.Search,
		"get_internal_docs":      profile.Search,
		"list_mcp_resources":     profile.Search,
		"read_mcp_resource":      profile.Search,
		"write_todos":            profile.Plan,
		"enter_plan_mode":        profile.Plan,
		"exit_plan_mode":         profile.Plan, // it shows the plan to the user and waits for the answer
		"tracker_create_task":    profile.Plan,
		"tracker_update_task":    profile.Plan,
		"tracker_get_task":       profile.Plan,
		"tracker_list_tasks":     profile.Plan,
		"tracker_add_dependency": profile.Plan,
		"tracker_visualize":      profile.Plan,
		"update_topic":           profile.Plan,
		"ask_user":               profile.Ask,
		"invoke_agent":           profile.Start, // the hooks report the calls of the subagent
		"complete_task":          profile.Plan,
		"activate_skill":         profile.Ask,
	}
}
