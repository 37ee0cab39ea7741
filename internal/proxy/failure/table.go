package failure

import (
	"slices"
	"sync"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// meanings has what each problem means for the caller.
var meanings = [...]Meaning{
	profile.MissingSession:  {"missing session", Lost, NotStarted, "the agent does not have this session"},
	profile.SessionEnded:    {"session ended", Lost, NotStarted, "the agent had ended this session before"},
	profile.NotOpened:       {"not opened", Lost, Fine, "the agent cannot open this session"},
	profile.NoFork:          {"not offered", Kept, Fine, "the agent does not offer this"},
	profile.NotOffered:      {"not offered", Lost, Fine, "the agent does not offer this"},
	profile.BusySession:     {BusySession, Kept, Failed, "another program has this session open"},
	profile.NoForkPoint:     {"no fork point", Kept, Failed, "the agent does not find the message to fork at"},
	profile.NoDirectory:     {"no directory", Kept, Failed, "the session's directory does not exist or is not absolute"},
	profile.AgentGone:       {"agent gone", Dead, Seen, "the agent's process ended"},
	profile.ChildGone:       {"child gone", Lost, Seen, "a process of the agent ended, and the session with it"},
	profile.ChildRestarts:   {"child gone", Kept, Seen, "a process of the agent ended; the agent starts it again"},
	profile.ChildStaysDead:  {"child gone", Dead, Seen, "a process of the agent ended, and the agent does not start it again"},
	profile.ChildCrashes:    {"child gone", Lost, Seen, "a process of the agent ended each time it opened this session"},
	profile.NoStart:         {"no start", Dead, Failed, "the agent does not start"},
	profile.StartRefused:    {"no start", Kept, Failed, "the agent refuses to start this session"},
	profile.LoginNeeded:     {"auth", Kept, Failed, "the agent asks for a login"},
	profile.UsageLimit:      {"usage limit", Kept, Failed, "the account's limit is reached"},
	profile.RateLimit:       {"rate limit", Kept, Failed, "the model's provider accepts no more requests for now"},
	profile.Overload:        {"overload", Kept, Failed, "the model's provider is overloaded or has an error"},
	profile.ConnectionLost:  {"connection", Kept, Failed, "the connection to the model broke"},
	profile.TooLong:         {"too long", Kept, Failed, "the conversation is longer than the model accepts"},
	profile.OutputCut:       {"output cut", Kept, Failed, "the model's answer was longer than allowed"},
	profile.RequestRejected: {"rejected", Kept, Failed, "the model's provider rejects the request"},
	profile.NoResult:        {"no result", Kept, Seen, "the agent stopped without a result"},
	profile.OpenToolCalls:   {"no result", Kept, Failed, "the agent ended the turn without the results of its tools"},
	profile.UnknownError:    {"unknown error", Kept, Failed, "the agent reports an error"},
	profile.Cancelled:       {"cancelled", Kept, Fine, "cancelled"},
	profile.ModelRefused:    {"refused", Kept, Failed, "the model refused; the agent drops the prompt from its context"},
	profile.CutShort:        {"cut short", Kept, Fine, "the agent reached a limit of the turn"},
	profile.EmptyTurn:       {"empty", Kept, Fine, "the agent ended the turn without any output"},
	profile.ModelNotAsked:   {"empty at once", Lost, Failed, "the agent ended the turn without asking the model"},
}

// table returns the rows in the order in which they are searched. The caller must not change them.
var table = sync.OnceValue(func() (rows []row) {
	for _, p := range agents.All() {
		if p.Failures != nil {
			for _, f := range p.Failures() {
				rows = append(rows, row{f, p.Name})
			}
		}
	}
	for _, f := range common() {
		rows = append(rows, row{Failure: f})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return int(a.By - b.By) })
	return rows
})

// common returns the failures of all agents. Those of one agent are in its directory below agents/.
func common() []profile.Failure {
	type list = []string
	initialize := list{"initialize", "proxy/initialize", "_proxy/initialize"}
	return []profile.Failure{
		{Problem: profile.Cancelled, Code: acp.CodeCancelled},
		{Problem: profile.LoginNeeded, Code: acp.CodeAuthRequired},
		{Problem: profile.MissingSession, Code: acp.CodeNotFound, Key: "sessionId"},
		{Problem: profile.MissingSession, Methods: profile.Opening, Code: acp.CodeNotFound},
		{Problem: profile.NoFork, Methods: profile.Fork, Code: acp.CodeMethodNotFound},
		{Problem: profile.NotOffered, Methods: profile.Reopen, Code: acp.CodeMethodNotFound},

		{Problem: profile.MissingSession, By: profile.ByText, Code: acp.CodeInternal,
			Text: list{"^session not found", "^thread not found"}},
		{Problem: profile.MissingSession, By: profile.ByText, Code: acp.CodeInvalidParams,
			Text: list{"^session not found", "^invalid params: session not found", "^unknown session"}},
		{Problem: profile.TooLong, By: profile.ByText, Methods: profile.Prompt,
			Text: list{"prompt is too long", "context window", "context length", "context_length_exceeded"}},
		{Problem: profile.LoginNeeded, By: profile.ByText, Methods: profile.Prompt,
			Text: list{"please run /login", "failed to authenticate", "unauthorized", "invalid api key", "invalid x-api-key"}},
		{Problem: profile.RateLimit, By: profile.ByText, Methods: profile.Prompt,
			Text: list{"rate limit", "rate_limit", "too many requests", "resource_exhausted"}},
		{Problem: profile.Overload, By: profile.ByText, Methods: profile.Prompt, Text: list{"overloaded", "service unavailable"}},

		{Problem: profile.Cancelled, By: profile.ByStop, Stop: list{"cancelled"}},
		{Problem: profile.ModelRefused, By: profile.ByStop, Stop: list{"refusal"}},

		{Problem: profile.TooLong, By: profile.ByCategory, Category: list{"limit"}, Text: list{"too long", "context window"}},
		{Problem: profile.UsageLimit, By: profile.ByCategory, Category: list{"limit"}},
		{Problem: profile.LoginNeeded, By: profile.ByCategory, Category: list{"access"}},
		{Problem: profile.UnknownError, By: profile.ByCategory, Category: list{"request", "service", "connection", "unknown"}},
		{Problem: profile.EmptyTurn, By: profile.ByEnd, Stop: list{"end_turn"}, Silent: true},
		{Problem: profile.CutShort, By: profile.ByEnd, Stop: list{"max_tokens", "max_turn_requests"}},

		{Problem: profile.NoStart, By: profile.ByExit, Methods: initialize},
		{Problem: profile.AgentGone, By: profile.ByExit},

		{Problem: profile.NoStart, By: profile.ByError, Methods: initialize},
		{Problem: profile.NotOpened, By: profile.ByError, Methods: profile.Opening},
		{Problem: profile.UnknownError, By: profile.ByError},
	}
}
