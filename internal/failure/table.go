package failure

import "github.com/dalsegno/segno/internal/acp"

// What can be wrong.
var (
	missing   = Meaning{"missing session", Lost, NotStarted, "the agent does not have this session"}
	hasEnded  = Meaning{"session ended", Lost, NotStarted, "the agent had ended this session before"}
	unopened  = Meaning{"not opened", Lost, Fine, "the agent cannot open this session"}
	unable    = Meaning{"not offered", Kept, Fine, "the agent does not offer this"}
	unoffered = Meaning{"not offered", Lost, Fine, "the agent does not offer this"}
	busy      = Meaning{"busy session", Kept, Failed, "another program has this session open"}
	noPoint   = Meaning{"no fork point", Kept, Failed, "the agent does not find the message to fork at"}
	noPlace   = Meaning{"no directory", Kept, Failed, "the session's directory is not there, or no absolute path"}

	gone      = Meaning{"agent gone", Dead, Seen, "the agent's process ended"}
	childGone = Meaning{"child gone", Lost, Seen, "a process of the agent ended, and the session with it"}
	restarts  = Meaning{"child gone", Kept, Seen, "a process of the agent ended; the agent starts it again"}
	childDead = Meaning{"child gone", Dead, Seen, "a process of the agent ended, and the agent does not start it again"}
	killsIt   = Meaning{"child gone", Lost, Seen, "a process of the agent ended each time it opened this session"}
	noStart   = Meaning{"no start", Dead, Failed, "the agent does not start"}
	refusing  = Meaning{"no start", Kept, Failed, "the agent refuses to start this session"}

	auth       = Meaning{"auth", Kept, Failed, "the agent asks for a login"}
	usageLimit = Meaning{"usage limit", Kept, Failed, "the account's limit is reached"}
	rateLimit  = Meaning{"rate limit", Kept, Failed, "the model's provider takes no more requests for now"}
	overload   = Meaning{"overload", Kept, Failed, "the model's provider is overloaded or has an error"}
	connection = Meaning{"connection", Kept, Failed, "the connection to the model broke"}
	tooLong    = Meaning{"too long", Kept, Failed, "the conversation is longer than the model takes"}
	outputCut  = Meaning{"output cut", Kept, Failed, "the model's answer was longer than allowed"}
	rejected   = Meaning{"rejected", Kept, Failed, "the model's provider rejects the request"}
	noResult   = Meaning{"no result", Kept, Seen, "the agent stopped without a result"}
	openTools  = Meaning{"no result", Kept, Failed, "the agent ended the turn without the results of its tools"}
	unknown    = Meaning{"unknown error", Kept, Failed, "the agent reports an error"}

	cancelled = Meaning{"cancelled", Kept, Fine, "cancelled"}
	refused   = Meaning{"refused", Kept, Failed, "the model refused; the agent drops the prompt from its context"}
	cutShort  = Meaning{"cut short", Kept, Fine, "the agent reached a limit of the turn"}
	empty     = Meaning{"empty", Kept, Fine, "the agent ended the turn without a word"}
	unasked   = Meaning{"empty at once", Lost, Failed, "the agent ended the turn without asking the model"}
)

// Agents and methods.
const claude, codex, opencode, gemini = "claude", "codex", "opencode", "gemini"

var (
	prompt  = []string{"session/prompt"}
	fresh   = []string{"session/new"}
	fork    = []string{"session/fork"}
	reopen  = []string{"session/resume", "session/load"}
	opening = []string{"session/resume", "session/load", "session/fork"}
	begin   = []string{"session/new", "session/resume", "session/load", "session/fork"}
	hello   = []string{"initialize", "proxy/initialize", "_proxy/initialize"}

	bothClaudes = []string{"0.49.0", "0.100.0"}
	oldClaude   = []string{"0.49.0"}
	newClaude   = []string{"0.100.0"}
	codex26     = []string{"2.6.0"}
	opencode118 = []string{"1.18.33"}
	gemini061   = []string{"0.61.0"}
)

