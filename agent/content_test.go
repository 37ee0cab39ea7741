package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/saver"
)

// everyByte returns n bytes that include each byte value, in no particular order.
func everyByte(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rnd.IntN(256))
	}
	return data
}

func partsRoundTrip(r *rig) {
	image := &agent.Blob{Type: "image/png", Data: everyByte(10_000)}
	file := &agent.Blob{Type: "application/pdf", Name: "a\"b\\ü.pdf", Data: everyByte(70_001)}
	link := &agent.Blob{Type: "image/jpeg", URL: "https://example.com/a?b=c&d=<e>"}
	model := &script{}
	photo := agent.Tool{ToolSpec: agent.ToolSpec{Name: "photo", Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.Result{Text: "here", Parts: []agent.Part{{Image: image}}}, nil
		}}
	model.answer = func(n int, _ agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		if n == 1 {
			reply := calls("c1", "photo", `{"zoom": 1.0, "id": 9007199254740993, "s": "<\u0000 é>"}`)
			reply.Message.Parts = append([]agent.Part{{Thinking: &agent.Thinking{Text: "hm", Data: json.RawMessage(`{"signature":"abc=="}`)}}}, reply.Message.Parts...)
			return reply, nil
		}
		return says("I see"), nil
	}
	r.with(func(c *agent.Config) { c.Model, c.Tools = model, []agent.Tool{photo} })
	r.run(agent.Input{Prompt: "look <here> & there\x00\u2028", Parts: []agent.Part{{Image: image}, {File: file}, {Image: link}}})
	r.restart()
	r.prompt("and now?")
	asked := model.requests()
	last := asked[len(asked)-1].Messages
	if got := last[0].Parts; got[0].Text != "look <here> & there\x00\u2028" || !reflect.DeepEqual(got[1].Image, image) ||
		!reflect.DeepEqual(got[2].File, file) || !reflect.DeepEqual(got[3].Image, link) {
		r.Errorf("the prompt is now %d parts, text %q", len(got), got[0].Text)
	}
	if th := last[1].Parts[0].Thinking; th == nil || th.Text != "hm" || string(th.Data) != `{"signature":"abc=="}` {
		r.Errorf("the thinking is now %+v", th)
	}
	var before, after map[string]any
	r.ok(json.Unmarshal([]byte(`{"zoom": 1.0, "s": "<\u0000 é>"}`), &before))
	r.ok(json.Unmarshal(last[1].Calls()[0].Args, &after))
	if !strings.Contains(string(last[1].Calls()[0].Args), "9007199254740993") || after["s"] != before["s"] {
		r.Errorf("the arguments are now %s", last[1].Calls()[0].Args)
	}
	if res := last[2].Parts[0].Result; res.Text != "here" || !bytes.Equal(res.Parts[0].Image.Data, image.Data) {
		r.Errorf("the result is now %d bytes", len(res.Parts[0].Image.Data))
	}
	for i, m := range asked[1].Messages {
		if before, after := encode(r, m), encode(r, last[i]); before != after {
			r.Errorf("message %d was shown as %.300s and after the restart as %.300s", i, before, after)
		}
	}
	if before, after := string(asked[1].Messages[1].Calls()[0].Args), string(last[1].Calls()[0].Args); before != after {
		r.Errorf("arguments were shown as %s and after the restart as %s", before, after)
	}
}

