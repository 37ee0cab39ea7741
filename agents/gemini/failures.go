package gemini

import "github.com/dalsegno/segno/agents/profile"

// failures describes the answers of gemini --acp that report a problem.
func failures() []profile.Failure {
	type list = []string
	version := list{"0.61.0"}
	return []profile.Failure{
		{Problem: profile.LoginNeeded, Observed: version, Code: -32000},
		{Problem: profile.NoFork, Observed: version, Methods: profile.Fork, Code: -32601},
		{Problem: profile.NotOffered, Observed: version, Methods: list{"session/resume"}, Code: -32601},

		{Problem: profile.MissingSession, By: profile.ByText, Observed: version, Methods: profile.Prompt, Code: -32602,
			Text: list{"^session not found"}},
		{Problem: profile.MissingSession, By: profile.ByText, Observed: version, Methods: profile.Reopen, Code: -32603,
			Text: list{"^no previous sessions found"}},
	}
}
