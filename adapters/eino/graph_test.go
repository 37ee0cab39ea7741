package segnoeino_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/dalsegno/segno"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
)

// scriptedModel answers with a call of the tool mail, and with a text once it has the result.
type scriptedModel struct{ calls int }

func (m *scriptedModel) answer(in []*schema.Message) *schema.Message {
	m.calls++
	if last := in[len(in)-1]; last.Role == schema.Tool {
		return &schema.Message{Role: schema.Assistant, Content: "done: " + last.Content, ResponseMeta: &schema.ResponseMeta{Usage: &schema.TokenUsage{PromptTokens: 7, CompletionTokens: 2}}}
	}
	return schema.AssistantMessage("I send it.", []schema.ToolCall{{ID: "call-1", Type: "function", Function: schema.FunctionCall{Name: "mail", Arguments: `{"to":"bob"}`}}})
}

func (m *scriptedModel) Generate(_ context.Context, in []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	return m.answer(in), nil
}

func (m *scriptedModel) Stream(_ context.Context, in []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	all := m.answer(in)
	first := &schema.Message{Role: all.Role, Content: all.Content[:2]}
	all.Content = all.Content[2:]
	return schema.StreamReaderFromArray([]*schema.Message{first, all}), nil
}

// mail is a tool that counts its calls.
type mail struct{ sent int }

func (t *mail) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: "mail", Desc: "sends a mail"}, nil
}

func (t *mail) InvokableRun(_ context.Context, args string, _ ...tool.Option) (string, error) {
	t.sent++
	return "sent " + args, nil
}

// conversation is the state of an agent's graph.
type conversation struct{ Messages []*schema.Message }

func init() { schema.RegisterName[*conversation]("segnoeino_test_conversation") }

