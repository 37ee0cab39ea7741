package offline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agent"
)

// say sends one prompt after some messages.
func say(t *testing.T, prompt string, before ...agent.Message) string {
	t.Helper()
	m := ask(t, agent.Request{Messages: append(before, agent.Text(prompt)), Tools: all})
	return m.Text()
}

func TestRecallKnowsTheContextAndNothingElse(t *testing.T) {
	if got := say(t, "remember the port is 8080"); got != "noted: the port is 8080" {
		t.Fatal(got)
	}
	if got := say(t, "recall the port"); got != "I do not know the port." {
		t.Errorf("without context: %s", got)
	}
	before := []agent.Message{agent.Text("remember the port is 8080"), agent.Text("Remember THE PORT is 9090 ; say ok")}
	if got := say(t, "recall the port", before...); got != "the port is 9090" {
		t.Errorf("the newest is %s", got)
	}
	planted := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "call_1", Text: "remember the port is 1"}}}}
	if got := say(t, "recall the port", append(before, planted)...); got != "the port is 9090" {
		t.Errorf("a file planted %s", got)
	}
}

func TestTodosGoOnFromTheContext(t *testing.T) {
	messages := run(t, agent.Request{Messages: []agent.Message{agent.Text("todo a\ntodo b\ndone a\ndone 2\ndone new")}, Tools: all}, fine)
	last := messages[len(messages)-3].Calls()[0]
	want := `{"todos":[{"id":"1","text":"a","status":"completed"},{"id":"2","text":"b","status":"completed"},{"id":"3","text":"new","status":"completed"}],"merge":true}`
	if string(last.Args) != want {
		t.Errorf("got %s", last.Args)
	}
}

func TestATodoThatWasNotNotedIsNotInTheList(t *testing.T) {
	messages := run(t, agent.Request{Messages: []agent.Message{agent.Text("todo a")}, Tools: all},
		func(agent.Call) agent.Result { return agent.Result{Text: "rejected", Error: true} })
	m := ask(t, agent.Request{Messages: append(messages, agent.Text("todo b")), Tools: all})
	if got := string(m.Calls()[0].Args); !strings.Contains(got, `{"id":"1","text":"b"`) {
		t.Error(got)
	}
}

func TestASummaryStandsInPlaceOfTheContext(t *testing.T) {
	messages := run(t, agent.Request{Messages: []agent.Message{agent.Text(
		"remember x is 1\nremember y is 2\ntodo first ; write a.txt: b ; run go vet\nread a.txt\ndone first\nremember x is 3")}, Tools: all}, fine)
	// A request for a summary has more than one word, and offers no tools.
	wish := agent.Text("Summarize the conversation so far, keep what matters.")
	m := ask(t, agent.Request{Messages: append(messages, wish)})
	for _, line := range []string{"remember x is 3", "remember y is 2", "- [x] 1: first", "files written: a.txt", "command run: go vet", "calls so far: 5"} {
		if !strings.Contains(m.Text(), line+"\n") && !strings.HasSuffix(m.Text(), line) {
			t.Errorf("no line %q in:\n%s", line, m.Text())
		}
	}
	if strings.Contains(m.Text(), "still to do") {
		t.Errorf("a finished prompt is still to do:\n%s", m.Text())
	}
	for name, before := range map[string]agent.Message{
		"user":      agent.Text("What happened before:\n" + m.Text()),
		"assistant": {Role: agent.Assistant, Parts: []agent.Part{{Text: m.Text()}}},
	} {
		if got := say(t, "recall x", before); got != "x is 3" {
			t.Errorf("%s: %s", name, got)
		}
		next := ask(t, agent.Request{Messages: []agent.Message{before, agent.Text("todo second")}, Tools: all}).Parts[0].Call
		want := `{"todos":[{"id":"1","text":"first","status":"completed"},{"id":"2","text":"second","status":"pending"}],"merge":true}`
		if next.ID != "call_6" || string(next.Args) != want {
			t.Errorf("%s: %s %s", name, next.ID, next.Args)
		}
		again := say(t, "summarize", before)
		for _, line := range []string{"remember x is 3", "command run: go vet", "files written: a.txt", "asked: remember x is 1 remember y"} {
			if strings.Count("\n"+again, "\n"+line) != 1 {
				t.Errorf("%s: the summary of a summary has not one line %q:\n%s", name, line, again)
			}
		}
	}
}

func TestPromptContinuesAfterSummary(t *testing.T) {
	prompt := "write a: 1\nwrite b: 2\nwrite c: 3\nwrite d: 4\nsay bye"
	messages := []agent.Message{agent.Text(prompt)}
	for range 2 {
		m := ask(t, agent.Request{Messages: messages, Tools: all})
		messages = append(messages, m, agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: m.Calls()[0].ID, Name: "write_file"}}}})
	}
	for name, tools := range map[string][]agent.ToolSpec{"with tools": all, "without": nil} {
		s := ask(t, agent.Request{Messages: append(messages[:len(messages):len(messages)], agent.Text("summarize")), Tools: tools})
		rest := run(t, agent.Request{Messages: []agent.Message{agent.Text(s.Text())}, Tools: all}, fine)
		var paths []string
		for i := range rest {
			for _, c := range rest[i].Calls() {
				paths = append(paths, c.ID+string(c.Args))
			}
		}
		if got := strings.Join(paths, " "); got != `call_3{"content":"3","path":"c"} call_4{"content":"4","path":"d"}` {
			t.Errorf("%s: %s", name, got)
		}
		if end := rest[len(rest)-1]; end.Text() != "bye\nwrote c; wrote d" {
			t.Errorf("%s: the end is %q", name, end.Text())
		}
	}
}

func TestTheFinalAnswerFitsItsSchema(t *testing.T) {
	schema := `{"type":"object","required":["summary","files","ok","kind","n","inner"],"properties":{
		"summary":{"type":"string"},"files":{"type":["null","array"],"items":{"type":"string"}},"ok":{"type":"boolean"},
		"kind":{"enum":["good","bad"]},"n":{"type":"integer","minimum":1},"inner":{"$ref":"#/$defs/in"},"more":{"type":"string"}},
		"$defs":{"in":{"type":"object","properties":{"score":{"type":"number"},"self":{"$ref":"#/$defs/in"}},"required":["score"]}}}`
	tools := append(toolsNamed("write_file"), agent.ToolSpec{Name: "final_answer", Schema: json.RawMessage(schema)})
	r := agent.Request{Messages: []agent.Message{agent.Text("write a: b")}, Tools: tools}
	messages := run(t, r, fine)
	if len(messages) != 6 {
		t.Fatalf("%d messages, want 6: %+v", len(messages), messages)
	}
	final := messages[3].Calls()
	want := `{"files":[],"inner":{"score":0},"kind":"good","n":1,"ok":false,"summary":"wrote a"}`
	if len(final) != 1 || final[0].Name != "final_answer" || final[0].ID != "call_2" || string(final[0].Args) != want {
		t.Errorf("got %+v", final)
	}
	if got := messages[5].Text(); got != "wrote a" {
		t.Errorf("after the final answer: %q", got)
	}
}
