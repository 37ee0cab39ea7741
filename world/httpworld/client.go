package httpworld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dalsegno/segno"
)

// maxBody is the largest answer of a world in bytes.
const maxBody = 256 << 20

// maxWait is how long a world may take for one answer.
const maxWait = 2 * time.Minute

// client makes requests to one world.
type client struct {
	url   string
	token string // of the operator
	http  *http.Client
}

func newClient(url, token string) *client {
	return &client{url: url, token: token, http: &http.Client{
		Timeout:       maxWait,
		Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 8},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// statusError is an answer with a status other than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// statusOf returns the HTTP status in an error, 200 for nil, and 0 for an error without a status.
func statusOf(err error) int {
	var status *statusError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &status):
		return status.status
	}
	return 0
}

func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	return c.request(ctx, http.MethodGet, path, "", nil)
}

// send makes a request and returns the answer. The caller closes its body. An empty session or token is not sent.
func (c *client) send(ctx context.Context, method, path, session, token string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if session != "" {
		r.Header.Set(headerSession, session)
	}
	if token != "" {
		r.Header.Set(headerToken, token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(r)
}

// request makes a request and returns the body of the answer. It sends the operator's token if session is empty.
func (c *client) request(ctx context.Context, method, path, session string, body []byte) ([]byte, error) {
	token := c.token
	if session != "" {
		token = ""
	}
	answer, err := c.send(ctx, method, path, session, token, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxBody:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxBody)
	case answer.StatusCode != http.StatusOK:
		var failure struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(data, &failure) != nil || failure.Error == "" {
			failure.Error = answer.Status
		}
		return nil, &statusError{answer.StatusCode, failure.Error}
	}
	return data, nil
}

// call is request, but returns the errors of a [segno.World].
func (c *client) call(ctx context.Context, op, method, path, session string, body []byte) ([]byte, error) {
	data, err := c.request(ctx, method, path, session, body)
	if err == nil || ctx.Err() != nil {
		return data, ctx.Err()
	}
	kind := segno.KindIO
	for k, status := range statuses() {
		if statusOf(err) == status {
			kind = k
		}
	}
	return nil, segno.NewError(kind, op, "", err)
}

// statuses returns the HTTP statuses for the kinds of errors that are not failures.
func statuses() map[segno.Kind]int {
	return map[segno.Kind]int{segno.KindInvalid: http.StatusBadRequest, segno.KindNotFound: http.StatusNotFound,
		segno.KindConflict: http.StatusConflict, segno.KindRefused: http.StatusUnprocessableEntity}
}
