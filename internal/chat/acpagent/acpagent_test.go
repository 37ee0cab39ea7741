package acpagent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"go.uber.org/goleak"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/chat/acpagent"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/store/memory"
)

func TestMain(m *testing.M) {
	memdir.Use()
	goleak.VerifyTestMain(m)
}

func noChoice() acp.RequestPermissionOutcome {
	return acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{}}
}

// client is an editor that answers every permission request in the same way.
type client struct {
	acp.Client // nil: the missing methods are never called
	asked      chan acp.RequestPermissionRequest

	mu       sync.Mutex
	choice   choice
	allText  strings.Builder  // of the agent's messages
	outputs  []string         // of calls
	calls    []acp.ToolCallId // announced
	ended    []acp.ToolCallId // calls that have a result
	messages []message
}

// choice is how a client answers a permission request.
type choice struct {
	answer acp.RequestPermissionOutcome
	silent bool         // the client does not answer
	cancel func() error // called first
}

// chosen returns the choice of an option.
func chosen(option acp.PermissionOptionId) choice {
	return choice{answer: acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{OptionId: option}}}
}

// message is a message of the agent. Chunks with the same id are one message.
type message struct{ id, text string }

func (c *client) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := n.Update.AgentMessageChunk; m != nil && m.Content.Text != nil {
		c.allText.WriteString(m.Content.Text.Text)
		if id := m.MessageId; id != nil && (len(c.messages) == 0 || c.messages[len(c.messages)-1].id != *id) {
			c.messages = append(c.messages, message{id: *id})
		}
		if m.MessageId != nil {
			c.messages[len(c.messages)-1].text += m.Content.Text.Text
		}
	}
	if u := n.Update.ToolCall; u != nil {
		c.calls = append(c.calls, u.ToolCallId)
	}
	if u := n.Update.ToolCallUpdate; u != nil && u.RawOutput != nil {
		c.outputs = append(c.outputs, fmt.Sprint(u.RawOutput))
		c.ended = append(c.ended, u.ToolCallId)
	}
	return nil
}

func (c *client) RequestPermission(ctx context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	c.mu.Lock()
	how := c.choice
	c.mu.Unlock()
	c.asked <- r
	if how.cancel != nil {
		if err := how.cancel(); err != nil {
			return acp.RequestPermissionResponse{}, err
		}
	}
	if how.silent {
		<-ctx.Done()
		return acp.RequestPermissionResponse{}, ctx.Err()
	}
	return acp.RequestPermissionResponse{Outcome: how.answer}, nil
}

// setChoice sets how the client answers from now on.
func (c *client) setChoice(how choice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.choice = how
}

func (c *client) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allText.String()
}

func (c *client) results() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.outputs)
}

// take returns the ids of the calls and the messages that the client received, and forgets them.
func (c *client) take() (calls, ended []acp.ToolCallId, messages []message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, ended, messages = c.calls, c.ended, c.messages
	c.calls, c.ended, c.messages = nil, nil, nil
	return calls, ended, messages
}

// served is a client and its server, in this process.
type served struct {
	*testing.T
	*acp.ClientSideConnection
	client     *client
	dir        string
	raw        io.Writer    // to the server, past the connection
	disconnect func() error // also waits until the server has ended
}

func serve(t *testing.T, store segno.Store, dir string, model agent.Model) *served {
	t.Helper()
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := acpagent.Serve(t.Context(), acpagent.Config{Version: "test",
			Open: func(ctx context.Context, session, dir string, answer acpagent.Answer) (*chat.Chat, string, error) {
				c, err := chat.Open(ctx, chat.Config{Model: model, Store: store, Dir: dir, Session: session, Answer: answer})
				return c, "", err
			},
			List: func(context.Context, string) ([]acpagent.Info, error) { return nil, nil }}, in, out)
		out.Close()
		done <- err
	}()
	s := &served{T: t, dir: dir, raw: toAgent, client: &client{asked: make(chan acp.RequestPermissionRequest, 10),
		choice: choice{answer: noChoice()}}}
	s.ClientSideConnection = acp.NewClientSideConnection(s.client, toAgent, fromAgent)
	s.SetLogger(slog.New(slog.DiscardHandler))
	s.disconnect = sync.OnceValue(func() error {
		toAgent.Close()
		err := <-done
		<-s.Done()
		return err
	})
	t.Cleanup(func() { _ = s.disconnect() })
	r, err := s.Initialize(t.Context(), acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber})
	if err != nil || !r.AgentCapabilities.LoadSession || r.AgentInfo.Name != "segno" {
		t.Fatalf("the answer to initialize is %+v, %v", r, err)
	}
	return s
}