// told are the errors that a code or a field of their data tells.
var told = []Row{
	{Is: cancelled, Code: acp.CodeCancelled, Read: codex26, Agent: codex},
	{Is: cancelled, Code: acp.CodeCancelled},

	{Is: auth, Agent: claude, Seen: newClaude, Read: oldClaude, Code: acp.CodeAuthRequired},
	{Is: auth, Agent: codex, Seen: codex26, Code: acp.CodeAuthRequired},
	{Is: auth, Agent: gemini, Seen: gemini061, Code: acp.CodeAuthRequired},
	{Is: auth, Code: acp.CodeAuthRequired},

	{Is: missing, Agent: claude, Seen: bothClaudes, Methods: opening, Code: acp.CodeNotFound},
	{Is: missing, Agent: claude, Seen: newClaude, Code: acp.CodeNotFound, Key: "sessionId"},
	{Is: missing, Agent: codex, Seen: codex26, Code: acp.CodeNotFound, Key: "sessionId"},
	{Is: missing, Code: acp.CodeNotFound, Key: "sessionId"},
	{Is: missing, Methods: opening, Code: acp.CodeNotFound},
	{Is: missing, Agent: opencode, Seen: opencode118, Methods: opening, Code: acp.CodeInternal, Key: "service", Values: []string{"session"}},

	{Is: busy, Agent: codex, Seen: codex26, Code: acp.CodeInvalidRequest, Key: "reason", Values: []string{"thread_active_writer"}},
	{Is: noPoint, Agent: claude, Seen: newClaude, Methods: fork, Code: acp.CodeInvalidParams, Key: "messageId"},
	{Is: noPoint, Agent: codex, Seen: codex26, Methods: fork, Code: acp.CodeInvalidParams, Key: "messageId"},
	{Is: noPlace, Agent: claude, Seen: bothClaudes, Methods: begin, Code: acp.CodeInvalidParams, Key: "cwd"},
	{Is: noPlace, Agent: claude, Read: newClaude, Methods: begin, Key: "startupFailureReason", Values: []string{"cwd_unavailable"}},
	{Is: refusing, Agent: claude, Seen: newClaude, Methods: begin, Key: "startupFailureReason"},
	{Is: unable, Agent: gemini, Seen: gemini061, Methods: fork, Code: acp.CodeMethodNotFound},
	{Is: unable, Methods: fork, Code: acp.CodeMethodNotFound},
	{Is: unoffered, Agent: gemini, Seen: gemini061, Methods: []string{"session/resume"}, Code: acp.CodeMethodNotFound},
	{Is: unoffered, Methods: reopen, Code: acp.CodeMethodNotFound},

	{Is: missing, Agent: codex, Read: codex26, Methods: prompt, Code: 1001, Key: "restartable", Values: []string{"false"}, Text: []string{"had no messages yet and was lost"}},
	{Is: killsIt, Agent: codex, Read: codex26, Code: 1001, Key: "restartable", Values: []string{"false"}, Text: []string{"does not open this session again"}},
	{Is: childDead, Agent: codex, Read: codex26, Code: 1001, Key: "restartable", Values: []string{"false"}},
	{Is: restarts, Agent: codex, Seen: codex26, Code: 1001},

	{Is: usageLimit, Agent: codex, Read: codex26, Key: "codexErrorInfo", Values: []string{"usageLimitExceeded"}},
	{Is: usageLimit, Agent: claude, Read: newClaude, Key: "errorKind", Values: []string{"billing_error", "account_on_hold"}},
	{Is: usageLimit, Agent: claude, Read: newClaude, Key: "errorKind", Values: []string{"rate_limit"}, Text: []string{
		"you've hit your", "you've reached your", "out of usage", "out of extra usage", "usage limit reached", "usage allocation", "group's usage limit", "requires usage credits", "doesn't include"}},
	{Is: rateLimit, Agent: claude, Seen: bothClaudes, Key: "errorKind", Values: []string{"rate_limit"}},
	{Is: auth, Agent: claude, Seen: oldClaude, Key: "errorKind", Values: []string{"authentication_failed"}},
	{Is: auth, Agent: claude, Read: bothClaudes, Key: "errorKind", Values: []string{"oauth_org_not_allowed", "verification_required", "cloud_credential_error"}},
	{Is: connection, Agent: claude, Seen: newClaude, Key: "errorKind", Values: []string{"server_error"}, Text: []string{"connection dropped", "econnreset", "unable to connect"}},
	{Is: connection, Agent: claude, Seen: oldClaude, Key: "errorKind", Values: []string{"unknown"}, Text: []string{"unable to connect", "econnreset", "connection error"}},
	{Is: overload, Agent: claude, Seen: bothClaudes, Key: "errorKind", Values: []string{"server_error", "overloaded"}},
	{Is: outputCut, Agent: claude, Seen: bothClaudes, Key: "errorKind", Values: []string{"max_output_tokens"}},
	{Is: noResult, Agent: claude, Read: newClaude, Key: "errorKind", Values: []string{"no_result"}},
	{Is: openTools, Agent: claude, Read: newClaude, Key: "errorKind", Values: []string{"incomplete_tool_call"}},
	{Is: childGone, Agent: claude, Read: newClaude, Key: "errorKind", Values: []string{"worker_shutdown", "transport_lost"}},
	{Is: tooLong, Agent: claude, Seen: oldClaude, Key: "errorKind", Values: []string{"invalid_request"}, Text: []string{"prompt is too long"}},
	{Is: rejected, Agent: claude, Read: bothClaudes, Key: "errorKind", Values: []string{"invalid_request", "model_not_found"}},
	{Is: unknown, Agent: claude, Seen: oldClaude, Key: "errorKind"},
}

