package offline_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
)

// all are the tools that the commands need.
var all = toolsNamed("write_file", "append_file", "edit_file", "read_file", "ls", "glob", "grep", "execute", "write_todos", "task", "send_email")

func toolsNamed(names ...string) (specs []agent.ToolSpec) {
	for _, n := range names {
		specs = append(specs, agent.ToolSpec{Name: n, Schema: json.RawMessage(`{"type":"object"}`)})
	}
	return specs
}

// ask collects one answer and checks that its pieces add up to the whole.
func ask(t *testing.T, r agent.Request) agent.Message {
	t.Helper()
	var text, thinking strings.Builder
	var reply *agent.Reply
	for c, err := range offline.New().Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if reply != nil {
			t.Fatal("a chunk after the reply")
		}
		text.WriteString(c.Text)
		thinking.WriteString(c.Thinking)
		reply = c.Reply
	}
	if reply == nil {
		t.Fatal("no reply")
	}
	m := reply.Message
	if m.Text() != text.String() {
		t.Fatalf("the chunks say %q, the reply %q", text.String(), m.Text())
	}
	if want := map[bool]agent.Stop{true: agent.StopTools, false: agent.StopEnd}[len(m.Calls()) > 0]; reply.Stop != want {
		t.Fatalf("stop is %q, want %q", reply.Stop, want)
	}
	if reply.Usage.Input == 0 && len(r.Messages) > 0 || reply.Usage.Output == 0 {
		t.Fatalf("usage is %+v", reply.Usage)
	}
	return m
}

// run answers calls until there are none, as an agent's loop does. It returns all
// messages.
func run(t *testing.T, r agent.Request, result func(agent.Call) agent.Result) []agent.Message {
	t.Helper()
	for range 50 {
		m := ask(t, r)
		r.Messages = append(r.Messages, m)
		calls := m.Calls()
		if len(calls) == 0 {
			return r.Messages
		}
		answer := agent.Message{Role: agent.ToolRole}
		for _, c := range calls {
			res := result(c)
			res.Call, res.Name = c.ID, c.Name
			answer.Parts = append(answer.Parts, agent.Part{Result: &res})
		}
		r.Messages = append(r.Messages, answer)
	}
	t.Fatal("no end after 50 steps")
	return nil
}

func fine(agent.Call) agent.Result { return agent.Result{Text: "fine"} }

func TestCommandsBecomeCalls(t *testing.T) {
	for prompt, want := range map[string]string{
		`write a.txt: hello`:                     `call_1 write_file {"content":"hello","path":"a.txt"}`,
		`WRITE a b.txt: one\ntwo\\n`:             `call_1 write_file {"content":"one\ntwo\\n","path":"a b.txt"}`,
		`write a.txt:`:                           `call_1 write_file {"content":"","path":"a.txt"}`,
		`write a.go: x ; y`:                      `call_1 write_file {"content":"x ; y","path":"a.go"}`,
		`append log: more\n`:                     `call_1 append_file {"append":true,"content":"more\n","path":"log"}`,
		`edit a.txt: old -> new -> newer`:        `call_1 edit_file {"new":"new -> newer","old":"old","path":"a.txt"}`,
		`edit a.txt: old ->`:                     `call_1 edit_file {"new":"","old":"old","path":"a.txt"}`,
		`read a.txt`:                             `call_1 read_file {"path":"a.txt"}`,
		`ls`:                                     `call_1 ls {}`,
		`ls src/x`:                               `call_1 ls {"path":"src/x"}`,
		`glob **/*.go`:                           `call_1 glob {"pattern":"**/*.go"}`,
		`grep func main`:                         `call_1 grep {"pattern":"func main"}`,
		`grep func main in cmd`:                  `call_1 grep {"path":"cmd","pattern":"func main"}`,
		`run go test ./... && echo <ok>`:         `call_1 execute {"command":"go test ./... && echo <ok>"}`,
		`run a ; b ; read c`:                     `call_1 execute {"command":"a ; b"} | call_2 read_file {"path":"c"}`,
		`todo buy milk`:                          `call_1 write_todos {"todos":[{"id":"1","text":"buy milk","status":"pending"}],"merge":true}`,
		`todo a ; todo b ; done A`:               `call_1 write_todos {"todos":[{"id":"1","text":"a","status":"completed"},{"id":"2","text":"b","status":"pending"}],"merge":true}`,
		`task worker: write x: 1\nread x`:        `call_1 task {"agent":"worker","prompt":"write x: 1\nread x"}`,
		`call send_email {"to":"a","b":"x ; y"}`: `call_1 send_email {"to":"a","b":"x ; y"}`,
		`call send_email {"a":"x ; say y"}`:      `call_1 send_email {"a":"x ; say y"}`,
		`call send_email`:                        `call_1 send_email {}`,
		"\n  read a  \r\n\nread b":               `call_1 read_file {"path":"a"}`,
	} {
		var got []string
		m := ask(t, agent.Request{Messages: []agent.Message{agent.Text(prompt)}, Tools: all})
		for _, c := range m.Calls() {
			got = append(got, c.ID+" "+c.Name+" "+string(c.Args))
		}
		if s := strings.Join(got, " | "); s != want {
			t.Errorf("%s\n got %s\nwant %s", prompt, s, want)
		}
	}
}

