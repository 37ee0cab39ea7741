package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// request is a request to the server. It can be sent repeatedly.
type request struct {
	method string
	object string // with the prefix, or "" for the bucket
	query  url.Values
	header map[string]string
	body   []byte
	// read reads a response of success. It is called for each attempt.
	read func(r *http.Response) error
}

const (
	maxErrorBody = 64 << 10
	maxPause     = 5 * time.Second
)

// errTransfer marks the error of a response that was damaged or truncated on its way.
var errTransfer = errors.New("the answer is damaged")

// send sends a request until the server answers it, until a retry cannot help, or until Patience is over. It reports how
// many attempts it made, because after the first one the effect of an earlier one is unknown.
func (b *Bucket) send(ctx context.Context, r request) (attempts int, err error) {
	start := time.Now()
	for pause := b.options.pause; ; pause = min(2*pause, maxPause) {
		attempts++
		err = b.attempt(ctx, r)
		if ctx.Err() != nil {
			return attempts, context.Cause(ctx)
		}
		if err == nil || !b.isTransient(err) {
			return attempts, err
		}
		wait := pause/2 + rand.N(pause/2)
		var refusal *statusError
		if errors.As(err, &refusal) {
			wait = max(wait, refusal.after)
		}
		if time.Since(start)+wait > b.options.Patience {
			return attempts, fmt.Errorf("%w (after %d attempts)", err, attempts)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return attempts, context.Cause(ctx)
		}
	}
}

// isTransient reports whether a retry may succeed.
func (b *Bucket) isTransient(err error) bool {
	var refusal *statusError
	if !errors.As(err, &refusal) {
		return !errors.Is(err, errNoKeys) && !errors.Is(err, errDamaged)
	}
	switch refusal.Code {
	case "RequestTimeTooSkewed":
		// The next attempt uses the server's time. If this one did, something else is wrong. The clock of this machine may have been set
		// since the last time, and other requests may have stored the skew meanwhile.
		skew := refusal.clock.Sub(b.options.Clock())
		if refusal.clock.IsZero() || (skew-refusal.skew).Abs() < time.Minute {
			return false
		}
		b.skew.Store(int64(skew))
		return true
	case "RequestTimeout", "XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody", "SlowDown":
		return true
	}
	switch s := refusal.status; s {
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusTooEarly:
		return true
	case http.StatusConflict:
		// Amazon's answer to two puts of one name at once. versitygw also has it for a put into a directory that it is removing because
		// its last object was deleted.
		return true
	default:
		return s >= 500
	}
}

// attempt sends a request once. Its context ends if no byte is sent or received for the time Idle.
func (b *Bucket) attempt(ctx context.Context, r request) error {
	c, err := b.credentials(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(b.options.Idle, func() { cancel(fmt.Errorf("no byte for %v", b.options.Idle)) })
	defer idle.Stop()
	alive := func() { idle.Reset(b.options.Idle) }
	u := *b.endpoint
	u.Path = b.path + r.object
	u.RawPath, u.RawQuery = escape(u.Path, "/"), encodeQuery(r.query)
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		return err
	}
	if len(r.body) > 0 { // net/http sends a length of 0 for a PUT without a body
		req.ContentLength = int64(len(r.body))
		req.Body = io.NopCloser(&watchedReader{bytes.NewReader(r.body), alive})
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	skew := time.Duration(b.skew.Load())
	sign(req, r.body, c, b.region, b.options.Clock().Add(skew))
	res, err := b.options.Client.Do(req)
	if err != nil {
		return requestError(ctx, err)
	}
	defer res.Body.Close()
	res.Body = struct {
		io.Reader
		io.Closer
	}{&watchedReader{res.Body, alive}, res.Body}
	if res.StatusCode/100 == 2 {
		if err = r.read(res); err != nil && ctx.Err() != nil {
			err = requestError(ctx, err)
		}
		return err
	}
	return readRefusal(res, skew)
}

// requestError returns an error of the transport without the request's URL, which is long and adds nothing.
func requestError(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
		err = cause
	}
	return err
}

// readRefusal returns the error in a response to a request that was signed with a skew. A response whose error cannot be
// decoded did not come from the server, or was truncated.
func readRefusal(res *http.Response, skew time.Duration) error {
	e := &statusError{status: res.StatusCode, skew: skew}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("%w: status %d: %w", errTransfer, res.StatusCode, err)
	}
	if xml.Unmarshal(text, e) != nil {
		e.Code, e.Message = "", ""
		if res.StatusCode == http.StatusNotFound && res.Request.Method != http.MethodHead {
			return fmt.Errorf("%w: status 404 without a reason", errTransfer)
		}
	}
	e.Code, e.Message = printable(e.Code, 80), printable(e.Message, 300)
	e.clock, _ = http.ParseTime(res.Header.Get("Date"))
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = time.Duration(min(seconds, 60)) * time.Second
	}
	return e
}

// printable returns the beginning of a server's text in one line.
func printable(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// watchedReader calls alive after each read.
type watchedReader struct {
	io.Reader
	alive func()
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.alive()
	return n, err
}
