package anthropic

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/endpoint"
)

var (
	errNoKey   = errors.New("there is no key")
	errNothing = errors.New("nothing is asked: the conversation has no words")
	errSchema  = errors.New("the schema is not JSON")
)

// statusError is an answer that says no.
type statusError struct {
	header http.Header
	reason
}

func (e *statusError) Error() string { return e.text }

// failure is an error as the agent knows it: the context's own, or a
// [agent.ModelError] that says whether to try again.
func (m *model) failure(ctx context.Context, x *endpoint.Exchange, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	var no *statusError
	var sending *url.Error
	switch {
	case m.wrong != nil:
		return &agent.ModelError{Err: m.unfit(err)}
	case errors.Is(err, errNoKey):
		return &agent.ModelError{Err: m.refusal(err)}
	case errors.Is(err, endpoint.ErrPage) || errors.Is(err, errSentOn) || errors.Is(err, http.ErrSchemeMismatch):
		return &agent.ModelError{Err: m.unfit(x.Tell(reached(m.address.Host, err), err))}
	case errors.Is(err, errNothing) || errors.Is(err, errSchema):
		return &agent.ModelError{Err: segno.NewError(segno.KindInvalid, "", "", err)}
	case errors.As(err, &no):
		return m.refused(x, no)
	case errors.As(err, &sending):
		return &agent.ModelError{Retry: passes(err), Err: x.Tell(reached(m.address.Host, err), err)}
	}
	return &agent.ModelError{Retry: passes(err), Err: x.Tell(err.Error(), err)}
}

// refused is the failure of an answer that says no.
func (m *model) refused(x *endpoint.Exchange, no *statusError) error {
	text := no.text
	if id := no.header.Get("request-id"); id != "" {
		text += " (request " + id + ")"
	}
	f := &agent.ModelError{Status: no.code, Retry: no.passes(), After: agent.RetryAfter(no.header), Err: x.Tell(text, no)}
	switch no.header.Get("x-should-retry") {
	case "true":
		f.Retry = true
	case "false":
		f.Retry = false
	}
	if strings.Contains(strings.ToLower(no.text), "credit balance") {
		f.Err = segno.NewError(segno.KindRefused, "", "", f.Err).WithHint("add credit to the account of the key, or use another key or model")
		return f
	}
	switch no.code {
	case 0:
		f.Err = segno.NewError(segno.KindInvalid, "", "", f.Err)
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Err = m.refusal(f.Err)
	}
	return f
}

// reached says what happened on the way to a server, without the whole address, which
// may hold a secret.
func reached(host string, err error) string {
	var sending *url.Error
	if errors.As(err, &sending) {
		err = sending.Err
	}
	if errors.Is(err, endpoint.ErrPage) {
		return host + " " + err.Error()
	}
	return "reach " + host + ": " + err.Error()
}

// refusal is an error that a key may help against.
func (m *model) refusal(err error) error {
	hint := "set ANTHROPIC_API_KEY to a key that may use this model"
	if !m.trusted {
		hint = "give WithKey a key that may use this model: ANTHROPIC_API_KEY is sent to Anthropic and to ANTHROPIC_BASE_URL only"
	}
	return segno.NewError(segno.KindRefused, "", "", err).WithHint(hint)
}

// unfit is an error of the address.
func (m *model) unfit(err error) error {
	return segno.NewError(segno.KindInvalid, "", "", err).WithHint("set ANTHROPIC_BASE_URL to where the API is, such as " + ownAddress)
}

// passes reports whether an error that is not the API's may pass: the connection
// failed, or the answer did not arrive whole, or a model said nothing, which it may
// not do twice.
func passes(err error) bool {
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return false
	}
	var sending *url.Error // what net/http makes of whatever happens on the way
	var reading net.Error
	return errors.Is(err, errBroken) || errors.Is(err, errEmpty) || errors.Is(err, errNoCalls) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &sending) || errors.As(err, &reading)
}

// reason is why a server did not answer.
type reason struct {
	code int    // what it comes to as an HTTP status, 0 if nothing says
	text string // as the server has it
}

func (r reason) passes() bool {
	return r.code == http.StatusRequestTimeout || r.code == http.StatusConflict || r.code == http.StatusTooManyRequests || r.code >= 500
}

// statusOf is the HTTP status that an error comes to by what the API calls it, 0 if
// that says nothing.
func statusOf(kind string) int {
	switch kind {
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
	return 0
}

// reasonOf reads an error's JSON. An error that comes with a good status, or in the
// midst of an answer, has 0 for one.
func reasonOf(body []byte, status int) reason {
	var wire struct {
		Error   json.RawMessage
		Message string
	}
	var d struct{ Type, Message string }
	_ = json.Unmarshal(body, &wire) // what is not JSON is told as it is
	text := ""
	if json.Unmarshal(wire.Error, &text) != nil {
		_ = json.Unmarshal(wire.Error, &d)
	}
	if d.Message != "" {
		text = strings.TrimPrefix(d.Type+": "+d.Message, ": ")
	}
	raw := strings.TrimSpace(string(body))
	if status == 0 {
		raw = "it is no answer of this API: " + raw
	}
	return reason{code: cmp.Or(status, statusOf(d.Type)),
		text: cmp.Or(text, wire.Message, raw, strings.ToLower(http.StatusText(status)))}
}

// refusesThoughts reports whether a request was refused for the thoughts in it, which
// are bound to everything that was said before them, or for those that are not in it.
func refusesThoughts(err error) bool {
	var no *statusError
	if !errors.As(err, &no) || no.code != http.StatusBadRequest {
		return false
	}
	for _, said := range []string{
		"`signature` in `thinking`", "prefix_mismatch_behavior", // what was said before them has changed
		"must start with a thinking block", // another model called, and this one is asked to think on
		"cannot contain `thinking`",        // it was asked to think then, and now is not
		"latest assistant message cannot be modified",
	} {
		if strings.Contains(no.text, said) {
			return true
		}
	}
	return false
}