func longResult(r *rig) {
	var long strings.Builder
	for i := range 30_000 {
		long.WriteString(string(rune('a'+i%26)) + " line\n")
	}
	text := long.String()
	big := agent.Tool{ToolSpec: agent.ToolSpec{Name: "big", Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.Result{Text: text}, nil }}
	model := replies(calls("../c 1", "big", "{}"), says("ok"), calls("c2", "ls", `{"path":"/large_tool_results"}`), says("ok"))
	r.with(func(c *agent.Config) { c.Model, c.Tools = model, append(c.Tools, big) })
	r.prompt("go")
	short := r.results(thread)[0].Text
	if len(short) > 20_000 || !strings.HasPrefix(short, text[:100]) || !strings.HasSuffix(short, text[len(text)-100:]) {
		r.Errorf("of %d bytes the model is shown %d", len(text), len(short))
	}
	at := strings.Index(short, "/large_tool_results/")
	if at < 0 || !strings.Contains(short, "read_file") {
		r.Fatalf("it does not say where the rest is: %q", short)
	}
	path := short[at : at+strings.Index(short[at:], ".txt")+4]
	if strings.Contains(path, "..") || strings.Contains(path, " ") {
		r.Errorf("the path is %q", path)
	}
	r.restart()
	saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	var kept struct{ Text string }
	r.ok(json.Unmarshal(saved.State["files"+path], &kept))
	if kept.Text != text {
		r.Errorf("the file has %d bytes, want %d", len(kept.Text), len(text))
	}
	r.with(func(c *agent.Config) { c.Model = offline.New() })
	r.prompt("read " + path)
	if res := r.results(thread); !contains(res[len(res)-1].Text, "a line", "b line") || res[len(res)-1].Error {
		r.Errorf("read_file says %.200q", res[len(res)-1].Text)
	}
}

func TestShortResultIsNotEvicted(t *testing.T) {
	text := strings.Repeat("x", 9000)
	big := agent.Tool{ToolSpec: agent.ToolSpec{Name: "big", Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.Result{Text: text}, nil }}
	for evict, want := range map[int]bool{0: false, 10_000: false, 9000: false, 8999: true, -1: false} {
		r := newRig(t).with(func(c *agent.Config) { c.Tools, c.Evict = append(c.Tools, big), evict })
		r.prompt("call big {}")
		if cut := r.results(thread)[0].Text != text; cut != want {
			t.Errorf("Evict %d: of 9000 bytes something is put aside: %v, want %v", evict, cut, want)
		}
	}
}

// summarizing makes the agent summarize after a few words.
func (r *rig) summarizing() *rig {
	return r.with(func(c *agent.Config) { c.Summarize = agent.Summarize{Above: 150, Keep: 3} })
}

func summaryKeepsOriginal(r *rig) {
	seen := &script{}
	inner := offline.New()
	seen.answer = func(n int, q agent.Request, _ func(agent.Chunk)) (reply agent.Reply, err error) {
		for c, problem := range inner.Generate(r.ctx, q) {
			if c.Reply != nil {
				reply = *c.Reply
			}
			err = problem
		}
		return reply, err
	}
	r.summarizing().with(func(c *agent.Config) { c.Model = seen })
	var summaries eventList
	for i := range 6 {
		all := r.prompt("remember n" + string(rune('0'+i)) + " is " + strings.Repeat("x", 100) +
			"\nwrite a.txt: one ; write b.txt: two ; write c.txt: three ; write d.txt: four\nread a.txt ; read b.txt")
		summaries = append(summaries, all.of(agent.EventSummarized)...)
		r.restart()
	}
	if len(summaries) == 0 {
		r.Fatal("nothing was summed up")
	}
	if e := summaries[0]; e.Text == "" || e.Count == 0 || e.Seq == 0 {
		r.Errorf("the summary is told as %+v", e)
	}
	asked := seen.requests()
	for i, q := range asked {
		if err := paired(q); err != nil {
			r.Errorf("request %d: %v", i+1, err)
		}
		if i > 0 && len(q.Messages) > 0 && q.Messages[0].Role != agent.User {
			r.Errorf("request %d begins with a message of %s", i+1, q.Messages[0].Role)
		}
	}
	whole := r.messages(thread, "")
	if shown := len(asked[len(asked)-1].Messages); shown >= len(whole) {
		r.Errorf("the model is shown %d messages of %d", shown, len(whole))
	}
	prompts := 0
	for _, m := range whole {
		if m.Role == agent.User {
			prompts++
		}
		if strings.Contains(m.Text(), "Summary of the conversation") {
			r.Errorf("the summary is among the messages: %.100q", m.Text())
		}
	}
	if prompts != 6 || len(r.results(thread)) != 36 {
		r.Errorf("the log has %d prompts and %d results, want 6 and 36", prompts, len(r.results(thread)))
	}
}

