package endpoint

import (
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
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// StatusError is a server's refusal to answer.
type StatusError struct {
	Status   int    // an HTTP status, or the one that matches the error's name; 0 if neither is known
	Text     string // the server's own text
	NoCredit bool   // the account has no credit left, so waiting does not help
}

func (e *StatusError) Error() string { return e.Text }

// isTransient reports whether the same request may succeed later. Servers answer 409 while
// another request holds a resource.
func (e *StatusError) isTransient() bool {
	return !e.NoCredit && (e.Status == http.StatusRequestTimeout || e.Status == http.StatusConflict ||
		e.Status == http.StatusTooManyRequests || e.Status >= 500)
}

// DuringStream sets a status for an error that interrupted an answer, if the error has none.
func (e *StatusError) DuringStream() *StatusError {
	if e.Status == 0 {
		e.Status = http.StatusInternalServerError
	}
	return e
}

// ErrorText returns the text of an error body: message if it is not empty, else the whole body.
func ErrorText(message string, body []byte, status int) string {
	raw := strings.TrimSpace(string(body))
	switch {
	case message != "":
		return message
	case status == 0:
		return "not an answer of this API: " + raw
	case raw != "":
		return raw
	}
	return strings.ToLower(http.StatusText(status))
}

// failure converts an error for the agent: to the context's own error, or to an
// [agent.ModelError] that reports whether a retry may succeed.
func (s *Server) failure(ctx context.Context, x *exchange, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	var refused *StatusError
	var sending *url.Error
	switch {
	case s.err != nil:
		return &agent.ModelError{Err: s.addressError(err)}
	case errors.Is(err, errNoKey):
		return &agent.ModelError{Err: s.keyError(err)}
	case errors.Is(err, errPage) || errors.Is(err, errRedirect) || errors.Is(err, http.ErrSchemeMismatch):
		return &agent.ModelError{Err: s.addressError(x.redact(s.connectionText(err), err))}
	case errors.Is(err, errNoMessage) || errors.Is(err, errSchema):
		return &agent.ModelError{Err: segno.NewError(segno.KindInvalid, "", "", err)}
	case errors.As(err, &refused):
		return s.refused(x, refused)
	case errors.As(err, &sending):
		return &agent.ModelError{Retry: isTransient(err), Err: x.redact(s.connectionText(err), err)}
	}
	return &agent.ModelError{Retry: isTransient(err), Err: x.redact(err.Error(), err)}
}

// refused converts a server's refusal. The headers of the answer take precedence over its status:
// the server knows whether and when a retry is useful.
func (s *Server) refused(x *exchange, e *StatusError) error {
	text := e.Text
	if id := x.header.Get("request-id"); id != "" {
		text += " (request " + id + ")"
	}
	f := &agent.ModelError{Status: e.Status, Retry: e.isTransient(), After: retryAfter(x.header), Err: x.redact(text, e)}
	if retry, err := strconv.ParseBool(x.header.Get("x-should-retry")); err == nil {
		f.Retry = retry
	}
	switch {
	case e.NoCredit:
		f.Err = segno.NewError(segno.KindRefused, "", "", f.Err).
			WithHint("add credit to the account of the key, or use another key or model")
	case e.Status == 0:
		f.Err = segno.NewError(segno.KindInvalid, "", "", f.Err)
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		f.Err = s.keyError(f.Err)
	}
	return f
}

// connectionText describes a failure to reach the server. It contains only the host, because the
// rest of the address may contain a secret.
func (s *Server) connectionText(err error) string {
	var sending *url.Error
	if errors.As(err, &sending) {
		err = sending.Err
	}
	if errors.Is(err, errPage) {
		return s.url.Host + " " + err.Error()
	}
	return "reach " + s.url.Host + ": " + err.Error()
}

// keyError returns the error for a failure that another key may resolve.
func (s *Server) keyError(err error) error {
	hint := "set " + s.KeyVar + " to a key that may use this model"
	switch {
	case s.keySet:
		hint = "set Options.Key to a key that may use this model"
	case !s.Trusted:
		hint = "set Options.Key to a key that may use this model: " + s.KeyVar + " is sent to " + s.Vendor + " and to " + s.BaseVar + " only"
	}
	return segno.NewError(segno.KindRefused, "", "", err).WithHint(hint)
}

func (s *Server) addressError(err error) error {
	return segno.NewError(segno.KindInvalid, "", "", err).WithHint("set " + s.baseName() + " to the address of the API, such as " + s.Example)
}

// baseName names the source of the address.
func (s *Server) baseName() string {
	if s.baseSet {
		return "Options.BaseURL"
	}
	return s.BaseVar
}

// isTransient reports whether a retry may succeed after an error that the API did not send: the
// connection failed, the answer was truncated, or the model answered nothing.
func isTransient(err error) bool {
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return false
	}
	var sending *url.Error // net/http wraps every failure of a request in it
	var reading net.Error
	return errors.Is(err, ErrTruncated) || errors.Is(err, errEmpty) || errors.Is(err, errNoCalls) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &sending) || errors.As(err, &reading)
}

// retryAfter returns the delay before a retry that an answer asks for, or 0. It reads the header
// Retry-After of RFC 9110, and retry-after-ms, which OpenAI's and Anthropic's servers send.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("retry-after")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// ErrorFields decodes the field "error" of a body into v. If the error is only a string, it
// returns that string.
func ErrorFields(field json.RawMessage, v any) (text string) {
	if json.Unmarshal(field, &text) != nil {
		_ = json.Unmarshal(field, v) // ErrorText shows a body without fields unchanged
	}
	return text
}
