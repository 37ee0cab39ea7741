package export_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/web/export"
)

func TestATIFIsATrajectoryWithEachStep(t *testing.T) {
	f := sample(t)
	got, err := validATIF(written(t, "atif", f.source(export.Selection{}, filter(t))))
	must(t, err)
	var steps []string
	for _, s := range got.Steps {
		line := s.Source + ": " + *s.Message
		for _, c := range s.Calls {
			line += " call " + *c.ID
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				line += " = " + *r.Content
				for _, a := range r.Agents {
					line += " by " + (*a.ID)[strings.IndexByte(*a.ID, '/')+1:]
				}
			}
		}
		steps = append(steps, line)
	}
	want := []string{
		"system: segno recorded: base",
		"user: write a program",
		"agent:  call c1 = ",
		"agent: I wrote **main.go**.",
		"agent:  call c2 = Exit code 1",
		"agent:  call c3",
		"agent:  call task = agent a1 found it by a1",
		"system: the transcript could not be read in full: line 3: not JSON",
		"agent: Done.",
		"system: Files changed outside the turns of the agent.",
		"user: say hello",
		"agent: Hello.",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	if len(got.Subagents) != 1 || *got.Subagents[0].Steps[0].Calls[0].Name != "Grep" {
		t.Errorf("the trajectory of the subagent: %+v", got.Subagents)
	}
}

