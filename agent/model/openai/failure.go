package openai

import (
	"cmp"
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

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

var errNoKey = errors.New("there is no key")

// statusError is an answer that says no. It is read here, since the SDK knows but one
// of the forms that servers give it.
type statusError struct {
	status int
	header http.Header
	reason
}

func (e *statusError) Error() string { return e.text }

// maxErrorBody is how much of such an answer is read.
const maxErrorBody = 64 << 10

// readError makes an error of an answer that says no.
func readError(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if err != nil || res.StatusCode < 400 {
		return res, err
	}
	defer res.Body.Close() // nothing to lose: it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		body = nil // the status says enough
	}
	return nil, &statusError{status: res.StatusCode, header: res.Header, reason: reasonOf(body, res.StatusCode)}
}

// failure is an error as the agent knows it: the context's own, or a
// [agent.ModelError] that says whether to try again.
func (m *model) failure(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, errNoKey) {
		return &agent.ModelError{Err: m.refusal(err)}
	}
	var midst *ssestream.StreamError
	if errors.As(err, &midst) {
		r := reasonOf(midst.Event.Data, http.StatusInternalServerError)
		return &agent.ModelError{Status: r.code, Retry: r.passes(), Err: errors.New(r.text)}
	}
	var no *statusError
	if !errors.As(err, &no) {
		return &agent.ModelError{Retry: passes(err), Err: fmt.Errorf("ask %s: %w", m.Name(), err)}
	}
	f := &agent.ModelError{Status: no.status, Retry: no.passes(), After: agent.RetryAfter(no.header), Err: no}
	switch no.header.Get("x-should-retry") {
	case "true":
		f.Retry = true
	case "false":
		f.Retry = false
	}
	switch no.status {
	case http.StatusUnauthorized:
		f.Err = m.refusal(errors.New("the key was not accepted")) // servers repeat the key
	case http.StatusForbidden:
		f.Err = m.refusal(no)
	}
	return f
}

// refusal is an error that a key may help against.
func (m *model) refusal(err error) error {
	return &segno.Error{Op: "ask", Name: m.Name(), Kind: segno.KindRefused, Err: err, Hint: "set OPENAI_API_KEY to a key that may use this model"}
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

// reason is why a server did not answer.
type reason struct {
	code  int    // what it comes to as an HTTP status
	text  string // one line
	spent bool   // the account has no money left, which no wait will change
}

func (r reason) passes() bool {
	return !r.spent && (r.code == http.StatusRequestTimeout || r.code == http.StatusConflict || r.code == http.StatusTooManyRequests || r.code >= 500)
}

// reasonOf reads an error's JSON, in which servers differ. An error in the midst of an
// answer has no status but the one it may name.
func reasonOf(body []byte, status int) reason {
	type detail struct {
		Message, Type string
		Code          any
	}
	var wire struct {
		Error  json.RawMessage
		Detail any
		detail
	}
	_ = json.Unmarshal(body, &wire) // what is not JSON is told as it is
	d, text := wire.detail, ""
	if json.Unmarshal(wire.Error, &text) != nil {
		_ = json.Unmarshal(wire.Error, &d)
	}
	plain, _ := wire.Detail.(string)
	r := reason{code: status, text: oneLine(cmp.Or(text, d.Message, plain, string(body), strings.ToLower(http.StatusText(status)))),
		spent: d.Type == "insufficient_quota" || d.Code == "insufficient_quota"}
	if status != http.StatusInternalServerError {
		return r
	}
	if code, ok := d.Code.(float64); ok && code >= 400 && code < 600 {
		r.code = int(code)
	} else if strings.HasPrefix(d.Type, "invalid_request") {
		r.code = http.StatusBadRequest
	}
	return r
}

// oneLine makes a line of an error's text, and not too long a one.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 500 {
		return string(runes[:500]) + " …"
	}
	return text
}
