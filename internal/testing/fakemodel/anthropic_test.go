package fakemodel_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// TestAnswers checks that every kind of answer is the same with and without streaming.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		step string
		want string // the content, without ids
		stop string
	}{
		{`"hello"`, `[{"type":"text","text":"hello"}]`, "end_turn"},
		{`{"text":"half","stop":"max_tokens"}`, `[{"type":"text","text":"half"}]`, "max_tokens"},
		{`{"tool":"Bash","input":{"b":1,"a":[2]}}`, `[{"type":"tool_use","name":"Bash","input":{"b":1,"a":[2]}}]`, "tool_use"},
		{`{"tool":"List"}`, `[{"type":"tool_use","name":"List","input":{}}]`, "tool_use"},
		{`{"text":"I look","tool":"Read","input":{}}`, `[{"type":"text","text":"I look"},{"type":"tool_use","name":"Read","input":{}}]`, "tool_use"},
		{`{"tools":[{"tool":"A","input":{}},{"tool":"B","input":{"x":"y"}}]}`, `[{"type":"tool_use","name":"A","input":{}},{"type":"tool_use","name":"B","input":{"x":"y"}}]`, "tool_use"},
		{`{"thinking":"hm","text":"so"}`, `[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"}]`, "end_turn"},
		{`{"empty":true}`, `[]`, "end_turn"},
		{`{"raw":[{"type":"server_thing","n":7}]}`, `[{"type":"server_thing","n":7}]`, "end_turn"},
		{`{"text":"late","delay":0.01}`, `[{"type":"text","text":"late"}]`, "end_turn"},
		{`"a >> b <<fake [\"no\"]>> c"`, `[{"type":"text","text":"a >> b <<fake [\"no\"]>> c"}]`, "end_turn"},
	} {
		t.Run(tt.step, func(t *testing.T) {
			c := newClient(t)
			prompt := user("please <<fake [" + tt.step + "]>> now")
			whole := c.ask(prompt)
			streamed := assemble(t, c.stream("/v1/messages", turn(true, prompt)))
			if diff := cmp.Diff(whole, streamed, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("streamed otherwise (-whole +streamed):\n%s", diff)
			}
			for _, r := range []reply{whole, streamed} {
				if r.Stop != tt.stop || !strings.HasPrefix(r.ID, "msg_") {
					t.Errorf("id %q, stop reason %q, want %q", r.ID, r.Stop, tt.stop)
				}
				checkContent(t, r.Content, tt.want)
			}
		})
	}
}

func checkContent(t *testing.T, content []map[string]any, want string) {
	t.Helper()
	var w []map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	ids := map[any]bool{}
	for _, b := range content {
		if b["type"] == "tool_use" {
			if id, ok := b["id"].(string); !ok || ids[id] || !strings.HasPrefix(id, "toolu_") {
				t.Errorf("tool call id %v", b["id"])
			}
			ids[b["id"]] = true
		}
		if b["type"] == "thinking" && b["signature"] == "" {
			t.Error("a thought without a signature")
		}
		delete(b, "id")
		delete(b, "signature")
	}
	if len(content) == 0 && len(w) == 0 {
		return
	}
	if diff := cmp.Diff(w, content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestDrop(t *testing.T) {
	c := newClient(t)
	prompt := user(`<<fake [{"drop":true,"text":"abcdef","times":2},"whole"]>>`)
	resp, err := c.open(c.ctx, "POST", "/v1/messages", turn(true, prompt))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := events(resp.Body)
	if err == nil {
		t.Error("a dropped stream ends well")
	}
	if n := len(all); n == 0 || all[n-1].data["delta"].(map[string]any)["text"] != "abc" {
		t.Errorf("before the break: %v", all)
	}
	if resp, err := c.open(c.ctx, "POST", "/v1/messages", turn(false, prompt)); err == nil {
		resp.Body.Close()
		t.Error("a dropped answer arrives")
	}
	if got := c.text(prompt); got != "whole" {
		t.Errorf("after two drops: %q", got)
	}
}

// TestHang checks that a hanging call is in the log, sends its text, and ends with the client or
// the server.
func TestHang(t *testing.T) {
	for name, body := range map[string]any{
		"silent":   turn(true, user(`<<fake [{"hang":true}]>>`)),
		"text":     turn(true, user(`<<fake [{"hang":true,"text":"so far"}]>>`)),
		"unary":    turn(false, user(`<<fake [{"hang":true}]>>`)),
		"response": map[string]any{"stream": true, "input": `<<fake [{"hang":true,"text":"so far"}]>>`},
	} {
		path := "/v1/messages"
		if name == "response" {
			path = "/v1/responses"
		}
		hanging := func(c *client, ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				resp, err := c.open(ctx, "POST", path, body)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				done <- err
			}()
			if _, err := c.WaitFor(c.ctx, fakemodel.Request.Call); err != nil {
				t.Error(err)
			}
			return done
		}
		t.Run(name+"/client", func(t *testing.T) {
			c := newClient(t)
			ctx, cancel := context.WithCancel(c.ctx)
			done := hanging(c, ctx)
			cancel()
			if err := <-done; err == nil {
				t.Error("the call ended well")
			}
			c.stop() // returns only if the handler does
		})
		t.Run(name+"/server", func(t *testing.T) {
			c := newClient(t)
			done := hanging(c, c.ctx)
			c.stop()
			select {
			case <-done:
			case <-c.ctx.Done():
				t.Error("the call outlives its server")
			}
		})
	}
}

func TestDelayEndsWithClient(t *testing.T) {
	c := newClient(t)
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan error, 1)
	go func() {
		resp, err := c.open(ctx, "POST", "/v1/messages", turn(true, user(`<<fake [{"text":"x","delay":3600}]>>`)))
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	if _, err := c.WaitFor(c.ctx, fakemodel.Request.Call); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the call was answered")
	}
	c.stop()
}