// said are the errors that only words tell.
var said = []Row{
	{Is: missing, Agent: claude, Seen: oldClaude, Code: acp.CodeInternal, Text: []string{"^session not found"}},
	{Is: missing, Agent: claude, Seen: oldClaude, Methods: []string{"session/delete"}, Code: acp.CodeInternal, Text: []string{"not found in any project directory", "^invalid sessionid"}},
	{Is: missing, Agent: claude, Seen: bothClaudes, Methods: opening, Code: acp.CodeInternal, Text: []string{"--resume requires a valid session id"}},
	{Is: missing, Agent: codex, Seen: codex26, Code: acp.CodeInternal, Text: []string{"^no rollout found for thread id", "^invalid session id", "^invalid thread id", "^thread not found:"}},
	{Is: missing, Agent: opencode, Seen: opencode118, Methods: prompt, Code: acp.CodeInvalidParams, Text: []string{"^invalid params: session not found"}},
	{Is: missing, Agent: gemini, Seen: gemini061, Methods: prompt, Code: acp.CodeInvalidParams, Text: []string{"^session not found"}},
	{Is: missing, Agent: gemini, Seen: gemini061, Methods: reopen, Code: acp.CodeInternal, Text: []string{"^no previous sessions found"}},
	{Is: missing, Code: acp.CodeInternal, Text: []string{"^session not found", "^thread not found"}},
	{Is: missing, Code: acp.CodeInvalidParams, Text: []string{"^session not found", "^invalid params: session not found", "^unknown session"}},

	{Is: hasEnded, Agent: claude, Seen: oldClaude, Read: newClaude, Methods: prompt, Text: []string{"the claude agent session has ended"}},
	{Is: childGone, Agent: claude, Seen: bothClaudes, Text: []string{"the claude agent process exited unexpectedly"}},
	{Is: refusing, Agent: claude, Seen: bothClaudes, Methods: fresh, Text: []string{"claude code process exited", "claude code process terminated", "^spawn "}},
	{Is: childGone, Agent: claude, Read: bothClaudes, Methods: prompt, Text: []string{"claude code process exited", "claude code process terminated", "processtransport is not ready"}},

	{Is: tooLong, Agent: claude, Seen: newClaude, Methods: prompt, Text: []string{"prompt is too long"}},
	{Is: tooLong, Methods: prompt, Text: []string{"prompt is too long", "context window", "context length", "context_length_exceeded"}},
	{Is: auth, Methods: prompt, Text: []string{"please run /login", "failed to authenticate", "unauthorized", "invalid api key", "invalid x-api-key"}},
	{Is: rateLimit, Methods: prompt, Text: []string{"rate limit", "rate_limit", "too many requests", "resource_exhausted"}},
	{Is: overload, Methods: prompt, Text: []string{"overloaded", "service unavailable"}},
}

