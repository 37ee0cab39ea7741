package preamble_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// sentenceOf returns the text about one call.
func sentenceOf(t *testing.T, tool, input, result string) string {
	t.Helper()
	w := new(threadWriter).prompt("go")
	id := w.intent(tool, input)
	if result != "" {
		w.result(id, tool, result)
	}
	text := preamble.FromCommits(w.end().nodes).Text(preamble.Options{})
	_, after, found := strings.Cut(text, "\n- ")
	if !found {
		return ""
	}
	said, _, _ := strings.Cut(after, "\n\n")
	return said
}

func TestWording(t *testing.T) {
	for _, c := range []struct{ name, tool, input, result, want string }{
		{"a command", "Bash", `{"command":"git push"}`, `{"response":{"stdout":"ok","stderr":"","interrupted":false},"exit":0}`,
			"You ran “git push” with Bash. It answered “ok”."},
		{"both its streams", "Bash", `{"command":"make"}`, `{"response":{"stdout":"built","stderr":"1 warning"}}`,
			"You ran “make” with Bash. It answered:\n> built\n> 1 warning"},
		{"one that says nothing", "Bash", `{"command":"true"}`, `{"response":{"stdout":"","stderr":""}}`, "You ran “true” with Bash."},
		{"one that failed", "Bash", `{"command":"make"}`, `{"error":"Exit code 2","exit":2}`, "You ran “make” with Bash, and it failed. It answered “Exit code 2”."},
		{"one the user stopped", "Bash", `{"command":"sleep 9"}`, `{"error":"stopped","interrupt":true}`, "You ran “sleep 9” with Bash, and it was interrupted. It answered “stopped”."},
		{"one of many lines", "Bash", `{"command":"cat <<E\nx\nE"}`, "", "You began to run “cat <<E x E” with Bash; its outcome is unknown: check before you do it again. You gave it:\n> cat <<E\n> x\n> E"},
		{"a new file", "Write", `{"file_path":"/w/a","content":"one\ntwo\n"}`, `{"response":{"type":"create","filePath":"/w/a","content":"one\ntwo\n"}}`,
			"You wrote “/w/a” with Write."},
		{"a file that was not written", "Write", `{"file_path":"/w/a","content":"one\ntwo\n"}`, `{"error":"no space"}`,
			"You tried to write “/w/a” with Write, and it failed. You gave it:\n> one\n> two\nIt answered “no space”."},
		{"an edit that failed", "Edit", `{"file_path":"/w/a","old_string":"b","new_string":"c"}`, `{"error":"not found"}`,
			"You tried to change “/w/a” with Edit, and it failed. You gave it:\n> old_string: b\n> new_string: c\nIt answered “not found”."},
		{"any other tool", "mcp__mail__send", `{"to":"bob"}`, `{"response":[{"type":"text","text":"sent"}]}`, "You used mcp__mail__send for “{\"to\":\"bob\"}”. It answered “sent”."},
		{"a subagent, which may do anything", "Task", `{"title":"Fix it","kind":"think","input":{"prompt":"fix it"}}`, `{"status":"completed"}`,
			"You used Task for “Fix it”. You gave it:\n> {\"prompt\":\"fix it\"}"},
		{"a tool with an odd name", "x”. Then “y", `{}`, `{"response":"z"}`, "You used “x\". Then \"y”. It answered “z”."},
		{"the proxy's command", "execute", `{"title":"Push","kind":"execute","input":{"command":["bash","-lc","git push"]}}`,
			`{"status":"completed","content":[{"type":"content","content":{"type":"text","text":"` + "```console\\nok\\n```" + `"}}]}`, "You ran “git push”. It answered “ok”."},
		{"the proxy's, with a title only", "execute", "{\"title\":\"`git push`\",\"kind\":\"execute\"}", `{"status":"failed"}`, "You ran “git push”, and it failed."},
		{"an exit status inside", "execute", `{"title":"make","kind":"execute"}`, `{"status":"completed","output":{"exit_code":2,"aggregated_output":"no rule"}}`,
			"You ran “make”, and it failed. It answered “no rule”."},
		{"the proxy's edit", "edit", `{"title":"Edit a","kind":"edit","locations":[{"path":"/w/a"}]}`, `{"status":"completed","content":[{"type":"diff","path":"/w/a","oldText":"b","newText":"c"}]}`,
			"You changed “/w/a”."},
		{"a place alone", "delete", `{"kind":"delete","locations":[{"path":"/w/a"}]}`, `{"status":"completed"}`, "You deleted “/w/a”."},
		{"one that still runs", "execute", `{"title":"serve","kind":"execute"}`, `{"status":"in_progress"}`, "You began to run “serve”; its outcome is unknown: check before you do it again."},
		{"a kind of tomorrow", "paint", `{"title":"a picture","kind":"paint"}`, `{"status":"completed"}`, "You used paint for “a picture”."},
		{"an input that is no object", "shell", `"ls"`, `"out"`, "You ran “ls” with shell. It answered “out”."},
		{"nothing at all", "", ``, `null`, "You used something."},
		{"what only reads", "Read", `{"file_path":"/w/a"}`, `{"response":"x"}`, ""},
		{"what the proxy says only reads", "Find", `{"title":"find x","kind":"search"}`, `{"status":"completed"}`, ""},
		{"bytes", "Bash", `{"command":"cat a.out"}`, encode(map[string]string{"response": strings.Repeat("\ufffdx\ufffd", 50)}), "You ran “cat a.out” with Bash. It answered “bytes that are not text”."},
		{"colours", "Bash", `{"command":"ls"}`, `{"response":"\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007link"}`, "You ran “ls” with Bash. It answered “red link”."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sentenceOf(t, c.tool, c.input, c.result); got != c.want {
				t.Errorf("told\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestClippedValues(t *testing.T) {
	long := strings.Repeat("a line of the file\n", 4000)
	input := segno.Clip(json.RawMessage(encode(map[string]string{"content": long, "file_path": "/w/never/seen"})))
	if got := sentenceOf(t, "Write", string(input), ""); !strings.Contains(got, "write") || !strings.Contains(got, "> a line of the file\n") {
		t.Errorf("a clipped input is told as\n%.300s", got)
	}
	input = segno.Clip(json.RawMessage(`{"file_path":"/w/a","content":` + string(quoted(long)) + `}`))
	if got := sentenceOf(t, "Write", string(input), ""); !strings.HasPrefix(got, "You began to write “/w/a” with Write; its outcome is unknown: check before you do it again. You gave it:\n> a line of the file\n") {
		t.Errorf("a clipped input is told as\n%.300s", got)
	}
	answer := segno.Clip(quoted("the first line\n" + long + "FAIL: the last line"))
	got := sentenceOf(t, "Bash", `{"command":"cat"}`, `{"response":`+string(answer)+`}`)
	for _, want := range []string{"\n> the first line\n", "the middle is left out", "FAIL: the last line"} {
		if !strings.Contains(got, want) {
			t.Errorf("a clipped answer lacks %q:\n%.300s", want, got)
		}
	}
	text := preamble.FromCommits(new(threadWriter).prompt(strings.Repeat("Do it well. ", 9000)).reply("yes").end().nodes).Text(preamble.Options{})
	if !strings.Contains(text, "> Do it well. Do it well.") || !strings.Contains(text, "bytes left out") {
		t.Errorf("a task of 100 kB is told as\n%.300s", text)
	}
}

func TestACallReportedTwiceIsOneCall(t *testing.T) {
	w := new(threadWriter).prompt("go")
	id := w.intent("Bash", `{"title":"Terminal","kind":"execute"}`) // the proxy, before the next update
	say := func(kind segno.EntryKind, body string) {
		w.add(segno.Entry{Kind: kind, ID: id, Name: "Bash", Body: json.RawMessage(body)})
	}
	say(segno.EntryIntent, `{"command":"git push"}`) // a hook
	say(segno.EntryIntent, `{"title":"git push","kind":"execute","input":{"command":"git push"}}`)
	say(segno.EntryResult, `{"response":{"stdout":"done"}}`)
	say(segno.EntryResult, `{"status":"completed"}`)
	say(segno.EntryIntent, `{"command":"git push"}`) // a hook that was late
	text := preamble.FromCommits(w.end().nodes).Text(preamble.Options{})
	if strings.Count(text, "\n- ") != 1 || !strings.Contains(text, "- You ran “git push” with Bash. It answered “done”.") {
		t.Error(text)
	}
	say(segno.EntryIntent, `{"command":"git push --force"}`) // an agent that reuses its ids
	if text := preamble.FromCommits(w.nodes).Text(preamble.Options{}); !strings.Contains(text, "- You began to run “git push --force” with Bash; its outcome is unknown: check before you do it again.") {
		t.Error(text)
	}
}

func TestResultOfACallOfAnEarlierTurn(t *testing.T) {
	w := new(threadWriter).prompt("serve it")
	id := w.intent("Bash", `{"command":"serve"}`)
	w.end().prompt("and now?").result(id, "Bash", `{"response":"served"}`)
	text := preamble.FromCommits(w.end().nodes).Text(preamble.Options{})
	if !strings.Contains(text, "- You ran “serve” with Bash. It answered “served”.") || strings.Contains(text, "unknown") {
		t.Error(text)
	}
	w = new(threadWriter).prompt("go").result("seen by nobody", "Bash", `{"response":"done"}`).end()
	if text := preamble.FromCommits(w.nodes).Text(preamble.Options{}); !strings.Contains(text, "- You ran something with Bash. It answered “done”.") {
		t.Error(text)
	}
}
