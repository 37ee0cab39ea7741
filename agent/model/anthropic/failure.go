package anthropic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// refused is an error that says what the API said. The SDK's own is below it.
type refused struct {
	text string
	err  error
}

func (e *refused) Error() string { return e.text }
func (e *refused) Unwrap() error { return e.err }

// failure is an error as the agent knows it: the context's own, or a
// [agent.ModelError] that says whether to try again.
func (m *model) failure(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	var api *anthropic.Error
	if !errors.As(err, &api) {
		if passes(err) {
			return &agent.ModelError{Retry: true, Err: fmt.Errorf("ask %s: %w", m.Name(), err)}
		}
		return &agent.ModelError{Err: m.refusal(firstSentence(err))}
	}
	status := statusOf(api)
	f := &agent.ModelError{Status: status, Err: &refused{text: messageOf(api), err: err},
		Retry: status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500}
	if api.Response != nil {
		f.After = agent.RetryAfter(api.Response.Header)
		switch api.Response.Header.Get("x-should-retry") {
		case "true":
			f.Retry = true
		case "false":
			f.Retry = false
		}
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		f.Err = m.refusal(f.Err)
	}
	return f
}

// refusal is an error that a key may help against. What never left this program for
// another reason than the network lacked one.
func (m *model) refusal(err error) error {
	return &segno.Error{Op: "ask", Name: m.Name(), Kind: segno.KindRefused, Err: err, Hint: "set ANTHROPIC_API_KEY to a key that may use this model"}
}

// firstSentence is an error cut short if it has several lines: the SDK explains
// itself at length.
func firstSentence(err error) error {
	line, _, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	line, _, _ = strings.Cut(line, ". ")
	return &refused{text: line, err: err}
}

// passes reports whether an error that is not the API's may pass: the connection
// failed, or the answer did not arrive whole.
func passes(err error) bool {
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return false
	}
	var sending *url.Error // what net/http makes of whatever happens on the way
	var reading net.Error
	return errors.Is(err, errBroken) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &sending) || errors.As(err, &reading)
}

// statusOf is the error's HTTP status. An error in the midst of an answer comes after
// a 200 and has only a type.
func statusOf(api *anthropic.Error) int {
	if api.StatusCode != http.StatusOK {
		return api.StatusCode
	}
	switch api.Type() {
	case "overloaded_error":
		return 529
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// messageOf is what the API said, in one line.
func messageOf(api *anthropic.Error) string {
	var body struct {
		Error struct{ Type, Message string }
	}
	text := strings.TrimSpace(api.RawJSON())
	if json.Unmarshal([]byte(text), &body) == nil && body.Error.Message != "" {
		text = strings.TrimPrefix(body.Error.Type+": "+body.Error.Message, ": ")
	}
	if text == "" {
		text = strings.ToLower(http.StatusText(api.StatusCode))
	}
	text = strings.Join(strings.Fields(text), " ")
	if api.RequestID != "" {
		text += " (request " + api.RequestID + ")"
	}
	return text
}

// refusesThoughts reports whether a request was refused for the thoughts in it, which
// are bound to everything that was said before them.
func refusesThoughts(err error) bool {
	var api *anthropic.Error
	if !errors.As(err, &api) || api.StatusCode != http.StatusBadRequest {
		return false
	}
	text := messageOf(api)
	return strings.Contains(text, "`signature` in `thinking`") || strings.Contains(text, "prefix_mismatch_behavior")
}