// ended are the results that are not what they seem, and the ends without any.
var ended = []Row{
	{Is: cancelled, Way: ByResult, Agent: claude, Seen: bothClaudes, Methods: prompt, Stop: []string{"cancelled"}},
	{Is: cancelled, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, Stop: []string{"cancelled"}},
	{Is: cancelled, Way: ByResult, Methods: prompt, Stop: []string{"cancelled"}},
	{Is: refused, Way: ByResult, Agent: claude, Seen: oldClaude, Read: newClaude, Methods: prompt, Stop: []string{"refusal"}},
	{Is: refused, Way: ByResult, Methods: prompt, Stop: []string{"refusal"}},

	{Is: childGone, Way: ByResult, Agent: claude, Seen: newClaude, Methods: prompt, Category: []string{"connection"}},
	{Is: restarts, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, Category: []string{"connection"}, Text: []string{"^connection to codex was lost"}},
	{Is: overload, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, Category: []string{"connection"}, Text: []string{"unexpected status 5"}},
	{Is: connection, Way: ByResult, Agent: codex, Read: codex26, Methods: prompt, Category: []string{"connection"}},
	{Is: rateLimit, Way: ByResult, Agent: claude, Seen: newClaude, Methods: prompt, Category: []string{"limit"}, Text: []string{"(429)"}},
	{Is: rateLimit, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, Category: []string{"limit"}, Text: []string{"429"}},
	{Is: tooLong, Way: ByResult, Methods: prompt, Category: []string{"limit"}, Text: []string{"too long", "context window"}},
	{Is: usageLimit, Way: ByResult, Methods: prompt, Category: []string{"limit"}},
	{Is: overload, Way: ByResult, Agent: claude, Seen: newClaude, Methods: prompt, Category: []string{"service"}},
	{Is: overload, Way: ByResult, Agent: codex, Read: codex26, Methods: prompt, Category: []string{"service"}},
	{Is: auth, Way: ByResult, Methods: prompt, Category: []string{"access"}},
	{Is: unknown, Way: ByResult, Methods: prompt, Category: []string{"request", "service", "connection", "unknown"}},

	{Is: usageLimit, Way: ByResult, Agent: codex, Read: codex26, Methods: prompt, System: true, Text: []string{"usage limit"}},
	{Is: rateLimit, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, System: true, Text: []string{"last status: 429", "too many requests"}},
	{Is: tooLong, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, System: true, Text: []string{"context window", "prompt is too long", "context_length_exceeded"}},
	{Is: rejected, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, System: true, Text: []string{"invalid_request_error"}},
	{Is: connection, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, System: true, Text: []string{"stream disconnected", "transport error"}},
	{Is: overload, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, System: true, Text: []string{"unexpected status 5", "high demand", "overloaded", "at capacity"}},
	{Is: unknown, Way: ByResult, Agent: codex, Read: codex26, Methods: prompt, System: true},

	{Is: unasked, Way: ByResult, Agent: claude, Methods: prompt, Stop: []string{"end_turn"}, Silent: true, Idle: true},
	{Is: empty, Way: ByResult, Agent: claude, Seen: bothClaudes, Methods: prompt, Stop: []string{"end_turn"}, Silent: true},
	{Is: empty, Way: ByResult, Agent: codex, Seen: codex26, Methods: prompt, Stop: []string{"end_turn"}, Silent: true},
	{Is: empty, Way: ByResult, Methods: prompt, Stop: []string{"end_turn"}, Silent: true},
	{Is: cutShort, Way: ByResult, Methods: prompt, Stop: []string{"max_tokens", "max_turn_requests"}},

	{Is: noStart, Way: ByExit, Methods: hello},
	{Is: gone, Way: ByExit, Agent: claude, Seen: bothClaudes},
	{Is: gone, Way: ByExit, Agent: codex, Seen: codex26},
	{Is: gone, Way: ByExit},
}

// otherwise are the errors that no row knows.
var otherwise = []Row{
	{Is: noStart, Methods: hello},
	{Is: unopened, Methods: opening},
	{Is: unknown},
}
