package failure

import "github.com/dalsegno/segno/internal/proxy/acp"

// The failures.
var (
	missingSession = Meaning{"missing session", Lost, NotStarted, "the agent does not have this session"}
	sessionEnded   = Meaning{"session ended", Lost, NotStarted, "the agent had ended this session before"}
	notOpened      = Meaning{"not opened", Lost, Fine, "the agent cannot open this session"}
	noFork         = Meaning{"not offered", Kept, Fine, "the agent does not offer this"}
	notOffered     = Meaning{"not offered", Lost, Fine, "the agent does not offer this"}
	busySession    = Meaning{BusySession, Kept, Failed, "another program has this session open"}
	noForkPoint    = Meaning{"no fork point", Kept, Failed, "the agent does not find the message to fork at"}
	noDirectory    = Meaning{"no directory", Kept, Failed, "the session's directory does not exist or is not absolute"}

	agentGone      = Meaning{"agent gone", Dead, Seen, "the agent's process ended"}
	childGone      = Meaning{"child gone", Lost, Seen, "a process of the agent ended, and the session with it"}
	childRestarts  = Meaning{"child gone", Kept, Seen, "a process of the agent ended; the agent starts it again"}
	childStaysDead = Meaning{"child gone", Dead, Seen, "a process of the agent ended, and the agent does not start it again"}
	childCrashes   = Meaning{"child gone", Lost, Seen, "a process of the agent ended each time it opened this session"}
	noStart        = Meaning{"no start", Dead, Failed, "the agent does not start"}
	startRefused   = Meaning{"no start", Kept, Failed, "the agent refuses to start this session"}

	auth          = Meaning{"auth", Kept, Failed, "the agent asks for a login"}
	usageLimit    = Meaning{"usage limit", Kept, Failed, "the account's limit is reached"}
	rateLimit     = Meaning{"rate limit", Kept, Failed, "the model's provider accepts no more requests for now"}
	overload      = Meaning{"overload", Kept, Failed, "the model's provider is overloaded or has an error"}
	connection    = Meaning{"connection", Kept, Failed, "the connection to the model broke"}
	tooLong       = Meaning{"too long", Kept, Failed, "the conversation is longer than the model accepts"}
	outputCut     = Meaning{"output cut", Kept, Failed, "the model's answer was longer than allowed"}
	rejected      = Meaning{"rejected", Kept, Failed, "the model's provider rejects the request"}
	noResult      = Meaning{"no result", Kept, Seen, "the agent stopped without a result"}
	openToolCalls = Meaning{"no result", Kept, Failed, "the agent ended the turn without the results of its tools"}
	unknown       = Meaning{"unknown error", Kept, Failed, "the agent reports an error"}

	cancelled     = Meaning{"cancelled", Kept, Fine, "cancelled"}
	refused       = Meaning{"refused", Kept, Failed, "the model refused; the agent drops the prompt from its context"}
	cutShort      = Meaning{"cut short", Kept, Fine, "the agent reached a limit of the turn"}
	empty         = Meaning{"empty", Kept, Fine, "the agent ended the turn without any output"}
	modelNotAsked = Meaning{"empty at once", Lost, Failed, "the agent ended the turn without asking the model"}
)

// list is the allowed values of a field.
type list = []string

// Agents, methods and versions.
const claude, codex, opencode, gemini = "claude", "codex", "opencode", "gemini"

var (
	prompt     = list{"session/prompt"}
	newSession = list{"session/new"}
	fork       = list{"session/fork"}
	reopen     = list{"session/resume", "session/load"}
	opening    = list{"session/resume", "session/load", "session/fork"}
	starting   = list{"session/new", "session/resume", "session/load", "session/fork"}
	initialize = list{"initialize", "proxy/initialize", "_proxy/initialize"}

	bothClaudes = list{"0.49.0", "0.100.0"}
	oldClaude   = list{"0.49.0"}
	newClaude   = list{"0.100.0"}
	codex26     = list{"2.6.0"}
	opencode118 = list{"1.18.33"}
	gemini061   = list{"0.61.0"}
)

