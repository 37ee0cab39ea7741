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
	"github.com/dalsegno/segno/internal/acpagent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noChoice() acp.RequestPermissionOutcome {
	return acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{}}
}

// client is an editor that answers every question the same way.
type client struct {
	acp.Client // methods that are not here are never called
	asked      chan acp.RequestPermissionRequest

	mu     sync.Mutex
	manner manner
	said   strings.Builder
	result []string         // of calls
	calls  []acp.ToolCallId // announced
	ended  []acp.ToolCallId // that have a result
	spoken []message
}

// manner is how a client answers a question.
type manner struct {
	answer acp.RequestPermissionOutcome
	silent bool         // it answers nothing
	cancel func() error // called first
}

// chosen is the answer with an option.
func chosen(option acp.PermissionOptionId) manner {
	return manner{answer: acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{OptionId: option}}}
}

// message is one of the agent's, as its id tells it from others.
type message struct{ id, text string }

func (c *client) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := n.Update.AgentMessageChunk; m != nil && m.Content.Text != nil {
		c.said.WriteString(m.Content.Text.Text)
		if id := m.MessageId; id != nil && (len(c.spoken) == 0 || c.spoken[len(c.spoken)-1].id != *id) {
			c.spoken = append(c.spoken, message{id: *id})
		}
		if m.MessageId != nil {
			c.spoken[len(c.spoken)-1].text += m.Content.Text.Text
		}
	}
	if u := n.Update.ToolCall; u != nil {
		c.calls = append(c.calls, u.ToolCallId)
	}
	if u := n.Update.ToolCallUpdate; u != nil && u.RawOutput != nil {
		c.result = append(c.result, fmt.Sprint(u.RawOutput))
		c.ended = append(c.ended, u.ToolCallId)
	}
	return nil
}

func (c *client) RequestPermission(ctx context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	c.mu.Lock()
	how := c.manner
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

// answers has the client answer so from now on.
func (c *client) answers(how manner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.manner = how
}

func (c *client) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

func (c *client) results() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.result)
}

// took returns the ids of the calls and the messages heard, and forgets them.
func (c *client) took() (calls, ended []acp.ToolCallId, spoken []message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, ended, spoken = c.calls, c.ended, c.spoken
	c.calls, c.ended, c.spoken = nil, nil, nil
	return calls, ended, spoken
}

// served is a client and the server it talks to, in this process.
type served struct {
	*testing.T
	*acp.ClientSideConnection
	client *client
	dir    string
	raw    io.Writer    // to the server, beside the connection
	hangUp func() error // and wait until the server has ended
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
		manner: manner{answer: noChoice()}}}
	s.ClientSideConnection = acp.NewClientSideConnection(s.client, toAgent, fromAgent)
	s.SetLogger(slog.New(slog.DiscardHandler))
	s.hangUp = sync.OnceValue(func() error {
		toAgent.Close()
		err := <-done
		<-s.Done()
		return err
	})
	t.Cleanup(func() { _ = s.hangUp() })
	r, err := s.Initialize(t.Context(), acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber})
	if err != nil || !r.AgentCapabilities.LoadSession || r.AgentInfo.Name != "segno" {
		t.Fatalf("it begins with %+v, %v", r, err)
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

func (s *served) say(id acp.SessionId, blocks ...acp.ContentBlock) (acp.StopReason, error) {
	s.Helper()
	r, err := s.Prompt(s.Context(), acp.PromptRequest{SessionId: id, Prompt: blocks})
	return r.StopReason, err
}

func TestWhatCannotBeMeantIsAnError(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
	id := s.open()
	load := func(id acp.SessionId) error {
		_, err := s.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}})
		return err
	}
	_, unknown := s.say("nosuch", acp.TextBlock("say hi"))
	_, image := s.say(id, acp.ImageBlock("not base64!", "image/png"))
	_, audio := s.say(id, acp.AudioBlock("AAAA", "audio/wav"))
	_, mode := s.SetSessionMode(t.Context(), acp.SetSessionModeRequest{SessionId: id, ModeId: "x"})
	for name, c := range map[string]struct {
		err  error
		code int
	}{"a session that is not open": {unknown, -32002}, "one that is not there": {load("nosuch"), -32002}, "no session": {load(""), -32602},
		"a bad image": {image, -32602}, "sound": {audio, -32602}, "a mode": {mode, -32601}} {
		var e *acp.RequestError
		if !errors.As(c.err, &e) || e.Code != c.code {
			t.Errorf("%s: %v, want code %d", name, c.err, c.code)
		}
	}
	if stop, err := s.say(id, acp.TextBlock("say hi")); err != nil || stop != acp.StopReasonEndTurn || s.client.text() != "hi" {
		t.Errorf("then it says %q, %q, %v", s.client.text(), stop, err)
	}
}