func TestErrors(t *testing.T) {
	c := newClient(t)
	prompt := user(`<<fake ["one",{"error":529,"times":2},{"error":401,"message":"who?","times":1},"two"]>>`)
	if got := c.text(prompt); got != "one" {
		t.Fatalf("first step: %q", got)
	}
	so := []msg{prompt, assistant("one"), user("go on")}
	for _, want := range []struct {
		status int
		text   string
	}{{529, "overloaded_error"}, {529, "scripted error 529"}, {401, "who?"}} {
		status, body := c.call("POST", "/v1/messages", turn(true, so...))
		if status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("got %d %s, want %d with %q", status, body, want.status, want.text)
		}
	}
	if got := c.text(so...); got != "two" {
		t.Errorf("after the errors: %q", got)
	}
	if got := c.text(append(so, assistant("two"), user("more"))...); got != "ok" {
		t.Errorf("after the script: %q", got)
	}
	for range 3 {
		if status, _ := c.call("POST", "/v1/messages", turn(false, user(`<<fake [{"error":500}]>>`))); status != 500 {
			t.Errorf("an error without times ended with status %d", status)
		}
	}
}

func TestOtherEndpoints(t *testing.T) {
	c := newClient(t)
	for _, tt := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"HEAD", "/", 200, ""},
		{"POST", "/v1/messages/count_tokens", 200, `"input_tokens":`},
		{"GET", "/v1/models", 200, `"data":[]`},
		{"GET", "/v1/messages", 404, "not_found_error"},
		{"POST", "/nothing?x=1", 404, "POST /nothing"},
	} {
		if status, body := c.call(tt.method, tt.path, block{"messages": []msg{user("hi")}}); status != tt.status || !strings.Contains(body, tt.contains) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, status, body)
		}
	}
	if n := len(c.Calls()); n != 0 {
		t.Errorf("%d of them count as model calls", n)
	}
}

func TestWaitFor(t *testing.T) {
	c := newClient(t)
	c.text(user("first"))
	got := make(chan fakemodel.Request, 1)
	go func() {
		r, err := c.WaitFor(c.ctx, func(r fakemodel.Request) bool { return r.HasText("second") })
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	c.text(user("second"))
	if r := <-got; r.Seq != 1 {
		t.Errorf("request %d, want 1", r.Seq)
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Millisecond)
	defer cancel()
	if _, err := c.WaitFor(ctx, func(fakemodel.Request) bool { return false }); err == nil {
		t.Error("no error at the end of the context")
	}
}