func summaryRemembers(r *rig) {
	r.summarizing().prompt("remember the port is 8080\nwrite a.txt: " + strings.Repeat("x ", 200))
	var summed int
	for range 4 {
		all := r.prompt("write b.txt: " + strings.Repeat("y ", 200) + "\nread b.txt")
		summed += len(all.of(agent.EventSummarized))
		r.restart()
	}
	if summed == 0 {
		r.Fatal("nothing was summed up")
	}
	if done := r.one(r.prompt("recall the port"), agent.EventDone); !contains(done.Text, "the port is 8080") {
		r.Errorf("it recalls %q", done.Text)
	}
}

func TestASummaryIsOfItsLineOnly(t *testing.T) {
	r := newRig(t).summarizing()
	r.prompt("remember the port is 1")
	first := r.heads(thread)[0].ID
	for range 4 {
		r.prompt("remember the port is 2\nwrite b.txt: " + strings.Repeat("y ", 200))
	}
	if done := r.one(r.prompt("recall the port"), agent.EventDone); !contains(done.Text, "the port is 2") {
		t.Fatalf("it recalls %q", done.Text)
	}
	_, err := r.agent.Restore(r.ctx, thread, first)
	r.ok(err)
	if done := r.one(r.prompt("recall the port"), agent.EventDone); done.Text != "the port is 1" {
		t.Errorf("before the summary it recalls %q", done.Text)
	}
}

// TestNonTextPartsSurviveRestart has a tool return bytes that are not
// UTF-8, as commands do.
func TestNonTextPartsSurviveRestart(t *testing.T) {
	model := replies(calls("c1", "raw", `{}`), says("ok"))
	raw := agent.Tool{ToolSpec: agent.ToolSpec{Name: "raw", Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.Result{Text: "a\xff\xfeb\x00 <c>"}, nil
		}}
	r := newRig(t).with(func(c *agent.Config) { c.Model, c.Tools = model, []agent.Tool{raw} })
	r.prompt("go \xff on")
	r.restart()
	r.prompt("again")
	asked := model.requests()
	for i, m := range asked[1].Messages {
		for j := range m.Parts {
			now := asked[2].Messages[i].Parts[j]
			if m.Parts[j].Text != now.Text || m.Parts[j].Result != nil && m.Parts[j].Result.Text != now.Result.Text {
				t.Errorf("message %d was shown as %+v, and after the restart as %+v", i, m.Parts[j], now)
			}
		}
	}
}

func TestAnotherModelMayWriteTheSummary(t *testing.T) {
	writer := replies(says("remember the port is 8080"))
	r := newRig(t).with(func(c *agent.Config) { c.Summarize = agent.Summarize{Above: 150, Keep: 2, Model: writer} })
	r.prompt("remember the port is 1\nwrite a.txt: " + strings.Repeat("x ", 400))
	all := r.prompt("write b.txt: y\nrecall the port")
	if len(writer.requests()) == 0 {
		t.Fatal("it was not asked")
	}
	for i, q := range writer.requests() {
		if err := paired(q); err != nil {
			t.Errorf("request %d: %v", i+1, err)
		}
		if !q.NoCalls || len(q.Tools) == 0 {
			t.Errorf("the tools of the calls it is shown are named: %d, and may be called: %t", len(q.Tools), !q.NoCalls)
		}
	}
	if done := r.one(all, agent.EventDone); !contains(done.Text, "the port is 8080") {
		t.Errorf("it recalls %q", done.Text)
	}
}

func TestASummaryThatCannotBeWrittenLosesNothing(t *testing.T) {
	broken := &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) {
		return agent.Reply{}, &agent.ModelError{Status: 400, Err: errBusy}
	}}
	r := newRig(t).with(func(c *agent.Config) { c.Summarize = agent.Summarize{Above: 150, Keep: 2, Model: broken} })
	if _, err := r.try(agent.Input{Prompt: "write a.txt: " + strings.Repeat("x ", 400) + "\nwrite b.txt: y\nread b.txt"}); err == nil {
		t.Fatal("it succeeds")
	}
	before := len(r.messages(thread, ""))
	r.with(func(c *agent.Config) { c.Summarize = agent.Summarize{Above: -1} })
	r.finish()
	if n := len(r.messages(thread, "")); before < 3 || n <= before {
		t.Errorf("%d messages before, %d after", before, n)
	}
	r.answers("wrote a.txt", "wrote b.txt", "")
}

