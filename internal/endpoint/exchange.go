package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Exchange sends requests to a model's server and reads the answers as streams of events.
// It does not retry. Use one Exchange per question: it remembers the credentials of its
// requests, so that [Exchange.Tell] can keep them out of errors.
type Exchange struct {
	Client *http.Client
	Idle   time.Duration // how long the server may send nothing in the midst of an answer

	// Refusal is the error of an answer whose status is 400 or more, or of one whose status is
	// good (status is 0) and whose body is not an answer.
	Refusal func(header http.Header, body []byte, status int) error
	// Whole makes a stream of an answer that came in one piece.
	Whole func(body io.Reader, header http.Header) ([]byte, error)

	Began  bool        // the answer is a stream, at least in its beginning
	Header http.Header // of the answer

	secrets []string // credentials that were sent; no error or log may contain them
}

// Event is one event of a stream.
type Event struct {
	Type string // what the stream calls it, often ""
	Data []byte
}

const (
	maxErrorBody = 64 << 10 // of an answer that says no, how much is read
	maxLine      = 32 << 20 // of a stream
)

// Events posts body as JSON and yields the events of the answer. An error ends them.
func (x *Exchange) Events(ctx context.Context, to *url.URL, header http.Header, body any) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := x.post(ctx, to, header, body)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer stream.Close() // nothing to lose: it was only read
		for e, err := range readEvents(stream) {
			if !yield(e, err) {
				return
			}
		}
	}
}

func (x *Exchange) post(ctx context.Context, to *url.URL, header http.Header, body any) (io.ReadCloser, error) {
	data, err := JSON(body)
	if err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream, application/json")
	r.Header.Set("User-Agent", "segno")
	x.secrets = secretsOf(r)
	res, err := x.Client.Do(r)
	if err != nil {
		return nil, err
	}
	x.Header = res.Header
	if res.StatusCode >= http.StatusBadRequest {
		defer res.Body.Close() // nothing to lose: it was only read
		body, err := io.ReadAll(io.LimitReader(idleReader{res.Body, x.Idle}, maxErrorBody))
		if err != nil {
			body = nil // the status says enough
		}
		return nil, x.Refusal(res.Header, body, res.StatusCode)
	}
	if err := asStream(res, x.Idle, x.Whole); err != nil {
		return nil, err
	}
	x.Began = true
	return res.Body, nil
}

// Tell is an error in words for people, without what is secret in the exchange.
func (x *Exchange) Tell(text string, err error) error { return tell(text, x.secrets, err) }

// readEvents yields the events of a text/event-stream. Data of several lines is joined by
// newlines, an event without data is left out, and so is one that the end of the body cuts.
func readEvents(body io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxLine)
		var e Event
		for lines.Scan() {
			name, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch {
			case len(lines.Bytes()) == 0:
				if len(e.Data) > 0 && !yield(e, nil) {
					return
				}
				e = Event{}
			case string(name) == "event":
				e.Type = string(value)
			case string(name) == "data" && e.Data != nil:
				e.Data = append(append(e.Data, '\n'), value...)
			case string(name) == "data":
				e.Data = append([]byte{}, value...)
			}
		}
		if err := lines.Err(); err != nil {
			yield(Event{}, err)
		}
	}
}

// Decode reads JSON as a server wrote it: a field of another type than v's is left as it
// was, since servers differ in what they add and an odd field spoils no answer.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if odd := (*json.UnmarshalTypeError)(nil); errors.As(err, &odd) && odd.Field != "" {
		return nil
	}
	return err
}

// JSON is v as JSON that a model can read: <, > and & stay as they are.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
