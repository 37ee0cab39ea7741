package worldagent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/dalsegno/segno"
)

// world is the API of a world, for one agent.
type world struct {
	url, session string

	mu     sync.Mutex
	failed error // the first error that the agent did not cause
}

// call sends a request. The error has [segno.KindRefused] or [segno.KindInvalid] if the world refuses the
// request. call also stores any other error for failure, because the turn cannot succeed after it.
func (w *world) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	data, status, err := w.send(ctx, method, path, body)
	switch {
	case err == nil && status == http.StatusOK:
		return data, nil
	case err == nil && status < http.StatusInternalServerError:
		var answer struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(data, &answer) != nil || answer.Error == "" {
			answer.Error = fmt.Sprintf("the world answered with status %d", status)
		}
		kind := segno.KindInvalid
		if status == http.StatusUnprocessableEntity {
			kind = segno.KindRefused
		}
		return nil, segno.Errorf(kind, "act", "", "%s", answer.Error)
	case err == nil:
		err = fmt.Errorf("%s %s: status %d: %s", method, path, status, data)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil && ctx.Err() == nil {
		w.failed = err
	}
	return nil, err
}

func (w *world) send(ctx context.Context, method, path string, body []byte) (data []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("X-Session", w.session)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	data, err = io.ReadAll(answer.Body)
	return data, answer.StatusCode, err
}

// failure returns why the turn cannot succeed, or nil.
func (w *world) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
