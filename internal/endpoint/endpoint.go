// Package endpoint is what adapters of models have in common about the servers they
// ask: where those are, how their answers begin, and what may be told of their failures.
package endpoint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxSilence is how long a server may take to say anything at all.
const maxSilence = 10 * time.Minute

// Parse reads a base URL. Its error does not repeat it, for it may hold a secret.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		var parsing *url.Error
		if errors.As(err, &parsing) {
			err = parsing.Err
		}
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the base URL does not begin with http:// or https:// and a host")
	}
	return u, nil
}

// Client is a client that waits for an answer to begin as long as models think.
func Client() *http.Client {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return &http.Client{}
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = maxSilence
	return &http.Client{Transport: t}
}

// ErrPage is the error of a server that answers with a page for people.
var ErrPage = errors.New("answered with a page, not with the API")

// DefaultIdle is how long a stream may be silent between two pieces of an answer.
const DefaultIdle = 5 * time.Minute

// ErrIdle is the error of a stream that was silent for too long.
var ErrIdle = errors.New("the server sent nothing for too long")

// idleReader reads a body and limits how long the server may send nothing. Any byte
// counts, also those of comments and pings, which produce no event.
type idleReader struct {
	io.ReadCloser
	limit time.Duration
}

func (r idleReader) Read(p []byte) (int, error) {
	var expired atomic.Bool
	timer := time.AfterFunc(r.limit, func() {
		expired.Store(true)
		_ = r.Close() // ends the Read under way
	})
	n, err := r.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && expired.Load() {
		err = fmt.Errorf("%w: %s", ErrIdle, r.limit)
	}
	return n, err
}

// asStream makes a good answer a stream of events, if it is not one: whole makes it of an
// answer that came in one piece. Reading fails with [ErrIdle] when the server is silent for
// longer than idle.
func asStream(res *http.Response, idle time.Duration, whole func(body io.Reader, header http.Header) ([]byte, error)) error {
	res.Body = idleReader{res.Body, idle}
	body := bufio.NewReader(res.Body)
	switch firstLetter(body) {
	case '<':
		_ = res.Body.Close() // nothing to lose: it was only read
		return ErrPage
	case '{', '[':
		defer res.Body.Close() // nothing to lose: it was only read
		events, err := whole(body, res.Header)
		if err != nil {
			return err
		}
		res.Header.Set("Content-Type", "text/event-stream")
		res.Body = io.NopCloser(bytes.NewReader(events))
	default:
		res.Body = struct {
			io.Reader
			io.Closer
		}{body, res.Body}
	}
	return nil
}

// maxBlank is how many bytes may come before the first letter of an answer.
const maxBlank = 512

// firstLetter is the first letter of a body that is not a space, 0 if all are. A
// header may say anything: servers that stream have been seen to call it plain text,
// and others to call an error a stream.
func firstLetter(body *bufio.Reader) byte {
	for n := 1; n <= maxBlank; n++ {
		b, err := body.Peek(n)
		if err != nil {
			return 0
		}
		if c := b[n-1]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// At is where an API has what is called path, below its base URL. A query of the base URL
// goes with it.
func At(base *url.URL, path ...string) *url.URL {
	u := base.JoinPath(path...)
	u.RawQuery, u.Fragment = u.Query().Encode(), ""
	return u
}
