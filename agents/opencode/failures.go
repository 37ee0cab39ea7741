package opencode

import "github.com/dalsegno/segno/agents/profile"

// failures describes the answers of opencode acp that report a problem.
func failures() []profile.Failure {
	type list = []string
	version := list{"1.18.33"}
	return []profile.Failure{
		{Problem: profile.MissingSession, Observed: version, Methods: profile.Opening, Code: -32603, Key: "service",
			Values: list{"session"}},

		{Problem: profile.MissingSession, By: profile.ByText, Observed: version, Methods: profile.Prompt, Code: -32602,
			Text: list{"^invalid params: session not found"}},
	}
}