// tables returns the rows in the order in which they are searched.
func tables() [][]row { return [][]row{byCode, byText, promptResults, exits, unknownErrors} }

// ofPrompts restricts rows to the results of prompts.
func ofPrompts(rows []row) []row {
	for i := range rows {
		rows[i].ending, rows[i].methods = byResult, prompt
	}
	return rows
}

// byCode has the errors that are identified by their code or by a field of their data.
var byCode = []row{
	{meaning: cancelled, code: acp.CodeCancelled, documented: codex26, agent: codex},
	{meaning: cancelled, code: acp.CodeCancelled},

	{meaning: auth, agent: claude, observed: newClaude, documented: oldClaude, code: acp.CodeAuthRequired},
	{meaning: auth, agent: codex, observed: codex26, code: acp.CodeAuthRequired},
	{meaning: auth, agent: gemini, observed: gemini061, code: acp.CodeAuthRequired},
	{meaning: auth, code: acp.CodeAuthRequired},

	{meaning: missingSession, agent: claude, observed: bothClaudes, methods: opening, code: acp.CodeNotFound},
	{meaning: missingSession, agent: claude, observed: newClaude, code: acp.CodeNotFound, key: "sessionId"},
	{meaning: missingSession, agent: codex, observed: codex26, code: acp.CodeNotFound, key: "sessionId"},
	{meaning: missingSession, code: acp.CodeNotFound, key: "sessionId"},
	{meaning: missingSession, methods: opening, code: acp.CodeNotFound},
	{meaning: missingSession, agent: opencode, observed: opencode118, methods: opening, code: acp.CodeInternal,
		key: "service", values: list{"session"}},

	{meaning: busySession, agent: codex, observed: codex26, code: acp.CodeInvalidRequest, key: "reason", values: list{"thread_active_writer"}},
	{meaning: noForkPoint, agent: claude, observed: newClaude, methods: fork, code: acp.CodeInvalidParams, key: "messageId"},
	{meaning: noForkPoint, agent: codex, observed: codex26, methods: fork, code: acp.CodeInvalidParams, key: "messageId"},
	{meaning: noDirectory, agent: claude, observed: bothClaudes, methods: starting, code: acp.CodeInvalidParams, key: "cwd"},
	{meaning: noDirectory, agent: claude, documented: newClaude, methods: starting,
		key: "startupFailureReason", values: list{"cwd_unavailable"}},
	{meaning: startRefused, agent: claude, observed: newClaude, methods: starting, key: "startupFailureReason"},
	{meaning: noFork, agent: gemini, observed: gemini061, methods: fork, code: acp.CodeMethodNotFound},
	{meaning: noFork, methods: fork, code: acp.CodeMethodNotFound},
	{meaning: notOffered, agent: gemini, observed: gemini061, methods: list{"session/resume"}, code: acp.CodeMethodNotFound},
	{meaning: notOffered, methods: reopen, code: acp.CodeMethodNotFound},

	{meaning: missingSession, agent: codex, documented: codex26, methods: prompt, code: 1001, key: "restartable", values: list{"false"},
		text: list{"had no messages yet and was lost"}},
	{meaning: childCrashes, agent: codex, documented: codex26, code: 1001, key: "restartable", values: list{"false"},
		text: list{"does not open this session again"}},
	{meaning: childStaysDead, agent: codex, documented: codex26, code: 1001, key: "restartable", values: list{"false"}},
	{meaning: childRestarts, agent: codex, observed: codex26, code: 1001},

	{meaning: usageLimit, agent: codex, documented: codex26, key: "codexErrorInfo", values: list{"usageLimitExceeded"}},
	{meaning: usageLimit, agent: claude, documented: newClaude, key: "errorKind", values: list{"billing_error", "account_on_hold"}},
	{meaning: usageLimit, agent: claude, documented: newClaude, key: "errorKind", values: list{"rate_limit"}, text: list{
		"you've hit your", "you've reached your", "out of usage", "out of extra usage",
		"usage limit reached", "usage allocation", "group's usage limit", "requires usage credits", "doesn't include"}},
	{meaning: rateLimit, agent: claude, observed: bothClaudes, key: "errorKind", values: list{"rate_limit"}},
	{meaning: auth, agent: claude, observed: oldClaude, key: "errorKind", values: list{"authentication_failed"}},
	{meaning: auth, agent: claude, documented: bothClaudes,
		key: "errorKind", values: list{"oauth_org_not_allowed", "verification_required", "cloud_credential_error"}},
	{meaning: connection, agent: claude, observed: newClaude, key: "errorKind", values: list{"server_error"},
		text: list{"connection dropped", "econnreset", "unable to connect"}},
	{meaning: connection, agent: claude, observed: oldClaude, key: "errorKind", values: list{"unknown"},
		text: list{"unable to connect", "econnreset", "connection error"}},
	{meaning: overload, agent: claude, observed: bothClaudes, key: "errorKind", values: list{"server_error", "overloaded"}},
	{meaning: outputCut, agent: claude, observed: bothClaudes, key: "errorKind", values: list{"max_output_tokens"}},
	{meaning: noResult, agent: claude, documented: newClaude, key: "errorKind", values: list{"no_result"}},
	{meaning: openToolCalls, agent: claude, documented: newClaude, key: "errorKind", values: list{"incomplete_tool_call"}},
	{meaning: childGone, agent: claude, documented: newClaude, key: "errorKind", values: list{"worker_shutdown", "transport_lost"}},
	{meaning: tooLong, agent: claude, observed: oldClaude, key: "errorKind", values: list{"invalid_request"},
		text: list{"prompt is too long"}},
	{meaning: rejected, agent: claude, documented: bothClaudes, key: "errorKind", values: list{"invalid_request", "model_not_found"}},
	{meaning: unknown, agent: claude, observed: oldClaude, key: "errorKind"},
}

