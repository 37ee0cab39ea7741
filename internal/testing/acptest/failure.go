package acptest

import (
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno/internal/proxy/acp"
)

// Failure is an agent's report of a failed turn.
type Failure struct {
	Says   string          // the text of a chunk before the answer
	Update json.RawMessage // an update before that
	Error  *acp.Error      // the answer; nil means end_turn with a usage of null
	Evicts bool            // the agent forgets the session
}

// Failures returns recorded failures of real agents, by agent and kind.
func Failures() map[string]Failure {
	claude := func(kind, text string) Failure {
		return Failure{Says: text, Error: &acp.Error{Code: acp.CodeInternal, Message: "Internal error: " + text,
			Data: encode(map[string]string{"errorKind": kind})}}
	}
	codex := func(text string) Failure {
		return Failure{Says: text + "\n\n", Update: json.RawMessage(`{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"systemError"}}}}`)}
	}
	auth := Failure{Error: &acp.Error{Code: acp.CodeAuthRequired, Message: "Authentication required"}}
	return map[string]Failure{
		"claude.rate_limit": claude("rate_limit", "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later."),
		"claude.overload":   claude("server_error", "API Error: 529 Overloaded. Please try again later."),
		"claude.key":        claude("authentication_failed", "API Error: 401 Invalid API key"),
		"claude.auth":       auth,
		"claude.long":       {Error: &acp.Error{Code: acp.CodeInternal, Message: "Internal error: Prompt is too long"}},
		"claude.cut":        claude("max_output_tokens", "API Error: response exceeded the output token maximum"),
		"claude.no_result":  {Error: &acp.Error{Code: acp.CodeInternal, Message: "Internal error: The turn ended without a result: the agent went idle", Data: encode(map[string]string{"errorKind": "no_result"})}},
		"claude.gone": {Error: &acp.Error{Code: acp.CodeInternal, Message: "Internal error: The Claude Agent process exited unexpectedly. Please start a new session."},
			Evicts: true},
		"claude.ended": {Error: &acp.Error{Code: acp.CodeInternal, Message: "Internal error: The Claude Agent session has ended. Please start a new session."},
			Evicts: true},
		"codex.rate_limit": codex("exceeded retry limit, last status: 429 Too Many Requests"),
		"codex.overload":   codex("unexpected status 500 Internal Server Error"),
		"codex.drop":       codex("stream disconnected before completion"),
		"codex.usage": {Says: "You've hit your usage limit.", Error: &acp.Error{Code: acp.CodeInternal, Message: "Internal error",
			Data: json.RawMessage(`{"message":"You've hit your usage limit.","codexErrorInfo":"usageLimitExceeded"}`)}},
		"codex.auth": auth,
		"codex.killed": {Error: &acp.Error{Code: 1001, Message: "The Codex app-server was killed by SIGKILL. The agent starts it again on the next request.",
			Data: json.RawMessage(`{"exitCode":null,"signal":"SIGKILL","restartable":true}`)}},
		"codex.writer": {Error: &acp.Error{Code: acp.CodeInvalidRequest, Message: "Thread is open in another client",
			Data: json.RawMessage(`{"reason":"thread_active_writer"}`)}},
	}
}

// fail ends the turn with a row of [Failures].
func (t *turn) fail(row string) error {
	f, known := Failures()[row]
	if !known {
		return fmt.Errorf("acptest: no failure is called %s", row)
	}
	if f.Update != nil {
		t.rawUpdate(f.Update)
	}
	if f.Says != "" {
		// A notice of the adapter: it has no message id.
		if err := t.session.add(record{Type: "agent", Text: f.Says, Step: -1}); err != nil {
			return err
		}
		t.update(t.session, chunk("agent_message_chunk", f.Says, ""))
	}
	if f.Evicts {
		t.agent.forget(t.session)
	}
	if f.Error != nil {
		return f.Error
	}
	t.usage = json.RawMessage("null")
	return errEnded("end_turn")
}
