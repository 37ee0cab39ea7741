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
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
)

// exchange is one request and its answer. It remembers the credentials of the request, so
// that no error repeats them.
type exchange struct {
	client  *http.Client
	idle    time.Duration
	answer  Answer
	began   bool        // the answer began as a stream
	header  http.Header // of the answer
	secrets []string    // credentials in the request
}

// Event is one event of a stream.
type Event struct {
	Type string // the stream's name for it, often ""
	Data []byte
}

const (
	maxErrorBody = 64 << 10  // bytes of an error that are read
	maxLine      = 32 << 20  // bytes of a line of a stream
	maxDocument  = 32 << 20  // bytes of an answer in one piece
	maxStream    = 256 << 20 // bytes of an answer as a stream, in which a token takes some hundred bytes
	maxBlank     = 512       // bytes of white space before an answer
)

// events posts body as JSON and yields the events of the answer. After an error, it yields no
// more.
func (x *exchange) events(ctx context.Context, to *url.URL, header http.Header, body any) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		res, err := x.post(ctx, to, header, body)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer res.Body.Close()
		stream := bufio.NewReader(idleReader{res.Body, x.idle})
		switch firstLetter(stream) {
		case '<':
			yield(Event{}, errPage)
		case '{', '[':
			x.document(stream, yield)
		default:
			x.began = true
			for e, err := range readEvents(&limitedReader{stream, maxStream}) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// post sends the request. For a status of 400 or more, it returns the error that the adapter reads
// from the body.
func (x *exchange) post(ctx context.Context, to *url.URL, header http.Header, body any) (*http.Response, error) {
	data, err := segno.Encode(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("create request: %w", err)
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream, application/json")
	r.Header.Set("User-Agent", "segno")
	x.secrets = secretsOf(r)
	res, err := x.client.Do(r)
	if err != nil {
		return nil, err
	}
	x.header = res.Header
	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(idleReader{res.Body, x.idle}, maxErrorBody))
	if err != nil {
		text = nil // the status alone is enough
	}
	return nil, x.answer.Refusal(text, res.StatusCode)
}

// document yields the events of an answer in the form of one JSON document.
func (x *exchange) document(body io.Reader, yield func(Event, error) bool) {
	var document json.RawMessage
	if err := json.NewDecoder(io.LimitReader(body, maxDocument)).Decode(&document); err != nil {
		yield(Event{}, fmt.Errorf("%w: %w", ErrTruncated, err))
		return
	}
	events, ok := x.answer.Split(document)
	if !ok {
		yield(Event{}, x.answer.Refusal(document, 0))
		return
	}
	x.began = true
	for _, e := range events {
		if !yield(e, nil) {
			return
		}
	}
}

// idleReader limits the silence of a server. Any byte ends the silence, even the bytes of comments
// and pings, which produce no event.
type idleReader struct {
	io.ReadCloser
	limit time.Duration
}

func (r idleReader) Read(p []byte) (int, error) {
	var expired atomic.Bool
	timer := time.AfterFunc(r.limit, func() {
		expired.Store(true)
		_ = r.Close() // ends the Read in progress
	})
	n, err := r.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && expired.Load() {
		err = fmt.Errorf("%w: %s", errIdle, r.limit)
	}
	return n, err
}

// limitedReader ends with an error after left bytes.
type limitedReader struct {
	io.Reader
	left int
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= n; r.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// firstLetter peeks at the first byte of a body that is not white space. It returns 0 if there is
// none. It is needed because the content type is not reliable: some servers call a stream plain
// text, and others call an error a stream.
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

// readEvents yields the events of a text/event-stream. It joins several data lines of an event by
// newlines. It skips an event without data, and an event that the end of the body truncates.
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

// Decode decodes JSON into v. If a field has another type than in v, v's field keeps its value:
// servers add different fields, and an unexpected one must not fail the answer.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if odd := (*json.UnmarshalTypeError)(nil); err == nil || errors.As(err, &odd) && odd.Field != "" {
		return nil
	}
	return fmt.Errorf("%w: %w: %s", ErrTruncated, err, data)
}
