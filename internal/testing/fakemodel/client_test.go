package fakemodel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// client sends requests to a separate server.
type client struct {
	t    *testing.T
	ctx  context.Context
	url  string
	stop func()
	*fakemodel.Server
}

func newClient(t *testing.T) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := fakemodel.New()
	url, stop, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &client{t, ctx, url, stop, s}
}

// msg is a message whose content is a string or a list of blocks.
type msg struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type block = map[string]any

func user(content any) msg      { return msg{"user", content} }
func assistant(content any) msg { return msg{"assistant", content} }

// turn returns the body of a model call that belongs to a turn: it offers tools.
func turn(stream bool, messages ...msg) map[string]any {
	return map[string]any{"model": "m", "max_tokens": 100, "stream": stream, "tools": []any{block{"name": "Bash"}}, "messages": messages}
}

func (c *client) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(raw))
	if err != nil {
		c.t.Fatal(err)
	}
	return http.DefaultClient.Do(req)
}

// call returns the status and the whole answer.
func (c *client) call(method, path string, body any) (int, string) {
	c.t.Helper()
	resp, err := c.open(c.ctx, method, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// reply is an answer of the Messages API, from a document or assembled from a stream.
type reply struct {
	ID      string           `json:"id"`
	Content []map[string]any `json:"content"`
	Stop    string           `json:"stop_reason"`
}

// ask makes a model call without streaming.
func (c *client) ask(messages ...msg) reply {
	c.t.Helper()
	status, body := c.call("POST", "/v1/messages", turn(false, messages...))
	var r reply
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != 200 {
		c.t.Fatalf("status %d, %v: %s", status, err, body)
	}
	return r
}

// text makes a model call and returns the answer's text.
func (c *client) text(messages ...msg) string {
	c.t.Helper()
	r := c.ask(messages...)
	if len(r.Content) != 1 {
		c.t.Fatalf("content %v, want one text", r.Content)
	}
	return r.Content[0]["text"].(string)
}

// event is one server-sent event.
type event struct {
	name string
	data map[string]any
}

// events reads a stream until it ends, or breaks.
func events(r io.Reader) ([]event, error) {
	var all []event
	in := bufio.NewReader(r)
	var e event
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "event: "):
			e = event{name: line[len("event: "):]}
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[len("data: "):]), &e.data); err != nil {
				return all, err
			}
		case line == "":
			all = append(all, e)
		}
	}
}

// stream makes a model call with streaming.
func (c *client) stream(path string, body any) []event {
	c.t.Helper()
	resp, err := c.open(c.ctx, "POST", path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		c.t.Fatalf("content type %q", ct)
	}
	all, err := events(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// assemble assembles a streamed message as a client does.
func assemble(t *testing.T, all []event) reply {
	t.Helper()
	var r reply
	input := ""
	for _, e := range all {
		if e.data["type"] != e.name {
			t.Errorf("event %q has data of type %v", e.name, e.data["type"])
		}
		switch e.name {
		case "message_start":
			r.ID = e.data["message"].(map[string]any)["id"].(string)
		case "content_block_start":
			if int(e.data["index"].(float64)) != len(r.Content) {
				t.Errorf("block %v after %d blocks", e.data["index"], len(r.Content))
			}
			r.Content = append(r.Content, e.data["content_block"].(map[string]any))
			input = ""
		case "content_block_delta":
			b, d := r.Content[len(r.Content)-1], e.data["delta"].(map[string]any)
			switch d["type"] {
			case "text_delta":
				b["text"] = b["text"].(string) + d["text"].(string)
			case "thinking_delta":
				b["thinking"] = b["thinking"].(string) + d["thinking"].(string)
			case "signature_delta":
				b["signature"] = d["signature"]
			case "input_json_delta":
				input += d["partial_json"].(string)
				var v any
				if err := json.Unmarshal([]byte(input), &v); err != nil {
					t.Errorf("tool input %q: %v", input, err)
				}
				b["input"] = v
			}
		case "message_delta":
			r.Stop = e.data["delta"].(map[string]any)["stop_reason"].(string)
		}
	}
	if len(all) == 0 || all[len(all)-1].name != "message_stop" {
		t.Errorf("the stream does not end with message_stop")
	}
	return r
}