// byText has the errors that are identified only by their words.
var byText = []row{
	{meaning: missingSession, agent: claude, observed: oldClaude, code: acp.CodeInternal, text: list{"^session not found"}},
	{meaning: missingSession, agent: claude, observed: oldClaude, methods: list{"session/delete"}, code: acp.CodeInternal,
		text: list{"not found in any project directory", "^invalid sessionid"}},
	{meaning: missingSession, agent: claude, observed: bothClaudes, methods: opening, code: acp.CodeInternal,
		text: list{"--resume requires a valid session id"}},
	{meaning: missingSession, agent: codex, observed: codex26, code: acp.CodeInternal,
		text: list{"^no rollout found for thread id", "^invalid session id", "^invalid thread id", "^thread not found:"}},
	{meaning: missingSession, agent: opencode, observed: opencode118, methods: prompt, code: acp.CodeInvalidParams,
		text: list{"^invalid params: session not found"}},
	{meaning: missingSession, agent: gemini, observed: gemini061, methods: prompt, code: acp.CodeInvalidParams,
		text: list{"^session not found"}},
	{meaning: missingSession, agent: gemini, observed: gemini061, methods: reopen, code: acp.CodeInternal,
		text: list{"^no previous sessions found"}},
	{meaning: missingSession, code: acp.CodeInternal, text: list{"^session not found", "^thread not found"}},
	{meaning: missingSession, code: acp.CodeInvalidParams,
		text: list{"^session not found", "^invalid params: session not found", "^unknown session"}},

	{meaning: sessionEnded, agent: claude, observed: oldClaude, documented: newClaude, methods: prompt,
		text: list{"the claude agent session has ended"}},
	{meaning: childGone, agent: claude, observed: bothClaudes, text: list{"the claude agent process exited unexpectedly"}},
	{meaning: startRefused, agent: claude, observed: bothClaudes, methods: newSession,
		text: list{"claude code process exited", "claude code process terminated", "^spawn "}},
	{meaning: childGone, agent: claude, documented: bothClaudes, methods: prompt,
		text: list{"claude code process exited", "claude code process terminated", "processtransport is not ready"}},

	{meaning: tooLong, agent: claude, observed: newClaude, methods: prompt, text: list{"prompt is too long"}},
	{meaning: tooLong, methods: prompt, text: list{"prompt is too long", "context window", "context length", "context_length_exceeded"}},
	{meaning: auth, methods: prompt,
		text: list{"please run /login", "failed to authenticate", "unauthorized", "invalid api key", "invalid x-api-key"}},
	{meaning: rateLimit, methods: prompt, text: list{"rate limit", "rate_limit", "too many requests", "resource_exhausted"}},
	{meaning: overload, methods: prompt, text: list{"overloaded", "service unavailable"}},
}