// newAgentGraph returns a graph of a model and its tools, as an agent has it.
func newAgentGraph(t *testing.T, c *segnoeino.Checkpoints, m model.BaseChatModel, tools *mail) compose.Runnable[[]*schema.Message, *schema.Message] {
	t.Helper()
	ctx := t.Context()
	g := compose.NewGraph[[]*schema.Message, *schema.Message](compose.WithGenLocalState(func(context.Context) *conversation { return &conversation{} }))
	node, err := compose.NewToolNode(ctx, &compose.ToolsNodeConfig{Tools: []tool.BaseTool{tools}, ToolCallMiddlewares: []compose.ToolMiddleware{segnoeino.OnceTools()}})
	if err != nil {
		t.Fatal(err)
	}
	remember := func(_ context.Context, in []*schema.Message, s *conversation) ([]*schema.Message, error) {
		s.Messages = append(s.Messages, in...)
		return s.Messages, nil
	}
	answer := func(_ context.Context, out *schema.Message, s *conversation) (*schema.Message, error) {
		s.Messages = append(s.Messages, out)
		return out, nil
	}
	hasCalls := func(_ context.Context, m *schema.Message) (string, error) {
		if len(m.ToolCalls) > 0 {
			return "tools", nil
		}
		return compose.END, nil
	}
	err = errors.Join(g.AddChatModelNode("model", m, compose.WithStatePreHandler(remember), compose.WithStatePostHandler(answer)), g.AddToolsNode("tools", node),
		g.AddEdge(compose.START, "model"), g.AddBranch("model", compose.NewGraphBranch(hasCalls, map[string]bool{"tools": true, compose.END: true})), g.AddEdge("tools", "model"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Compile(ctx, compose.WithCheckPointStore(c))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantTurn checks the newest turn of a thread as a reader sees it.
func wantTurn(t *testing.T, store segno.Store, thread segno.ThreadID, want string) {
	t.Helper()
	head, err := store.Head(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	line, err := store.Load(t.Context(), head.Head, segno.Window{Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	last := line.Commits[len(line.Commits)-1].Checkpoint
	turn := turns.Read(line.Commits, last)
	all := []string{turn.Prompt}
	for _, it := range turn.Items {
		if it.Call != nil {
			all = append(all, fmt.Sprintf("%s %s: %s", it.Call.Tool, it.Call.Input, it.Call.Result))
		} else {
			all = append(all, it.Text)
		}
	}
	if got := strings.Join(all, "\n"); got != want || last.Kind != segno.CheckpointTurn {
		t.Errorf("the turn is\n%s\nwant\n%s\n%+v", got, want, last)
	}
}

const agentTurn = `mail bob
I send it.
mail {"to":"bob"}: sent {"to":"bob"}
done: sent {"to":"bob"}`

func TestAgentIsShownAsAConversation(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	c, m, tools := segnoeino.New(store), &scriptedModel{}, &mail{}
	r := newAgentGraph(t, c, m, tools)
	in := []*schema.Message{schema.UserMessage("mail bob")}
	out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "a"}, in)
	if err != nil || out.Content != `done: sent {"to":"bob"}` || m.calls != 2 || tools.sent != 1 {
		t.Fatalf("%v, %v, %d calls of the model, %d of the tool", out, err, m.calls, tools.sent)
	}
	wantTurn(t, store, "a", agentTurn)

	// The conversation can continue in another agent.
	head, err := store.Head(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	tl, err := agent.OpenTimeline(t.Context(), store, t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := tl.PlanContinue(t.Context(), timeline.ContinueRequest{Thread: "a", At: head.Head, Agent: chat.Name, Own: chat.Name, Messages: chat.ConversationBetween(store)})
	if err != nil || len(plan.Conversation.Messages) != 4 || plan.From[0] != "eino" {
		t.Errorf("%+v, %v", plan, err)
	}

	stream, err := segnoeino.Stream(t.Context(), c, r, segnoeino.Call{Thread: "b"}, in)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text += chunk.Content
	}
	if text != out.Content || m.calls != 4 || tools.sent != 2 {
		t.Fatalf("%q, %d calls of the model, %d of the tool", text, m.calls, tools.sent)
	}
	wantTurn(t, store, "b", agentTurn)
}

// chain returns a graph of lambdas with string values.
func chain(t *testing.T, c *segnoeino.Checkpoints, names []string, run func(ctx context.Context, node, in string) (string, error), opts ...compose.GraphCompileOption) compose.Runnable[string, string] {
	t.Helper()
	g := compose.NewChain[string, string]()
	for _, name := range names {
		g.AppendLambda(compose.InvokableLambda(func(ctx context.Context, in string) (string, error) { return run(ctx, name, in) }), compose.WithNodeKey(name))
	}
	r, err := g.Compile(t.Context(), append(opts, compose.WithCheckPointStore(c))...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Nodes at which the graph was compiled to be interrupted interrupt the run, and other nodes do not.
func TestInterruptsOfTheGraphAreTheCallers(t *testing.T) {
	c, ran := newCheckpoints(t), ""
	r := chain(t, c, []string{"a", "b", "c", "d"}, func(_ context.Context, node, in string) (string, error) { ran += node; return in + node, nil },
		compose.WithInterruptAfterNodes([]string{"b"}), compose.WithInterruptBeforeNodes([]string{"d"}))
	call := segnoeino.Call{Thread: "t"}
	for _, want := range []string{"ab", "abc"} {
		_, err := segnoeino.Invoke(t.Context(), c, r, call, "x")
		if _, ok := compose.ExtractInterruptInfo(err); !ok || ran != want {
			t.Fatalf("%q ran: %v", ran, err)
		}
	}
	out, err := segnoeino.Invoke(t.Context(), c, r, call, "x")
	if err != nil || out != "xabcd" || ran != "abcd" {
		t.Fatalf("%q, %v; %q ran", out, err, ran)
	}
	if out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "u"}, "y"); out != "" || err == nil {
		t.Fatalf("another thread: %q, %v", out, err)
	}
}

// A failed node runs again, and the nodes before it do not.
func TestAFailedRunContinues(t *testing.T) {
	c, ran, fails := newCheckpoints(t), "", true
	r := chain(t, c, []string{"a", "b", "c"}, func(_ context.Context, node, in string) (string, error) {
		ran += node
		if node == "b" && fails {
			return "", errors.New("no connection")
		}
		return in + node, nil
	})
	if _, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x"); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Fatal(err)
	}
	fails = false
	if out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x"); err != nil || out != "xabc" || ran != "abbc" {
		t.Fatalf("%q, %v; %q ran", out, err, ran)
	}
	// The run is complete, so the same thread begins a new one, unless the call has the key of the newest run.
	if out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t", Key: "k"}, "y"); err != nil || out != "yabc" {
		t.Fatalf("%q, %v", out, err)
	}
	ran = ""
	for range 2 {
		if out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t", Key: "k"}, "y"); err != nil || out != "yabc" || ran != "" {
			t.Fatalf("%q, %v; %q ran", out, err, ran)
		}
	}
	if out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t", Key: "l"}, "z"); err != nil || out != "zabc" {
		t.Fatalf("%q, %v", out, err)
	}
}