func (s *served) open() acp.SessionId {
	s.Helper()
	r, err := s.NewSession(s.Context(), acp.NewSessionRequest{Cwd: s.dir, McpServers: []acp.McpServer{}})
	if err != nil {
		s.Fatal(err)
	}
	return r.SessionId
}

func (s *served) prompt(id acp.SessionId, blocks ...acp.ContentBlock) (acp.StopReason, error) {
	s.Helper()
	r, err := s.Prompt(s.Context(), acp.PromptRequest{SessionId: id, Prompt: blocks})
	return r.StopReason, err
}

// TestInvalidRequests checks the codes of errors, and that the session continues after them.
func TestInvalidRequests(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	id := s.open()
	load := func(id acp.SessionId) error {
		_, err := s.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}})
		return err
	}
	_, unknown := s.prompt("nosuch", acp.TextBlock("say hi"))
	_, image := s.prompt(id, acp.ImageBlock("not base64!", "image/png"))
	_, audio := s.prompt(id, acp.AudioBlock("AAAA", "audio/wav"))
	_, mode := s.SetSessionMode(t.Context(), acp.SetSessionModeRequest{SessionId: id, ModeId: "x"})
	for name, c := range map[string]struct {
		err  error
		code int
	}{"session that is not open": {unknown, -32002}, "unknown session": {load("nosuch"), -32002}, "empty session id": {load(""), -32602},
		"malformed image": {image, -32602}, "audio": {audio, -32602}, "unsupported method": {mode, -32601}} {
		var e *acp.RequestError
		if !errors.As(c.err, &e) || e.Code != c.code {
			t.Errorf("%s: %v, want code %d", name, c.err, c.code)
		}
	}
	if stop, err := s.prompt(id, acp.TextBlock("say hi")); err != nil || stop != acp.StopReasonEndTurn || s.client.text() != "hi" {
		t.Errorf("the next prompt: %q, %q, %v", s.client.text(), stop, err)
	}
}

// TestPermissionRequestAfterDisconnect disconnects a client that did not answer a permission
// request. The next client receives the request again.
func TestPermissionRequestAfterDisconnect(t *testing.T) {
	store := memory.New(time.Now)
	s := serve(t, store, t.TempDir(), offline.New())
	s.client.setChoice(choice{silent: true})
	id := s.open()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Prompt(context.WithoutCancel(t.Context()), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock("run echo one")}})
		ended <- err
	}()
	first := <-s.client.asked
	if err := s.disconnect(); err != nil {
		t.Fatal(err)
	}
	<-ended
	again := serve(t, store, s.dir, offline.New())
	again.client.setChoice(chosen("reject"))
	if _, err := again.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: id, Cwd: s.dir}); err != nil {
		t.Fatal(err)
	}
	if stop, err := again.prompt(id, acp.TextBlock("say hi")); err != nil || stop != acp.StopReasonEndTurn {
		t.Errorf("the turn ends with %q, %v", stop, err)
	}
	if text := again.client.text(); !strings.Contains(text, "rejected") || !strings.HasSuffix(text, "hi") {
		t.Errorf("the agent's text is %q", text)
	}
	for _, asked := range []acp.RequestPermissionRequest{first, <-again.client.asked} {
		if *asked.ToolCall.Title != "execute echo one" || *asked.ToolCall.Kind != acp.ToolKindExecute || len(asked.Options) != 2 {
			t.Errorf("the agent requests permission with %+v", asked)
		}
	}
}