// TestASummaryThatSaysNothingIsNone has a model that returns no summary, or refuses. The
// conversation stays, and the agent does not ask the model again at every step.
func TestASummaryThatSaysNothingIsNone(t *testing.T) {
	refusal := says("I cannot")
	refusal.Stop = agent.StopRefusal
	for _, nothing := range []agent.Reply{says(" \n"), refusal} {
		writer := replies(nothing)
		model := replies(calls("1", "ls", `{}`), calls("2", "ls", `{}`), says("done"))
		r := newRig(t).with(func(c *agent.Config) {
			c.Model, c.Summarize = model, agent.Summarize{Above: 150, Keep: 1, Model: writer}
		})
		r.prompt("the port is 1 " + strings.Repeat("x ", 1000))
		if n := len(writer.requests()); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		for i, q := range model.requests() {
			if !strings.Contains(q.Messages[0].Text(), "the port is 1") {
				t.Errorf("request %d begins with %.40q", i+1, q.Messages[0].Text())
			}
		}
	}
}

// TestSummaryUsageNamesItsModel checks which model each usage entry names.
func TestSummaryUsageNamesItsModel(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Model, c.Summarize = replies(says("one"), says("two")), agent.Summarize{Above: 150, Keep: 1, Model: other{replies(says("sum"))}}
	})
	r.prompt("one " + strings.Repeat("x ", 1000))
	all := r.prompt("two")
	if n := len(all.of(agent.EventStepFinish)); n != 1 {
		t.Errorf("%d steps were finished", n)
	}
	if sum := r.one(all, agent.EventSummarized); sum.Usage == nil || sum.Usage.Output != 5 {
		t.Errorf("the summary cost %+v", sum.Usage)
	}
	head, err := r.store.Head(r.ctx, thread)
	r.ok(err)
	line, err := r.store.Load(r.ctx, head.Head, segno.Window{Entries: true})
	r.ok(err)
	costs := map[string]int{}
	for _, n := range line.Commits {
		for _, e := range n.Entries {
			if e.Kind == segno.EntryUsage {
				costs[e.Name]++
			}
		}
	}
	if costs["test/script"] != 2 || costs["test/other"] != 1 {
		t.Errorf("booked: %v", costs)
	}
}

// other is a script with another model name.
type other struct{ *script }

func (other) Name() string { return "test/other" }

// TestLongResultIsEvictedWithoutReadTool has an agent without a tool for reading, and a
// separate limit above which results are evicted.
func TestLongResultIsEvictedWithoutReadTool(t *testing.T) {
	for with, tools := range map[string][]agent.Tool{"file /large": nil, "read_file /large": tool.Standard()} {
		long := agent.NewTool("long", "", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) {
			return "head " + strings.Repeat("x", 3000) + " tail", nil
		})
		r := newRig(t).with(func(c *agent.Config) {
			c.Model, c.Tools, c.Evict = replies(calls("1", "long", `{}`), says("ok")), append(tools, long), 1000
		})
		r.prompt("go")
		text := r.results(thread)[0].Text
		if len(text) > 1000 || !strings.HasPrefix(text, "head ") || !strings.HasSuffix(text, " tail") || !strings.Contains(text, "; "+with) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// TestAToolThatWritesIntoItsArguments checks that the model sees its own arguments afterwards.
func TestAToolThatWritesIntoItsArguments(t *testing.T) {
	const args = `{"text":"what the model sent"}`
	model := replies(calls("c1", "shout", args), says("done"))
	shout := agent.Tool{ToolSpec: agent.ToolSpec{Name: "shout", Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			copy(inv.Args, bytes.ToUpper(inv.Args))
			return agent.Result{Text: string(inv.Args)}, nil
		}}
	r := newRig(t).with(func(c *agent.Config) { c.Model, c.Tools = model, []agent.Tool{shout} })
	r.prompt("go")
	for _, m := range model.requests()[1].Messages {
		for _, p := range m.Parts {
			if p.Call != nil && string(p.Call.Args) != args {
				t.Errorf("the model reads that it sent %s", p.Call.Args)
			}
		}
	}
}