// Another run of the thread, and another writer, stop a run before its next node.
func TestOneRunHasAThread(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	c, other, ran := segnoeino.New(store), segnoeino.New(store), ""
	var r compose.Runnable[string, string]
	r = chain(t, c, []string{"a", "b"}, func(ctx context.Context, node, in string) (string, error) {
		ran += node
		if _, err := segnoeino.Invoke(t.Context(), other, r, segnoeino.Call{Thread: "t"}, "x"); segno.KindOf(err) != segno.KindBusy {
			t.Errorf("a second run: %v", err)
		}
		_, _, err := other.Get(t.Context(), "t")
		return in, errors.Join(err, other.Set(t.Context(), "t", []byte("changed")))
	})
	_, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x")
	if kind := segno.KindOf(err); kind != segno.KindConflict && kind != segno.KindFenced || ran != "a" {
		t.Fatalf("%v; %q ran", err, ran)
	}
}

// failing is a tool that fails until it is repaired.
type failing struct {
	mail
	isBroken bool
}

func (t *failing) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: "failing", Desc: "fails"}, nil
}

func (t *failing) InvokableRun(ctx context.Context, args string, opts ...tool.Option) (string, error) {
	if t.isBroken {
		return "", errors.New("broken")
	}
	return t.mail.InvokableRun(ctx, args, opts...)
}

// One of two tools of a step fails, after the other one ended. With OnceTools, that one does not run again; without, the next
// run reports it.
func TestAToolThatEndedIsNotRepeated(t *testing.T) {
	for _, isOnce := range []bool{true, false} {
		c, sends, fails := newCheckpoints(t), &mail{}, &failing{isBroken: true}
		config := &compose.ToolsNodeConfig{Tools: []tool.BaseTool{sends, fails}, ExecuteSequentially: true}
		if isOnce {
			config.ToolCallMiddlewares = []compose.ToolMiddleware{segnoeino.OnceTools()}
		}
		node, err := compose.NewToolNode(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		r, err := compose.NewChain[*schema.Message, []*schema.Message]().AppendToolsNode(node).Compile(t.Context(), compose.WithCheckPointStore(c))
		if err != nil {
			t.Fatal(err)
		}
		in := schema.AssistantMessage("", []schema.ToolCall{{ID: "1", Function: schema.FunctionCall{Name: "mail", Arguments: "{}"}}, {ID: "2", Function: schema.FunctionCall{Name: "failing", Arguments: "{}"}}})
		if _, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, in); err == nil || sends.sent != 1 {
			t.Fatalf("%d, %v", sends.sent, err)
		}
		fails.isBroken = false
		out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, in)
		var lost *segnoeino.LostError
		switch {
		case isOnce && (err != nil || len(out) != 2 || out[0].Content != "sent {}"):
			t.Errorf("%v, %v", out, err)
		case !isOnce && (!errors.As(err, &lost) || len(lost.Nodes) != 1 || lost.Nodes[0] != segnoeino.LostNode{Node: "mail", Ended: true}):
			t.Errorf("the error without OnceTools is %v", err)
		}
		if sends.sent != 1 {
			t.Errorf("OnceTools %v: the tool ran %d times", isOnce, sends.sent)
		}
	}
}

