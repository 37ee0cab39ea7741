package openai

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
	"strconv"
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

// noKey is sent in place of a key to a server that may need none: some refuse a request without one.
const noKey = "none"

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
	case errors.Is(err, errNoKey):
		return &agent.ModelError{Err: m.refusal(err)}
	case m.wrong != nil:
		return &agent.ModelError{Err: m.unfit(err)}
	case errors.Is(err, endpoint.ErrPage) || errors.Is(err, http.ErrSchemeMismatch):
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
	f := &agent.ModelError{Status: no.code, Retry: no.passes(), After: agent.RetryAfter(no.header), Err: x.Tell(no.text, no)}
	switch no.header.Get("x-should-retry") {
	case "true":
		f.Retry = true
	case "false":
		f.Retry = false
	}
	if no.spent {
		f.Err = outOfCredit(f.Err)
		return f
	}
	switch no.code {
	case 0:
		f.Err = segno.NewError(segno.KindInvalid, "", "", f.Err)
	case http.StatusUnauthorized:
		f.Err = m.refusal(errors.New("the key was not accepted"))
	case http.StatusForbidden:
		f.Err = m.refusal(f.Err)
	}
	return f
}

// outOfCredit is the error of an account that has no money left.
func outOfCredit(err error) error {
	return segno.NewError(segno.KindRefused, "", "", err).WithHint("add credit to the account of the key, or use another key or model")
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
	hint := "set OPENAI_API_KEY to a key that may use this model"
	if !m.trusted {
		hint = "give WithKey a key that may use this model: OPENAI_API_KEY is sent to OpenAI and to OPENAI_BASE_URL only"
	}
	return segno.NewError(segno.KindRefused, "", "", err).WithHint(hint)
}

// unfit is an error of the address.
func (m *model) unfit(err error) error {
	return segno.NewError(segno.KindInvalid, "", "", err).WithHint("set OPENAI_BASE_URL to where the API is, such as http://localhost:11434/v1")
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
	code  int    // what it comes to as an HTTP status, 0 if nothing says
	text  string // as the server has it
	spent bool   // the account has no money left, which no wait will change
}

func (r reason) passes() bool {
	return !r.spent && (r.code == http.StatusRequestTimeout || r.code == http.StatusConflict || r.code == http.StatusTooManyRequests || r.code >= 500)
}

// detail is an error's JSON.
type detail struct {
	Message, Type string
	Code          any
}

// reasonOf reads an error's JSON, in which servers differ. An error that comes with a
// good status, or in the midst of an answer, has 0 for one.
func reasonOf(body []byte, status int) reason {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
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
	raw := string(body)
	if status == 0 {
		raw = "it is no answer of this API: " + raw
	}
	r := reason{code: status, text: cmp.Or(text, d.Message, plain, raw, strings.ToLower(http.StatusText(status))),
		spent: d.Type == "insufficient_quota" || d.Code == "insufficient_quota"}
	if status == 0 || status == http.StatusInternalServerError {
		r.code = cmp.Or(d.status(), status)
	}
	return r
}

// status is the HTTP status that an error comes to by what it is called, 0 if its name
// says nothing.
func (d detail) status() int {
	code, _ := d.Code.(string)
	number, ok := d.Code.(float64)
	if !ok {
		number, _ = strconv.ParseFloat(code, 64) // 0 if it is a name
	}
	is := func(word string) bool { return strings.Contains(strings.ToLower(d.Type+" "+code), word) }
	switch {
	case number >= 400 && number < 600:
		return int(number)
	case is("rate_limit") || is("insufficient_quota"):
		return http.StatusTooManyRequests
	case is("invalid_request") || is("context_length"):
		return http.StatusBadRequest
	case is("overloaded") || is("unavailable"):
		return http.StatusServiceUnavailable
	case is("server_error") || is("internalservererror"):
		return http.StatusInternalServerError
	}
	return 0
}
