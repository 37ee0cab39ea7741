package acptest

import "github.com/dalsegno/segno/internal/proxy/acp"

// missing returns the error that the configured agent has for a missing session in that
// method.
func (c Config) missing(method, id string) error {
	byID := encode(map[string]string{"sessionId": id})
	details := func(text string) *acp.Error {
		return &acp.Error{Code: acp.CodeInternal, Message: "Internal error", Data: encode(map[string]string{"details": text})}
	}
	prompt := method == "session/prompt"
	closing := method == "session/close" || method == "session/delete"
	switch c.Missing {
	case "claude-0.49":
		if prompt || closing {
			return details("Session not found")
		}
		if method == "session/fork" {
			id = newID() // the error has the id of the fork that was not made
		}
		return &acp.Error{Code: acp.CodeNotFound, Message: "Resource not found: " + id, Data: encode(map[string]string{"uri": id})}
	case "codex":
		if prompt {
			return &acp.Error{Code: acp.CodeNotFound, Message: "Session " + id + " not found", Data: byID}
		}
		if closing {
			return details("invalid thread id")
		}
		return details("no rollout found for thread id " + id)
	case "opencode":
		if prompt {
			return &acp.Error{Code: acp.CodeInvalidParams, Message: "Invalid params: session not found: " + id, Data: byID}
		}
		return &acp.Error{Code: acp.CodeInternal, Message: "Internal error: OpenCode service failure",
			Data: encode(map[string]string{"service": "session"})}
	case "gemini":
		if prompt {
			return &acp.Error{Code: acp.CodeInvalidParams, Message: "Session not found: " + id}
		}
		return details("No previous sessions found for this project.")
	default:
		return &acp.Error{Code: acp.CodeNotFound, Message: "Resource not found", Data: byID}
	}
}