// TestAQuestionOutlivesTheEditor has the editor go away without an answer: the next one
// is asked.
func TestAQuestionOutlivesTheEditor(t *testing.T) {
	store := memory.New(time.Now)
	s := serve(t, store, t.TempDir(), offline.New())
	s.client.answers(manner{silent: true})
	id := s.open()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Prompt(context.WithoutCancel(t.Context()), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock("run echo one")}})
		ended <- err
	}()
	first := <-s.client.asked
	if err := s.hangUp(); err != nil {
		t.Fatal(err)
	}
	<-ended
	again := serve(t, store, s.dir, offline.New())
	again.client.answers(chosen("reject"))
	if _, err := again.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: id, Cwd: s.dir}); err != nil {
		t.Fatal(err)
	}
	if stop, err := again.say(id, acp.TextBlock("say hi")); err != nil || stop != acp.StopReasonEndTurn {
		t.Errorf("it ends with %q, %v", stop, err)
	}
	if text := again.client.text(); !strings.Contains(text, "rejected") || !strings.HasSuffix(text, "hi") {
		t.Errorf("it says %q", text)
	}
	for _, asked := range []acp.RequestPermissionRequest{first, <-again.client.asked} {
		if *asked.ToolCall.Title != "execute echo one" || *asked.ToolCall.Kind != acp.ToolKindExecute || len(asked.Options) != 2 {
			t.Errorf("it asks %+v", asked)
		}
	}
}

// TestACancelWhileLeaveIsAskedRejectsTheCall: what a person stopped is not asked again,
// nor done.
func TestACancelWhileLeaveIsAskedRejectsTheCall(t *testing.T) {
	for name, c := range map[string]struct{ cancel, silent bool }{
		"with the answer that it is": {cancel: true}, "without an answer": {cancel: true, silent: true}, "as the answer alone": {}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, memory.New(time.Now), t.TempDir(), offline.New())
			id, how := s.open(), manner{answer: noChoice(), silent: c.silent}
			if c.cancel {
				how.cancel = func() error { return s.Cancel(t.Context(), acp.CancelNotification{SessionId: id}) }
			}
			s.client.answers(how)
			if stop, err := s.say(id, acp.TextBlock("run echo hi > c.txt\nwrite d.txt: hi")); err != nil || stop != acp.StopReasonCancelled {
				t.Errorf("it ends with %q, %v", stop, err)
			}
			<-s.client.asked
			s.client.answers(chosen("allow"))
			if stop, err := s.say(id, acp.TextBlock("say next")); err != nil || stop != acp.StopReasonEndTurn || s.client.text() != "next" {
				t.Errorf("then it ends with %q, %v and says %q", stop, err, s.client.text())
			}
			select {
			case r := <-s.client.asked:
				t.Errorf("it asks again: %+v", r)
			default:
			}
			if files, err := os.ReadDir(s.dir); err != nil || len(files) > 0 {
				t.Errorf("the directory has %v, %v", files, err)
			}
			if results := s.client.results(); len(results) != 1 || !strings.Contains(results[0], "rejected") {
				t.Errorf("of the call it hears %q", results)
			}
		})
	}
}

func TestAnAnswerThatWasCutShortSaysSo(t *testing.T) {
	s := serve(t, memory.New(time.Now), t.TempDir(), brief{offline.New()})
	id := s.open()
	for text, want := range map[string]acp.StopReason{"say hi": acp.StopReasonEndTurn, "say what is too long for it": acp.StopReasonMaxTokens} {
		if stop, err := s.say(id, acp.TextBlock(text)); err != nil || stop != want {
			t.Errorf("%q ends with %q, %v, want %q", text, stop, err, want)
		}
	}
}

// TestClosingASessionCancelsIt: what runs in it ends, and is there when it is opened again.
func TestClosingASessionCancelsIt(t *testing.T) {
	thinking := make(chan struct{})
	s := serve(t, memory.New(time.Now), t.TempDir(), slow{offline.New(), thinking})
	id := s.open()
	ended := make(chan acp.StopReason, 1)
	go func() {
		stop, err := s.say(id, acp.TextBlock("write a.txt: one"))
		if err != nil {
			t.Error(err)
		}
		ended <- stop
	}()
	<-thinking
	if _, err := s.CloseSession(t.Context(), acp.CloseSessionRequest{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	if stop := <-ended; stop != acp.StopReasonCancelled {
		t.Errorf("it ends with %q", stop)
	}
	var e *acp.RequestError
	if _, err := s.say(id, acp.TextBlock("say hi")); !errors.As(err, &e) || e.Code != -32002 {
		t.Errorf("closed, it says %v", err)
	}
	s.load(id)
	if _, _, said := s.talk(id, "say hi"); len(said) != 1 || said[0].text != "hi" {
		t.Errorf("then it says %q", said)
	}
}

// TestAnEditorThatGoesAwayEndsTheRun has the editor hang up while the model thinks:
// the server ends, and the earlier results are there.
func TestAnEditorThatGoesAwayEndsTheRun(t *testing.T) {
	store := memory.New(time.Now)
	thinking := make(chan struct{})
	s := serve(t, store, t.TempDir(), slow{offline.New(), thinking})
	id := s.open()
	ended := make(chan error, 1)
	go func() {
		r, err := s.Prompt(context.WithoutCancel(t.Context()), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock("write a.txt: one\nsay done")}})
		if err == nil && r.StopReason == acp.StopReasonEndTurn {
			err = errors.New("the turn is said to be over")
		} else {
			err = nil
		}
		ended <- err
	}()
	<-thinking
	if err := s.hangUp(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again := serve(t, store, s.dir, offline.New())
	if _, err := again.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: id, Cwd: s.dir}); err != nil {
		t.Fatal(err)
	}
	if stop, err := again.say(id, acp.TextBlock("/continue")); err != nil || stop != acp.StopReasonEndTurn || !strings.Contains(again.client.text(), "wrote a.txt") {
		t.Errorf("it ends with %q, %v and says %q", stop, err, again.client.text())
	}
}