// TestCancelDuringPermissionRequest cancels a turn that waits for permission. The agent
// rejects the call: it neither makes the call nor asks again.
func TestCancelDuringPermissionRequest(t *testing.T) {
	for name, c := range map[string]struct{ cancel, silent bool }{
		"cancel and answer": {cancel: true}, "cancel without answer": {cancel: true, silent: true}, "answer only": {}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
			id, how := s.open(), choice{answer: noChoice(), silent: c.silent}
			if c.cancel {
				how.cancel = func() error { return s.Cancel(t.Context(), acp.CancelNotification{SessionId: id}) }
			}
			s.client.setChoice(how)
			if stop, err := s.prompt(id, acp.TextBlock("run echo hi > c.txt\nwrite d.txt: hi")); err != nil || stop != acp.StopReasonCancelled {
				t.Errorf("the turn ends with %q, %v", stop, err)
			}
			<-s.client.asked
			s.client.setChoice(chosen("allow"))
			if stop, err := s.prompt(id, acp.TextBlock("say next")); err != nil || stop != acp.StopReasonEndTurn || s.client.text() != "next" {
				t.Errorf("the next turn ends with %q, %v and the text %q", stop, err, s.client.text())
			}
			select {
			case r := <-s.client.asked:
				t.Errorf("the agent asks again: %+v", r)
			default:
			}
			if files, err := os.ReadDir(s.dir); err != nil || len(files) > 0 {
				t.Errorf("the directory has %v, %v", files, err)
			}
			if results := s.client.results(); len(results) != 1 || !strings.Contains(results[0], "rejected") {
				t.Errorf("the client received the results %q", results)
			}
		})
	}
}

// TestTruncatedAnswer checks that the stop reason reports a model's limit.
func TestTruncatedAnswer(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), limited{offline.New()})
	id := s.open()
	for text, want := range map[string]acp.StopReason{"say hi": acp.StopReasonEndTurn, "say what is too long for it": acp.StopReasonMaxTokens} {
		if stop, err := s.prompt(id, acp.TextBlock(text)); err != nil || stop != want {
			t.Errorf("%q ends with %q, %v, want %q", text, stop, err, want)
		}
	}
}

// TestCloseCancelsTurn closes a session during a turn. The server cancels the turn, and the
// client can open the session again.
func TestCloseCancelsTurn(t *testing.T) {
	generating := make(chan struct{})
	s := serve(t, memory.New(time.Now), t.TempDir(), slow{offline.New(), generating})
	id := s.open()
	ended := make(chan acp.StopReason, 1)
	go func() {
		stop, err := s.prompt(id, acp.TextBlock("write a.txt: one"))
		if err != nil {
			t.Error(err)
		}
		ended <- stop
	}()
	<-generating
	if _, err := s.CloseSession(t.Context(), acp.CloseSessionRequest{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	if stop := <-ended; stop != acp.StopReasonCancelled {
		t.Errorf("the turn ends with %q", stop)
	}
	var e *acp.RequestError
	if _, err := s.prompt(id, acp.TextBlock("say hi")); !errors.As(err, &e) || e.Code != -32002 {
		t.Errorf("the prompt of a closed session: %v", err)
	}
	s.load(id)
	if _, _, messages := s.turns(id, "say hi"); len(messages) != 1 || messages[0].text != "hi" {
		t.Errorf("opened again, the agent sends %q", messages)
	}
}

// TestDisconnectEndsTurn disconnects the client while the model generates an answer. The
// server ends, and keeps the results so far.
func TestDisconnectEndsTurn(t *testing.T) {
	store := memory.New(time.Now)
	generating := make(chan struct{})
	s := serve(t, store, t.TempDir(), slow{offline.New(), generating})
	id := s.open()
	ended := make(chan error, 1)
	go func() {
		r, err := s.Prompt(context.WithoutCancel(t.Context()), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock("write a.txt: one\nsay done")}})
		if err == nil && r.StopReason == acp.StopReasonEndTurn {
			err = errors.New("the answer reports the end of the turn")
		} else {
			err = nil
		}
		ended <- err
	}()
	<-generating
	if err := s.disconnect(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again := serve(t, store, s.dir, offline.New())
	if _, err := again.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: id, Cwd: s.dir}); err != nil {
		t.Fatal(err)
	}
	if stop, err := again.prompt(id, acp.TextBlock("/continue")); err != nil || stop != acp.StopReasonEndTurn || !strings.Contains(again.client.text(), "wrote a.txt") {
		t.Errorf("the turn ends with %q, %v and the text %q", stop, err, again.client.text())
	}
}
