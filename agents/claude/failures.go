package claude

import "github.com/dalsegno/segno/agents/profile"

// failures describes the answers of claude-agent-acp that report a problem.
func failures() []profile.Failure {
	type list = []string
	older, newer := list{"0.49.0"}, list{"0.100.0"}
	both := list{"0.49.0", "0.100.0"}
	return []profile.Failure{
		{Problem: profile.LoginNeeded, Observed: newer, Documented: older, Code: -32000},
		{Problem: profile.MissingSession, Observed: both, Methods: profile.Opening, Code: -32002},
		{Problem: profile.MissingSession, Observed: newer, Code: -32002, Key: "sessionId"},
		{Problem: profile.NoForkPoint, Observed: newer, Methods: profile.Fork, Code: -32602, Key: "messageId"},
		{Problem: profile.NoDirectory, Observed: both, Methods: profile.Starting, Code: -32602, Key: "cwd"},
		{Problem: profile.NoDirectory, By: profile.ByData, Documented: newer, Methods: profile.Starting, Key: "startupFailureReason",
			Values: list{"cwd_unavailable"}},
		{Problem: profile.StartRefused, By: profile.ByData, Observed: newer, Methods: profile.Starting, Key: "startupFailureReason"},
		{Problem: profile.UsageLimit, By: profile.ByData, Documented: newer, Key: "errorKind", Values: list{"billing_error", "account_on_hold"}},
		{Problem: profile.UsageLimit, By: profile.ByData, Documented: newer, Key: "errorKind", Values: list{"rate_limit"},
			Text: list{"you've hit your", "you've reached your", "out of usage", "out of extra usage", "usage limit reached",
				"usage allocation", "group's usage limit", "requires usage credits", "doesn't include"}},
		{Problem: profile.RateLimit, By: profile.ByData, Observed: both, Key: "errorKind", Values: list{"rate_limit"}},
		{Problem: profile.LoginNeeded, By: profile.ByData, Observed: older, Key: "errorKind", Values: list{"authentication_failed"}},
		{Problem: profile.LoginNeeded, By: profile.ByData, Documented: both, Key: "errorKind",
			Values: list{"oauth_org_not_allowed", "verification_required", "cloud_credential_error"}},
		{Problem: profile.ConnectionLost, By: profile.ByData, Observed: newer, Key: "errorKind", Values: list{"server_error"},
			Text: list{"connection dropped", "econnreset", "unable to connect"}},
		{Problem: profile.ConnectionLost, By: profile.ByData, Observed: older, Key: "errorKind", Values: list{"unknown"},
			Text: list{"unable to connect", "econnreset", "connection error"}},
		{Problem: profile.Overload, By: profile.ByData, Observed: both, Key: "errorKind", Values: list{"server_error", "overloaded"}},
		{Problem: profile.OutputCut, By: profile.ByData, Observed: both, Key: "errorKind", Values: list{"max_output_tokens"}},
		{Problem: profile.NoResult, By: profile.ByData, Documented: newer, Key: "errorKind", Values: list{"no_result"}},
		{Problem: profile.OpenToolCalls, By: profile.ByData, Documented: newer, Key: "errorKind", Values: list{"incomplete_tool_call"}},
		{Problem: profile.ChildGone, By: profile.ByData, Documented: newer, Key: "errorKind", Values: list{"worker_shutdown", "transport_lost"}},
		{Problem: profile.TooLong, By: profile.ByData, Observed: older, Key: "errorKind", Values: list{"invalid_request"},
			Text: list{"prompt is too long"}},
		{Problem: profile.RequestRejected, By: profile.ByData, Documented: both, Key: "errorKind", Values: list{"invalid_request", "model_not_found"}},
		{Problem: profile.UnknownError, By: profile.ByData, Observed: older, Key: "errorKind"},

		{Problem: profile.MissingSession, By: profile.ByText, Observed: older, Code: -32603, Text: list{"^session not found"}},
		{Problem: profile.MissingSession, By: profile.ByText, Observed: older, Methods: list{"session/delete"}, Code: -32603,
			Text: list{"not found in any project directory", "^invalid sessionid"}},
		{Problem: profile.MissingSession, By: profile.ByText, Observed: both, Methods: profile.Opening, Code: -32603,
			Text: list{"--resume requires a valid session id"}},
		{Problem: profile.SessionEnded, By: profile.ByText, Observed: older, Documented: newer, Methods: profile.Prompt,
			Text: list{"the claude agent session has ended"}},
		{Problem: profile.ChildGone, By: profile.ByText, Observed: both,
			Text: list{"the claude agent process exited unexpectedly"}},
		{Problem: profile.StartRefused, By: profile.ByText, Observed: both, Methods: profile.NewSession,
			Text: list{"claude code process exited", "claude code process terminated", "^spawn "}},
		{Problem: profile.ChildGone, By: profile.ByText, Documented: both, Methods: profile.Prompt,
			Text: list{"claude code process exited", "claude code process terminated", "processtransport is not ready"}},
		{Problem: profile.TooLong, By: profile.ByText, Observed: newer, Methods: profile.Prompt, Text: list{"prompt is too long"}},

		{Problem: profile.Cancelled, By: profile.ByStop, Observed: both, Stop: list{"cancelled"}},
		{Problem: profile.ModelRefused, By: profile.ByStop, Observed: older, Documented: newer, Stop: list{"refusal"}},

		{Problem: profile.ChildGone, By: profile.ByCategory, Observed: newer, Category: list{"connection"}},
		{Problem: profile.RateLimit, By: profile.ByCategory, Observed: newer, Category: list{"limit"}, Text: list{"(429)"}},
		{Problem: profile.Overload, By: profile.ByCategory, Observed: newer, Category: list{"service"}},
		{Problem: profile.ModelNotAsked, By: profile.ByEnd, Stop: list{"end_turn"}, Silent: true, Idle: true},
		{Problem: profile.EmptyTurn, By: profile.ByEnd, Observed: both, Stop: list{"end_turn"}, Silent: true},

		{Problem: profile.AgentGone, By: profile.ByExit, Observed: both, Methods: profile.Prompt},
	}
}