// promptResults has the results of prompts that report a failure.
var promptResults = ofPrompts([]row{
	{meaning: cancelled, agent: claude, observed: bothClaudes, stop: list{"cancelled"}},
	{meaning: cancelled, agent: codex, observed: codex26, stop: list{"cancelled"}},
	{meaning: cancelled, stop: list{"cancelled"}},
	{meaning: refused, agent: claude, observed: oldClaude, documented: newClaude, stop: list{"refusal"}},
	{meaning: refused, stop: list{"refusal"}},

	{meaning: childGone, agent: claude, observed: newClaude, category: list{"connection"}},
	{meaning: childRestarts, agent: codex, observed: codex26, category: list{"connection"}, text: list{"^connection to codex was lost"}},
	{meaning: overload, agent: codex, observed: codex26, category: list{"connection"}, text: list{"unexpected status 5"}},
	{meaning: connection, agent: codex, documented: codex26, category: list{"connection"}},
	{meaning: rateLimit, agent: claude, observed: newClaude, category: list{"limit"}, text: list{"(429)"}},
	{meaning: rateLimit, agent: codex, observed: codex26, category: list{"limit"}, text: list{"429"}},
	{meaning: tooLong, category: list{"limit"}, text: list{"too long", "context window"}},
	{meaning: usageLimit, category: list{"limit"}},
	{meaning: overload, agent: claude, observed: newClaude, category: list{"service"}},
	{meaning: overload, agent: codex, documented: codex26, category: list{"service"}},
	{meaning: auth, category: list{"access"}},
	{meaning: unknown, category: list{"request", "service", "connection", "unknown"}},

	{meaning: usageLimit, agent: codex, documented: codex26, systemError: true, text: list{"usage limit"}},
	{meaning: rateLimit, agent: codex, observed: codex26, systemError: true, text: list{"last status: 429", "too many requests"}},
	{meaning: tooLong, agent: codex, observed: codex26, systemError: true,
		text: list{"context window", "prompt is too long", "context_length_exceeded"}},
	{meaning: rejected, agent: codex, observed: codex26, systemError: true, text: list{"invalid_request_error"}},
	{meaning: connection, agent: codex, observed: codex26, systemError: true, text: list{"stream disconnected", "transport error"}},
	{meaning: overload, agent: codex, observed: codex26, systemError: true,
		text: list{"unexpected status 5", "high demand", "overloaded", "at capacity"}},
	{meaning: unknown, agent: codex, documented: codex26, systemError: true},

	{meaning: modelNotAsked, agent: claude, stop: list{"end_turn"}, silent: true, idle: true},
	{meaning: empty, agent: claude, observed: bothClaudes, stop: list{"end_turn"}, silent: true},
	{meaning: empty, agent: codex, observed: codex26, stop: list{"end_turn"}, silent: true},
	{meaning: empty, stop: list{"end_turn"}, silent: true},
	{meaning: cutShort, stop: list{"max_tokens", "max_turn_requests"}},
})

// exits has the requests that ended without an answer.
var exits = []row{
	{meaning: noStart, ending: byExit, methods: initialize},
	{meaning: agentGone, ending: byExit, agent: claude, observed: bothClaudes},
	{meaning: agentGone, ending: byExit, agent: codex, observed: codex26},
	{meaning: agentGone, ending: byExit},
}

// unknownErrors has the errors that no earlier row matches.
var unknownErrors = []row{
	{meaning: noStart, methods: initialize},
	{meaning: notOpened, methods: opening},
	{meaning: unknown},
}