type (
	order struct {
		Item  string
		Count int
		Note  *string
		Parts []order
	}
	secretive struct {
		Item  string
		cache int
	}
	stranger struct{ Item string }
	custom   struct{ t time.Time }
)

func (c custom) MarshalJSON() ([]byte, error)  { return c.t.MarshalJSON() }
func (c *custom) UnmarshalJSON(b []byte) error { return c.t.UnmarshalJSON(b) }

func init() {
	schema.RegisterName[order]("segnoeino_test_order")
	schema.RegisterName[secretive]("segnoeino_test_secretive")
	schema.RegisterName[custom]("segnoeino_test_custom")
	schema.RegisterName[func()]("segnoeino_test_func")
}

// passed returns the value that the node after a node that returns v receives.
func passed(t *testing.T, v any) (got any, err error) {
	t.Helper()
	c := newCheckpoints(t)
	g := compose.NewGraph[string, string]()
	first := compose.InvokableLambda(func(context.Context, string) (any, error) { return v, nil })
	second := compose.InvokableLambda(func(_ context.Context, in any) (string, error) { got = in; return "", nil })
	if err := errors.Join(g.AddLambdaNode("first", first), g.AddLambdaNode("second", second), g.AddEdge(compose.START, "first"), g.AddEdge("first", "second"), g.AddEdge("second", compose.END)); err != nil {
		t.Fatal(err)
	}
	r, err := g.Compile(t.Context(), compose.WithCheckPointStore(c))
	if err != nil {
		t.Fatal(err)
	}
	_, err = segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x")
	return got, err
}

// A value arrives at the next step as it was, or the error names its type.
func TestValuesSurviveAStep(t *testing.T) {
	note, loop := "note", &order{}
	loop.Parts = []order{{Parts: []order{{}}}}
	list, table := []string{"a"}, map[string]int{"a": 1}
	for _, v := range []any{"text", 1, int8(-8), uint64(1) << 63, int64(1)<<62 + 1, 1.5, float32(0.1), true, []byte{0, 255}, []string{"a", ""}, map[string]any{"a": 1, "b": []any{"c", nil}},
		map[int]string{1: "a"}, order{Item: "a", Note: &note, Parts: []order{{Count: 2}}}, &order{Item: "a"}, loop, []*order{{Item: "a"}}, custom{time.Unix(1, 2).UTC()}, &custom{time.Unix(1, 2).UTC()},
		schema.UserMessage("hi"), []*schema.Message{schema.AssistantMessage("", []schema.ToolCall{{ID: "1", Function: schema.FunctionCall{Name: "f", Arguments: "{}"}}})},
		&schema.Document{ID: "d", Content: "text", MetaData: map[string]any{"score": 0.5}}, "<&>\u2028\x00"} {
		if got, err := passed(t, v); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%T %v becomes %T %v: %v", v, v, got, got, err)
		}
	}
	for want, v := range map[string]any{"stranger": stranger{"a"}, "secretive": secretive{"a", 1}, "*[]string": &list, "*map[string]int": &table, "func()": func() {}, "[2]int": [2]int{1, 2}} {
		if _, err := passed(t, v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v", v, err)
		}
	}
}