func TestCommandsAreAnsweredInWords(t *testing.T) {
	for prompt, want := range map[string]string{
		`say hello there`:                  "hello there",
		`Remember the name is Ada is best`: "noted: the name is Ada is best",
		`recall the name`:                  "I do not know the name.",
		"remember x is 1\nrecall X?":       "noted: x is 1\nX is 1",
		`count`:                            "1 message",
		`call delete_all {}`:               "I have no tool delete_all.",
	} {
		if got := ask(t, agent.Request{Messages: []agent.Message{agent.Text(prompt)}, Tools: all}); got.Text() != want {
			t.Errorf("%s\n got %q\nwant %q", prompt, got.Text(), want)
		}
	}
}

func TestAPromptWithALineItDoesNotUnderstandDoesNothing(t *testing.T) {
	for _, prompt := range []string{"Create a project plan", "write a.txt: x\nand then some", "count on me", "write: x", "read", `call t {"a`, "edit a: b"} {
		m := ask(t, agent.Request{Messages: []agent.Message{agent.Text(prompt)}, Tools: all})
		if len(m.Calls()) > 0 || !strings.Contains(m.Text(), "do not understand") || !strings.Contains(m.Text(), "write F: text") {
			t.Errorf("%s: %q, calls %v", prompt, m.Text(), m.Calls())
		}
	}
	m := ask(t, agent.Request{Messages: []agent.Message{agent.Text("  ")}, Tools: toolsNamed("write_file")})
	if said := m.Text(); !strings.Contains(said, "write F: text; call") || !strings.Contains(said, "say T") || strings.Contains(said, "append") {
		t.Errorf("an empty prompt, with one tool: %q", said)
	}
}

func TestLinesAreStepsAndTheAnswerListsResults(t *testing.T) {
	long := strings.Repeat("line\n", 100)
	prompt := "think hm, well\nsay first\nwrite a.txt: x\nread b ; run go test\nremember who is Ada\ntask w: say hi\nrecall who"
	messages := run(t, agent.Request{Messages: []agent.Message{agent.Text(prompt)}, Tools: all}, func(c agent.Call) agent.Result {
		switch c.Name {
		case "read_file":
			return agent.Result{Text: "b: no such file", Error: true}
		case "execute":
			return agent.Result{Text: long + "exit 1"}
		}
		return agent.Result{Text: "fine"}
	})
	if len(messages) != 8 {
		t.Fatalf("%d messages, want 8", len(messages))
	}
	first := messages[1]
	if first.Parts[0].Thinking.Text != "hm, well" || first.Parts[1].Text != "first" || first.Calls()[0].Name != "write_file" {
		t.Errorf("the first step is %+v", first.Parts)
	}
	if got := messages[5].Text(); got != "noted: who is Ada" {
		t.Errorf("the third step says %q", got)
	}
	got := messages[7].Text()
	if !strings.HasPrefix(got, "who is Ada\nwrote a.txt; could not read b: b: no such file; ran `go test`: line line") ||
		!strings.HasSuffix(got, "line exit 1; w: fine") || len(got) > 400 {
		t.Errorf("the end says %q", got)
	}
}

func TestItCallsNoToolItWasNotOffered(t *testing.T) {
	messages := run(t, agent.Request{Messages: []agent.Message{agent.Text("run ls\nwrite a: b ; run x\nread c")}, Tools: toolsNamed("read_file", "write_file")}, fine)
	want := []string{"I have no tool execute.\nI have no tool execute.", "", "wrote a; read c: fine"}
	for i, m := range []agent.Message{messages[1], messages[3], messages[5]} {
		if m.Text() != want[i] {
			t.Errorf("answer %d is %q, want %q", i, m.Text(), want[i])
		}
	}
}

func TestCallIDsAreTheNextNumbers(t *testing.T) {
	messages := []agent.Message{agent.Text("read a ; read b\nread c")}
	messages = run(t, agent.Request{Messages: messages, Tools: all}, fine)
	messages = run(t, agent.Request{Messages: append(messages, agent.Text("read d")), Tools: all}, fine)
	var ids []string
	for i := range messages {
		for _, c := range messages[i].Calls() {
			ids = append(ids, c.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "call_1 call_2 call_3 call_4" {
		t.Error(got)
	}
}

func TestTheSameContextGetsTheSameAnswer(t *testing.T) {
	r := agent.Request{Messages: []agent.Message{agent.Text("todo a ; say x ; read b\nrecall y")}, Tools: all}
	if a, b := ask(t, r), ask(t, r); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestTheContextsEndEndsTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var text string
	var ended error
	for c, err := range offline.New().Generate(ctx, agent.Request{Messages: []agent.Message{agent.Text("say one two three")}}) {
		text += c.Text
		ended = err
		cancel()
	}
	if text != "one " || !errors.Is(ended, context.Canceled) {
		t.Errorf("%q, %v", text, ended)
	}
}

func TestALimitCutsTheText(t *testing.T) {
	for c, err := range offline.New().Generate(t.Context(), agent.Request{MaxTokens: 2, Messages: []agent.Message{agent.Text("say ééééééé")}}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Reply != nil && (c.Reply.Stop != agent.StopLength || c.Reply.Message.Text() != "éééé") {
			t.Errorf("%+v", c.Reply)
		}
	}
}