func TestAgentTraceNamesTheLinesOfEachTurn(t *testing.T) {
	f := sample(t)
	var got []string
	for line := range strings.Lines(written(t, "agent-trace", f.source(export.Selection{}, filter(t)))) {
		r, err := validTrace([]byte(line))
		must(t, err)
		for _, file := range r.Files {
			for _, c := range file.Conversations {
				for _, x := range c.Ranges {
					got = append(got, *file.Path+" "+strconv.Itoa(x.From)+"-"+strconv.Itoa(x.To)+" "+c.Contributor.Type)
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"main.go 1-3 ai", "main.go 3-3 unknown"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestAgentTraceNamesTheTurnOfRestoredLines checks that lines which a restore brings back, and those of a renamed file, are
// not new.
func TestAgentTraceNamesTheTurnOfRestoredLines(t *testing.T) {
	f := newFixture(t)
	f.write("a", "1\n2\n")
	first := f.turn("write")
	f.write("a", "other\n")
	f.turn("overwrite")
	f.write("a", "1\n2\n")
	f.commit(segno.CheckpointRestore, "", nil)
	must(t, os.Rename(filepath.Join(f.dir, "a"), filepath.Join(f.dir, "b")))
	f.turn("rename")
	var got []string
	for line := range strings.Lines(written(t, "agent-trace", f.source(export.Selection{}, filter(t)))) {
		r, err := validTrace([]byte(line))
		must(t, err)
		for _, file := range r.Files {
			for _, c := range file.Conversations {
				got = append(got, fmt.Sprint(*file.Path, " ", c.Ranges[0].From, "-", c.Ranges[0].To, " ", c.Contributor.Type, " ", strings.HasSuffix(c.URL, string(first))))
			}
		}
	}
	if diff := cmp.Diff([]string{"a 1-2 ai true", "a 1-1 ai false", "a 1-2 ai true"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOTLPHasASpanForEachTurnAndCall(t *testing.T) {
	f := sample(t)
	text := written(t, "otlp", f.source(export.Selection{}, filter(t)))
	if again := written(t, "otlp", f.source(export.Selection{}, filter(t))); again != text {
		t.Error("a second export has other ids")
	}
	var names []string
	ids := map[string]string{}
	for line := range strings.Lines(text) {
		var traces struct {
			Resources []struct {
				Scopes []struct {
					Spans []struct {
						Trace, ID, Parent string
						TraceID           string `json:"traceId"`
						SpanID            string `json:"spanId"`
						ParentID          string `json:"parentSpanId"`
						Name              string
						Start             string `json:"startTimeUnixNano"`
						End               string `json:"endTimeUnixNano"`
						Status            struct{ Code int }
						Attributes        []struct{ Key string }
					}
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		must(t, json.Unmarshal([]byte(line), &traces))
		for _, s := range traces.Resources[0].Scopes[0].Spans {
			trace, _ := hex.DecodeString(s.TraceID)
			span, _ := hex.DecodeString(s.SpanID)
			start, _ := strconv.ParseInt(s.Start, 10, 64)
			end, err := strconv.ParseInt(s.End, 10, 64)
			if len(trace) != 16 || len(span) != 8 || err != nil || start <= 0 || end < start || ids[s.SpanID] != "" {
				t.Errorf("span %+v", s)
			}
			name := s.Name
			if s.ParentID != "" {
				name = ids[s.ParentID] + " > " + name
			}
			if s.Status.Code == 2 {
				name += " (error)"
			}
			ids[s.SpanID] = s.Name
			names = append(names, name)
		}
	}
	want := []string{"invoke_agent claude", "invoke_agent claude > execute_tool Write", "invoke_agent claude > execute_tool Bash (error)",
		"invoke_agent claude > execute_tool Bash (error)", "invoke_agent claude > execute_tool Task", "invoke_agent claude > invoke_agent a1",
		"invoke_agent a1 > execute_tool Grep", "invoke_agent claude"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestJSONLinesHaveTheThreadAndEachTurn(t *testing.T) {
	f := sample(t)
	var types, files []string
	for line := range strings.Lines(written(t, "jsonl", f.source(export.Selection{}, filter(t)))) {
		var x struct {
			Type, Turn, Prompt, Answer string
			Files                      []struct {
				Path, Sign     string
				Added, Removed int
			}
		}
		must(t, json.Unmarshal([]byte(line), &x))
		types = append(types, strings.TrimSpace(x.Type+" "+x.Prompt+" "+x.Answer))
		for _, f := range x.Files {
			files = append(files, x.Turn+" "+f.Sign+" "+f.Path+" +"+strconv.Itoa(f.Added)+" -"+strconv.Itoa(f.Removed))
		}
	}
	if diff := cmp.Diff([]string{"thread", "turn", "turn write a program Done.", "turn", "turn say hello Hello."}, types); diff != "" {
		t.Error(diff)
	}
	if len(files) != 3 || !strings.HasSuffix(files[0], "+ main.go +3 -0") || !strings.HasSuffix(files[2], "~ main.go +1 -1") {
		t.Errorf("files: %q", files)
	}
}

func TestMarkdownAndPageShowTheSameTurns(t *testing.T) {
	f := sample(t)
	for _, format := range []string{"markdown", "html"} {
		text := written(t, format, f.source(export.Selection{}, filter(t)))
		for _, want := range []string{"write a program", "main.go", "exit 1", "no result recorded", "a1", "func main() { run() }", "the transcript could not be read in full",
			"Hello.", "changes outside turns"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing", format, want)
			}
		}
	}
}

func TestUndoneLinesComeOnlyWithAll(t *testing.T) {
	f := newFixture(t)
	f.turn("one")
	at := f.turn("two")
	f.turn("three")
	f.turns++
	f.put(segno.Commit{ID: "four", Thread: f.thread, Parent: at, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 4, Prompt: "four", Time: f.now()}})
	if got, want := turnsOf(t, f.source(export.Selection{}, filter(t))), []string{"base", "t1", "t2", "t4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := turnsOf(t, f.source(export.Selection{All: true}, filter(t))), []string{"base", "t1", "t2", "t3 undone", "t4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := turnsOf(t, f.source(export.Selection{At: at, Single: true}, filter(t))); !slices.Equal(got, []string{"t2"}) {
		t.Errorf("a single turn: %q", got)
	}
}

func TestAForkHasTheTurnsBeforeIt(t *testing.T) {
	f := newFixture(t)
	f.turn("one")
	at := f.turn("two")
	f.turn("three")
	f.put(segno.Commit{ID: "base", Thread: "fork", Create: &segno.Thread{ID: "fork", Parent: at}, Parent: at,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Turn: 2, Time: f.now()}})
	f.thread = "fork"
	f.turn("other")
	src := f.source(export.Selection{All: true}, filter(t))
	if got, want := turnsOf(t, src), []string{"base inherited", "t1 inherited", "t2 inherited", "base", "t4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got, err := validATIF(written(t, "atif", src))
	must(t, err)
	copied := 0
	for _, s := range got.Steps {
		if s.Copied != nil && *s.Copied {
			copied++
		}
	}
	if fork := src.Header.Fork; copied != 5 || fork == nil || fork.Thread != "thread" {
		t.Errorf("%d copied steps, fork %+v", copied, fork)
	}
}

func TestATurnOfADeletedThreadIsReadThroughItsFork(t *testing.T) {
	f := newFixture(t)
	at := f.turn("one", f.message("agent", "done"))
	f.put(segno.Commit{ID: "base", Thread: "fork", Create: &segno.Thread{ID: "fork", Parent: at}, Parent: at,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Turn: 1, Time: f.now()}})
	must(t, f.store.Delete(t.Context(), f.thread))
	for _, thread := range []segno.ThreadID{"fork", f.thread} {
		src := f.source(export.Selection{Thread: thread, At: at, Single: true}, filter(t))
		if text := written(t, "markdown", src); !strings.Contains(text, "> one") || !strings.Contains(text, "done") {
			t.Errorf("through %s:\n%s", thread, text)
		}
	}
}

func TestAnAmendedTurnIsThereOnce(t *testing.T) {
	f := newFixture(t)
	at := f.turn("one")
	line, err := f.store.Load(t.Context(), at, segno.Window{Last: 1})
	must(t, err)
	f.put(segno.Commit{ID: "again", Thread: f.thread, Parent: line.Commits[0].Parent,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Prompt: "one", Amends: at, Time: f.now()}})
	if got := turnsOf(t, f.source(export.Selection{All: true}, filter(t))); !slices.Equal(got, []string{"base", "t1"}) {
		t.Errorf("%q", got)
	}
}

func TestStepsOfAGoAgentAreOneTurn(t *testing.T) {
	f := newFixture(t)
	for i, m := range []agent.Message{
		agent.Text("do it"),
		{Role: agent.Assistant, Model: "offline/plain", Parts: []agent.Part{{Text: "I look."}, {Call: &agent.Call{ID: "c", Name: "read", Args: json.RawMessage(`{"path":"a"}`)}}}},
		{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "c", Text: "content"}}}},
		{Role: agent.Assistant, Parts: []agent.Part{{Text: "It is done."}}},
	} {
		c := segno.Commit{ID: segno.CommitID("step" + strconv.Itoa(i)), Thread: f.thread,
			Entries: []segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Body: encoded(t, m), Time: f.now()}}}
		if i%2 == 1 {
			c.Checkpoint = &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Step: i, Prompt: "do it", Agent: "segno", Time: f.now()}
		}
		f.put(c)
	}
	got, err := validATIF(written(t, "atif", f.source(export.Selection{}, filter(t))))
	must(t, err)
	if len(got.Steps) != 4 || *got.Steps[1].Message != "do it" || *got.Steps[2].Message != "I look." || *got.Steps[2].Observation.Results[0].Content != "content" ||
		*got.Steps[2].Model != "offline/plain" || *got.Steps[3].Message != "It is done." {
		t.Errorf("%+v", got.Steps)
	}
}

func TestThreadsOfSubagentsAreInside(t *testing.T) {
	f := newFixture(t)
	f.turn("one", f.message("agent", "done"))
	f.put(segno.Commit{ID: "sub", Thread: "part", Create: &segno.Thread{ID: "part", ParentThread: f.thread, Agent: "helper"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1, Prompt: "look", Time: f.now()}})
	src := f.source(export.Selection{}, filter(t))
	got, err := validATIF(written(t, "atif", src))
	must(t, err)
	if len(got.Subagents) != 1 || *got.Subagents[0].ID != "part" || *got.Subagents[0].Agent.Name != "helper" {
		t.Errorf("%+v", got.Subagents)
	}
	for _, format := range []string{"markdown", "html", "jsonl", "otlp"} {
		if !strings.Contains(written(t, format, src), "look") {
			t.Errorf("%s: the turn of the subagent's thread is missing", format)
		}
	}
}

func TestDamageIsNamedAndTheRestIsThere(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "a\n")
	bad := f.turn("one")
	f.write("b.txt", "b\n")
	f.write("c.txt", "c\n")
	f.turn("two", f.message("agent", "answer"))
	f.store = faulty{f.store, bad, segno.HashOf([]byte("b\n"))}
	by := filter(t)
	for _, format := range append(export.Formats(), "html") {
		if format == "agent-trace" || format == "otlp" {
			continue // these formats have no field for it; the command reports it
		}
		text := written(t, format, f.source(export.Selection{}, by))
		for _, want := range []string{"the record of this turn could not be read", "the content of b.txt could not be read", "answer", "c.txt"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing", format, want)
			}
		}
	}
	if len(by.Missing) != 2 {
		t.Errorf("missing: %q", by.Missing)
	}
}

func TestSecretsAreFoundInEachPartAndLeftOut(t *testing.T) {
	const token = "ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6"
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MhgwMbRvI0MBZhpI\n", 4) + "-----END RSA PRIVATE KEY-----\n"
	quoted, err := json.Marshal(token)
	must(t, err)
	for name, set := range map[string]func(f *fixture){
		"prompt": func(f *fixture) { f.turn("use " + token) },
		"answer": func(f *fixture) { f.turn("x", f.message("agent", "it is "+token)) },
		"input": func(f *fixture) {
			f.turn("x", f.call("c", "Bash", map[string]string{"command": "echo " + token}, "ok")...)
		},
		"result": func(f *fixture) { f.turn("x", f.call("c", "Bash", "x", map[string]string{"response": token})...) },
		"inside": func(f *fixture) {
			f.turn("x", f.call("c", "Bash", "x", map[string]string{"response": `{"a":` + string(quoted) + `}`})...)
		},
		"tool": func(f *fixture) { f.turn("x", f.call("c", token, "x", "y")...) },
		"note": func(f *fixture) { f.turn("x", f.note(token)) },
		"diff": func(f *fixture) { f.write("conf", "key="+token+"\n"); f.turn("x") },
		"path": func(f *fixture) { f.write(token, "x"); f.turn("x") },
		"key":  func(f *fixture) { f.write("id_rsa", key); f.turn("x") },
		"encoded": func(f *fixture) {
			f.turn("x", f.message("agent", "Z2hwX2ExQjJjM0Q0ZTVGNmExQjJjM0Q0ZTVGNmExQjJjM0Q0ZTVGNg=="))
		},
		"title": func(f *fixture) {
			f.put(segno.Commit{ID: "t", Thread: "titled", Create: &segno.Thread{ID: "titled", Title: token}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}})
			f.thread = "titled"
		},
	} {
		f := newFixture(t)
		set(f)
		by := filter(t)
		written(t, "html", f.source(export.Selection{}, by))
		if len(by.Findings) == 0 {
			t.Errorf("%s: the secret was not found", name)
			continue
		}
		allowing := filter(t)
		allowing.Allowed = func(x string) bool {
			return slices.ContainsFunc(by.Findings, func(found Finding) bool { return found.Fingerprint == x })
		}
		written(t, "html", f.source(export.Selection{}, allowing))
		if len(allowing.Findings) > 0 {
			t.Errorf("%s: it was allowed: %+v", name, allowing.Findings)
		}
		for _, format := range append(export.Formats(), "html") {
			redacting := filter(t)
			redacting.Redact = true
			text := written(t, format, f.source(export.Selection{}, redacting))
			if found, err := by.Scanner.Scan("output", strings.NewReader(text)); err != nil || len(found) > 0 || strings.Contains(text, token) || strings.Contains(text, "MIIEpAIBAAKC") {
				t.Errorf("%s: %s still has it: %v %v", name, format, found, err)
			}
			if format == "atif" {
				if _, err := validATIF(text); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// allowedTags are the elements of a page. The policy of the page names its style and its script.
var (
	tag         = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)
	allowedTags = regexp.MustCompile(`^(<!doctype html>|<html lang="en">|<meta [^<>]*>|<img src="data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*" alt="[^"<>]*">|` +
		`<a href="(https?://|mailto:|#n)[^"<>]*"( rel="noopener noreferrer nofollow")?>|<button id="unfold" hidden>|<ol start="[0-9]{1,9}">|<details class="[a-z ]*"( open)?>|` +
		`<(article|div|p|span|section|pre) (class="[a-z ]*"|class="[a-z ]*" id="n[0-9]+")>|` +
		`</?(html|head|title|style|body|header|main|footer|article|h[1-6]|p|a|div|span|section|pre|code|details|summary|ins|del|i|b|em|strong|ul|ol|li|table|tr|th|td|blockquote|hr|button|script)>)$`)
)

func TestHostileContentIsInert(t *testing.T) {
	hostile := hostileText()
	s := made(1, func(int) *export.Turn {
		return &export.Turn{Turn: turns.Turn{Prompt: hostile, Model: hostile, Images: []turns.Image{{Type: hostile, URL: "https://example.org/x.png", Data: []byte("<svg onload=alert(1)>")}},
			Items: []turns.Item{{Author: turns.Agent, Text: hostile}, {Author: turns.User, Text: hostile}, {Author: turns.Segno, Text: hostile},
				{Author: turns.Agent, Call: &turns.Call{ID: hostile, Tool: hostile, Title: hostile, Input: encoded(t, map[string]string{hostile: hostile}), Result: hostile, Done: true}},
				{Author: turns.Agent, Call: &turns.Call{ID: "x", Tool: "t", Input: json.RawMessage("{\"a\xff"), Result: hostile}}}},
			Files:     []export.File{{Path: hostile, Sign: "+", Diff: []export.Line{{Op: '+', Text: hostile}}, Why: hostile, Ranges: []export.Range{{From: 1, To: 2}}}},
			Subagents: []export.Subagent{{ID: hostile, Calls: []*turns.Call{{Tool: hostile, Input: json.RawMessage(`null`)}}}}, Missing: []string{hostile}}
	})
	s.Header.Title, s.Header.Agent = hostile, hostile
	for _, format := range append(export.Formats(), "html") {
		text := written(t, format, s)
		if at := strings.IndexAny(text, "\x00\x07\x1b\u202e\u2066"); at >= 0 || !isUTF8(text) {
			t.Errorf("%s: a control character at %d, or not UTF-8", format, at)
		}
	}
	if _, err := validATIF(written(t, "atif", s)); err != nil {
		t.Error(err)
	}
	page := written(t, "html", s)
	for _, x := range tag.FindAllString(page, -1) {
		if !allowedTags.MatchString(x) {
			t.Errorf("the page has %.200q", x)
		}
	}
	if n := strings.Count(page, "<script>"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	markdown := written(t, "markdown", s)
	for line := range strings.Lines(outsideCode(markdown)) {
		for _, x := range []string{"](javascript:", "![", "<img", "<svg", "<script", "<iframe"} {
			if strings.Contains(line, x) && !strings.Contains(line, `\[`) && !strings.Contains(line, `\![`) {
				t.Errorf("Markdown has %q in %.300q", x, line)
			}
		}
	}
}