func TestMessagesThereAndBack(t *testing.T) {
	for _, m := range []*schema.Message{schema.UserMessage("hi"),
		{Role: schema.Assistant, Content: "text", ReasoningContent: "why", ToolCalls: []schema.ToolCall{{ID: "1", Type: "function", Function: schema.FunctionCall{Name: "f", Arguments: `{"a":1}`}}}},
		schema.ToolMessage("result", "1", schema.WithToolName("f"))} {
		if got := segnoeino.ToMessages(segnoeino.FromMessage(m)); len(got) != 1 || !reflect.DeepEqual(got[0], m) {
			t.Errorf("%+v becomes %+v", m, got)
		}
	}
	bad := segnoeino.FromMessage(schema.AssistantMessage("", []schema.ToolCall{{ID: "1", Function: schema.FunctionCall{Name: "f", Arguments: `{"a`}}}))
	if args := string(bad.Parts[0].Call.Args); args != `"{\"a"` || bad.Role != agent.Assistant {
		t.Errorf("malformed arguments become %s", args)
	}
}

// onceTools returns a graph that runs the calls of a message with [segnoeino.OnceTools].
func onceTools(t *testing.T, c *segnoeino.Checkpoints, isSequential bool, tools ...tool.BaseTool) compose.Runnable[*schema.Message, []*schema.Message] {
	t.Helper()
	config := &compose.ToolsNodeConfig{Tools: tools, ExecuteSequentially: isSequential, ToolCallMiddlewares: []compose.ToolMiddleware{segnoeino.OnceTools()}}
	node, err := compose.NewToolNode(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compose.NewChain[*schema.Message, []*schema.Message]().AppendToolsNode(node).Compile(t.Context(), compose.WithCheckPointStore(c))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A model gives two calls of one message the same id, or none. One tool ended before the step was interrupted. It does not run
// again silently, and no call gets the result of the other one.
func TestCallsWithoutTheirOwnIDs(t *testing.T) {
	for _, id := range []string{"", "1"} {
		c, sends, fails := newCheckpoints(t), &mail{}, &failing{isBroken: true}
		r := onceTools(t, c, true, sends, fails)
		in := schema.AssistantMessage("", []schema.ToolCall{{ID: id, Function: schema.FunctionCall{Name: "mail", Arguments: `{"to":"bob"}`}},
			{ID: id, Function: schema.FunctionCall{Name: "failing", Arguments: `{"to":"eve"}`}}})
		if _, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, in); err == nil || sends.sent != 1 {
			t.Fatalf("%d, %v", sends.sent, err)
		}
		fails.isBroken = false
		out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, in)
		var lost *segnoeino.LostError
		isRight := err == nil && len(out) == 2 && out[0].Content == `sent {"to":"bob"}` && out[1].Content == `sent {"to":"eve"}`
		if sends.sent != 1 || !isRight && !errors.As(err, &lost) {
			t.Errorf("id %q: the tool ran %d times: %v, %v", id, sends.sent, out, err)
		}
	}
}

// Two calls with one id run at the same time, and one of them ends. In the next run neither call gets the result of the other one,
// and the call that ended does not run again.
func TestCallsWithOneID(t *testing.T) {
	calls := []schema.ToolCall{{ID: "1", Function: schema.FunctionCall{Name: "failing", Arguments: "{}"}}, {ID: "1", Function: schema.FunctionCall{Name: "mail", Arguments: "{}"}}}
	c, sends, fails := newCheckpoints(t), &mail{}, &failing{isBroken: true}
	for _, isSequential := range []bool{false, true} {
		r := onceTools(t, c, isSequential, sends, fails)
		out, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, schema.AssistantMessage("", calls))
		fails.isBroken = false
		var lost *segnoeino.LostError
		if isSequential && !errors.As(err, &lost) && (err != nil || fails.sent != 1) || sends.sent != 1 {
			t.Errorf("sequential %v: mail ran %d times and failing %d times: %v, %v", isSequential, sends.sent, fails.sent, out, err)
		}
	}
}
