package codex

import "github.com/dalsegno/segno/agents/profile"

// failures describes the answers of codex-acp that report a problem.
func failures() []profile.Failure {
	type list = []string
	version := list{"2.6.0"}
	return []profile.Failure{
		{Problem: profile.Cancelled, Code: -32800, Documented: version},
		{Problem: profile.LoginNeeded, Observed: version, Code: -32000},
		{Problem: profile.MissingSession, Observed: version, Code: -32002, Key: "sessionId"},
		{Problem: profile.BusySession, Observed: version, Code: -32600, Key: "reason", Values: list{"thread_active_writer"}},
		{Problem: profile.NoForkPoint, Observed: version, Methods: profile.Fork, Code: -32602, Key: "messageId"},
		{Problem: profile.MissingSession, Documented: version, Methods: profile.Prompt, Code: 1001, Key: "restartable",
			Values: list{"false"}, Text: list{"had no messages yet and was lost"}},
		{Problem: profile.ChildCrashes, Documented: version, Code: 1001, Key: "restartable", Values: list{"false"},
			Text: list{"does not open this session again"}},
		{Problem: profile.ChildStaysDead, Documented: version, Code: 1001, Key: "restartable", Values: list{"false"}},
		{Problem: profile.ChildRestarts, Observed: version, Code: 1001},
		{Problem: profile.UsageLimit, By: profile.ByData, Documented: version, Key: "codexErrorInfo", Values: list{"usageLimitExceeded"}},

		{Problem: profile.MissingSession, By: profile.ByText, Observed: version, Code: -32603,
			Text: list{"^no rollout found for thread id", "^invalid session id", "^invalid thread id", "^thread not found:"}},

		{Problem: profile.Cancelled, By: profile.ByStop, Observed: version, Stop: list{"cancelled"}},

		{Problem: profile.ChildRestarts, By: profile.ByCategory, Observed: version, Category: list{"connection"},
			Text: list{"^connection to codex was lost"}},
		{Problem: profile.Overload, By: profile.ByCategory, Observed: version, Category: list{"connection"},
			Text: list{"unexpected status 5"}},
		{Problem: profile.ConnectionLost, By: profile.ByCategory, Documented: version, Category: list{"connection"}},
		{Problem: profile.RateLimit, By: profile.ByCategory, Observed: version, Category: list{"limit"}, Text: list{"429"}},
		{Problem: profile.Overload, By: profile.ByCategory, Documented: version, Category: list{"service"}},

		{Problem: profile.UsageLimit, By: profile.BySystemError, Documented: version, Text: list{"usage limit"}},
		{Problem: profile.RateLimit, By: profile.BySystemError, Observed: version,
			Text: list{"last status: 429", "too many requests"}},
		{Problem: profile.TooLong, By: profile.BySystemError, Observed: version,
			Text: list{"context window", "prompt is too long", "context_length_exceeded"}},
		{Problem: profile.RequestRejected, By: profile.BySystemError, Observed: version, Text: list{"invalid_request_error"}},
		{Problem: profile.ConnectionLost, By: profile.BySystemError, Observed: version,
			Text: list{"stream disconnected", "transport error"}},
		{Problem: profile.Overload, By: profile.BySystemError, Observed: version,
			Text: list{"unexpected status 5", "high demand", "overloaded", "at capacity"}},
		{Problem: profile.UnknownError, By: profile.BySystemError, Documented: version},
		{Problem: profile.EmptyTurn, By: profile.ByEnd, Observed: version, Stop: list{"end_turn"}, Silent: true},

		{Problem: profile.AgentGone, By: profile.ByExit, Observed: version, Methods: profile.Prompt},
	}
}
