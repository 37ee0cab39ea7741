package failure

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/agents/claude"
	"github.com/dalsegno/segno/agents/codex"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// documentedAnswers are the answers without a recording: they are in an agent's published
// code, were observed without a recording, or belong to no specific agent. A line has the
// agent, version, method, then the error's JSON, the result's fields or "exit", then the
// expected meaning.
var documentedAnswers = []struct {
	agent, version, method string
	answer                 string
	want                   string
}{
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/load", `{"code":-32800,"message":"Request cancelled: Session 01a1 setup was cancelled"}`, "cancelled, kept, fine"},
	{"any", "1", "session/prompt", `{"code":-32800,"message":"Request cancelled"}`, "cancelled, kept, fine"},
	{"@agentclientprotocol/claude-agent-acp", "0.49.0", "session/new", `{"code":-32000,"message":"Authentication required: This integration does not support using claude.ai subscriptions."}`, "auth, kept, failed"},
	{"gemini-cli", "0.61.0", "session/new", `{"code":-32000,"message":"Gemini API key is missing or not configured."}`, "auth, kept, failed"},
	{"any", "1", "session/resume", `{"code":-32000,"message":"Authentication required"}`, "auth, kept, failed"},

	{"any", "1", "session/prompt", `{"code":-32002,"message":"Resource not found","data":{"sessionId":"a"}}`, "missing session, lost, not started"},
	{"any", "1", "session/load", `{"code":-32002,"message":"Resource not found: a"}`, "missing session, lost, fine"},
	{"OpenCode", "1.18.33", "session/resume", `{"code":-32603,"message":"Internal error: OpenCode service failure","data":{"service":"session"}}`, "missing session, lost, fine"},
	{"OpenCode", "1.18.33", "session/fork", `{"code":-32603,"message":"Internal error: OpenCode service failure","data":{"service":"session"}}`, "missing session, lost, fine"},
	{"OpenCode", "1.18.33", "session/prompt", `{"code":-32602,"message":"Invalid params: session not found: ses_a","data":{"sessionId":"ses_a"}}`, "missing session, lost, not started"},
	{"OpenCode", "1.18.33", "session/prompt", `{"code":-32603,"message":"Internal error: OpenCode service failure","data":{"service":"provider"}}`, "unknown error, kept, failed"},
	{"gemini-cli", "0.61.0", "session/prompt", `{"code":-32602,"message":"Session not found: a"}`, "missing session, lost, not started"},
	{"gemini-cli", "0.61.0", "session/load", `{"code":-32603,"message":"Internal error","data":{"details":"No previous sessions found for this project."}}`, "missing session, lost, fine"},
	{"gemini-cli", "0.61.0", "session/resume", `{"code":-32601,"message":"\"Method not found\": session/resume","data":{"method":"session/resume"}}`, "not offered, lost, fine"},
	{"gemini-cli", "0.61.0", "session/fork", `{"code":-32601,"message":"\"Method not found\": session/fork","data":{"method":"session/fork"}}`, "not offered, kept, fine"},
	{"any", "1", "session/load", `{"code":-32601,"message":"Method not found"}`, "not offered, lost, fine"},
	{"any", "1", "session/fork", `{"code":-32601,"message":"Method not found"}`, "not offered, kept, fine"},
	{"any", "1", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}`, "missing session, lost, not started"},
	{"any", "1", "session/prompt", `{"code":-32602,"message":"unknown session a"}`, "missing session, lost, not started"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", `{"code":1001,"message":"Session 01a1 had no messages yet and was lost when the Codex app-server restarted. Start a new session.","data":{"exitCode":null,"signal":null,"restartable":false}}`, "missing session, lost, not started"},

	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/resume", `{"code":-32602,"message":"Invalid params: gone","data":{"startupFailureReason":"cwd_unavailable"}}`, "no directory, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: The Claude Agent session has ended. Please start a new session."}`, "session ended, lost, not started"},
	{"@agentclientprotocol/claude-agent-acp", "0.49.0", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"details":"Claude Code process exited with code 1"}}`, "child gone, lost, seen"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"details":"ProcessTransport is not ready for writing"}}`, "child gone, lost, seen"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"errorKind":"worker_shutdown"}}`, "child gone, lost, seen"},
	{"@agentclientprotocol/claude-agent-acp", "0.49.0", "session/resume", `{"code":-32603,"message":"Internal error","data":{"details":"Claude Code process exited with code 1"}}`, "not opened, lost, fine"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/load", `{"code":1001,"message":"The Codex app-server was killed (likely out of memory) 3 times while opening session 01a1, so the agent does not open this session again for 5 min, to keep the other sessions working.","data":{"exitCode":null,"signal":"SIGKILL","restartable":false,"retryAfterMs":300000}}`, "child gone, lost, fine"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", `{"code":1001,"message":"The Codex app-server crashed 5 times in the last 60 s, so the agent stopped restarting it.","data":{"exitCode":null,"signal":null,"restartable":false}}`, "child gone, dead, seen"},

	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"message":"You've hit your usage limit.","codexErrorInfo":"usageLimitExceeded"}}`, "usage limit, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: Your credit balance is too low","data":{"errorKind":"billing_error"}}`, "usage limit, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: You've hit your session limit · resets 3pm","data":{"errorKind":"rate_limit"}}`, "usage limit, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.49.0", "session/prompt", `{"code":-32603,"message":"Internal error: no","data":{"errorKind":"oauth_org_not_allowed"}}`, "auth, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: no","data":{"errorKind":"verification_required"}}`, "auth, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: The turn ended without a result: the agent went idle while this prompt was still in flight (e.g. the model stream dropped mid-turn). Any partial output may be incomplete; please retry.","data":{"errorKind":"no_result"}}`, "no result, kept, seen"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: Claude ended the turn without returning results for tool calls: toolu_1","data":{"errorKind":"incomplete_tool_call"}}`, "no result, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.49.0", "session/prompt", `{"code":-32603,"message":"Internal error: API Error: 404 model","data":{"errorKind":"model_not_found"}}`, "rejected, kept, failed"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `{"code":-32603,"message":"Internal error: API Error: 400 bad","data":{"errorKind":"invalid_request"}}`, "rejected, kept, failed"},
	{"any", "1", "session/prompt", `{"code":-32603,"message":"Internal error","data":{"details":"This model's maximum context length is 8192 tokens."}}`, "too long, kept, failed"},
	{"any", "1", "session/prompt", `{"code":-32603,"message":"401 Unauthorized"}`, "auth, kept, failed"},
	{"any", "1", "session/prompt", `{"code":-32603,"message":"429 Too Many Requests"}`, "rate limit, kept, failed"},
	{"any", "1", "session/prompt", `{"code":-32603,"message":"Overloaded"}`, "overload, kept, failed"},
	{"any", "1", "session/prompt", `{"code":-32603,"message":"Internal error"}`, "unknown error, kept, failed"},
	{"any", "1", "session/resume", `{"code":-32603,"message":"what is this"}`, "not opened, lost, fine"},
	{"any", "1", "session/fork", `{"code":-32602,"message":"Invalid params"}`, "not opened, lost, fine"},
	{"any", "1", "session/new", `{"code":-32602,"message":"Invalid params"}`, "unknown error, kept, failed"},
	{"any", "1", "initialize", `{"code":-32603,"message":"no"}`, "no start, dead, failed"},

	{"any", "1", "session/prompt", `stop=cancelled`, "cancelled, kept, fine"},
	{"@agentclientprotocol/claude-agent-acp", "0.100.0", "session/prompt", `stop=refusal;text=API Error: Usage Policy`, "refused, kept, failed"},
	{"any", "1", "session/prompt", `stop=refusal`, "refused, kept, failed"},
	{"any", "1", "session/prompt", `stop=max_tokens;text=so`, "cut short, kept, fine"},
	{"any", "1", "session/prompt", `stop=max_turn_requests`, "cut short, kept, fine"},
	{"any", "1", "session/prompt", `stop=end_turn`, "empty, kept, fine"},
	{"@agentclientprotocol/claude-agent-acp", "0.49.0", "session/prompt", `stop=end_turn;fresh;out=0`, "empty at once, lost, failed"},
	{"any", "1", "session/prompt", `stop=end_turn;fresh;out=0`, "empty, kept, fine"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", "stop=end_turn;system;text=You've hit your usage limit.", "usage limit, kept, failed"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", "stop=end_turn;system;text=what is this", "unknown error, kept, failed"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", "stop=end_turn;category=connection;title=stream disconnected before completion", "connection, kept, failed"},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", "stop=end_turn;category=service;title=high demand", "overload, kept, failed"},
	{"any", "1", "session/prompt", "stop=end_turn;category=limit;title=Prompt is too long", "too long, kept, failed"},
	{"any", "1", "session/prompt", "stop=end_turn;category=limit;title=no quota", "usage limit, kept, failed"},
	{"any", "1", "session/prompt", "stop=end_turn;category=access;title=Sign in", "auth, kept, failed"},
	{"any", "1", "session/prompt", "stop=end_turn;category=request;title=no", "unknown error, kept, failed"},
	{"any", "1", "initialize", "exit", "no start, dead, failed"},
	{"any", "1", "session/prompt", "exit", "agent gone, dead, seen"},
	{"any", "1", "session/load", "exit", "agent gone, dead, fine"},
	{"any", "1", "session/prompt", "stop=end_turn;text=done", ""},
	{"@agentclientprotocol/codex-acp", "2.6.0", "session/prompt", "stop=end_turn;null;text=**Model:** gpt", ""},
	{"any", "1", "session/resume", "", ""},
}

// outcome parses an answer.
func outcome(t *testing.T, agent, version, method, answer string) Outcome {
	t.Helper()
	o := Outcome{Agent: agent, Version: version, Method: method, OutputTokens: -1}
	if strings.HasPrefix(answer, "{") {
		o.Err = new(acp.Error)
		if err := json.Unmarshal([]byte(answer), o.Err); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for field := range strings.SplitSeq(answer, ";") {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "stop":
			o.Stop = value
		case "text":
			o.Text = value
		case "category":
			o.Category = value
		case "title":
			o.Title = value
		case "out":
			o.OutputTokens = 0
		case "fresh":
			o.Fresh = true
		case "system":
			o.SystemError = true
		case "null": // "usage":null has no meaning
		case "exit":
			o.Exited = true
		case "":
		default:
			t.Fatalf("what is %q?", field)
		}
	}
	return o
}

func TestDocumentedAnswers(t *testing.T) {
	for _, r := range documentedAnswers {
		t.Run(fmt.Sprintf("%s/%s/%s/%.60s", r.agent, r.version, r.method, r.answer), func(t *testing.T) {
			m := Classify(outcome(t, r.agent, r.version, r.method, r.answer))
			got := ""
			if m != (Meaning{}) {
				got = fmt.Sprintf("%s, %s, %s", m.Name, m.Session, m.Turn)
			}
			if got != r.want {
				t.Errorf("got %q, want %q", got, r.want)
			}
		})
	}
}

// allOutcomes returns all known outcomes.
func allOutcomes(t *testing.T) []Outcome {
	t.Helper()
	var all []Outcome
	for agent := range recorded {
		for _, a := range replay(t, agent) {
			all = append(all, a.Outcome)
		}
	}
	for _, r := range documentedAnswers {
		all = append(all, outcome(t, r.agent, r.version, r.method, r.answer))
	}
	return all
}

// TestEveryRowMatchesAnAnswer shows that no row is unreachable, and that each
// version of a row has a test.
func TestEveryRowMatchesAnAnswer(t *testing.T) {
	tried := map[string]bool{}
	for _, o := range allOutcomes(t) {
		if row := find(o); row != nil {
			tried[fmt.Sprint(*row)] = true
			tried[fmt.Sprint(*row)+o.Version] = true
		}
	}
	for i, row := range table() {
		if !tried[fmt.Sprint(row)] {
			t.Errorf("row %d (%s, %s) is never reached: %+v", i, row.meaning().Name, row.agent, row)
		}
		for _, version := range slices.Concat(row.Observed, row.Documented) {
			if !tried[fmt.Sprint(row)+version] {
				t.Errorf("row %d (%s): no answer of %s %s reaches it: %+v", i, row.meaning().Name, row.agent, version, row)
			}
		}
	}
}

func TestObservedRowsWereRecorded(t *testing.T) {
	reached := map[string]bool{}
	for agent := range recorded {
		for _, a := range replay(t, agent) {
			if row := find(a.Outcome); row != nil {
				reached[fmt.Sprint(*row)+a.Version] = true
			}
		}
	}
	for _, row := range table() {
		for _, version := range row.Observed {
			if (row.agent == claude.Name || row.agent == codex.Name) && !reached[fmt.Sprint(row)+version] {
				t.Errorf("%s %s is said to have shown %q, but it is not recorded: %+v", row.agent, version, row.meaning().Name, row)
			}
		}
	}
}

// TestUpdatesOverruleNotStarted checks that effects of the turn overrule a row, that only two
// rows declare a prompt as not started, and that any update overrules rows without an agent.
func TestUpdatesOverruleNotStarted(t *testing.T) {
	for _, o := range allOutcomes(t) {
		m := Classify(o)
		if o.Method != "session/prompt" {
			if m.Turn == NotStarted || m.Turn == Seen {
				t.Errorf("%s of %s: %s is about no prompt", o.Method, o.Agent, m.Turn)
			}
			continue
		}
		if m.Turn != NotStarted {
			continue
		}
		late := o // for example, a title from the previous turn
		late.Updates++
		if want := o.Agent != "any"; (Classify(late).Turn == NotStarted) != want {
			t.Errorf("%q of %s after an update: not started is %t, want %t", m.Name, o.Agent, !want, want)
		}
		if o.Err == nil || m.Session != Lost || m.Name != meanings[profile.MissingSession].Name && m.Name != meanings[profile.SessionEnded].Name {
			t.Errorf("%q of %s: a prompt that did not start", m.Name, o.Agent)
		}
		for name, shown := range map[string]func(*Outcome){
			"a tool call": func(o *Outcome) { o.Tools = 1 },
			"a word":      func(o *Outcome) { o.Text = "Warning: x\n\nI begin" },
		} {
			began := o
			shown(&began)
			if m := Classify(began); m.Turn != Seen {
				t.Errorf("%q of %s after %s: %s", m.Name, o.Agent, name, m.Turn)
			}
		}
	}
}

func TestTableIsWellFormed(t *testing.T) {
	for i, row := range table() {
		text := strings.Join(row.Text, "") + row.agent
		switch {
		case text != strings.ToLower(text):
			t.Errorf("row %d is matched in lower case: %q", i, text)
		case row.meaning().Name == "" || row.meaning().Message == "" || strings.Contains(row.meaning().Message, "\n"):
			t.Errorf("row %d says nothing, or more than a line", i)
		case row.By > profile.ByError && (row.Code != 0 || row.Key != ""):
			t.Errorf("row %d asks a %d for an error", i, row.By)
		case !isResult(row.By) && (row.Stop != nil || row.Category != nil || row.Silent || row.Idle):
			t.Errorf("row %d asks a %d for a result", i, row.By)
		case row.agent == "" && len(row.Observed)+len(row.Documented) > 0:
			t.Errorf("row %d has versions of an agent, so it belongs in the directory of the agent", i)
		case isResult(row.By) && row.Methods != nil:
			t.Errorf("row %d names methods, but only prompts have results", i)
		case row.meaning().Turn == NotStarted && (row.By > profile.ByError || row.Code == 0 && row.Text == nil):
			t.Errorf("row %d says without a reason that a prompt was not started", i)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, r := range documentedAnswers {
		f.Add(r.agent, r.method, r.answer, "said", uint8(0))
	}
	f.Add("", "session/prompt", `{"code":-32603,"message":"x","data":{"a":[{"b":"session not found"}]}}`, "", uint8(3))
	f.Fuzz(func(t *testing.T, agent, method, body, text string, flags uint8) {
		o := Outcome{Agent: agent, Method: method, Text: text, OutputTokens: -1, Tools: int(flags & 1), Updates: int(flags & 3),
			Exited: flags&4 != 0, SystemError: flags&8 != 0, Fresh: flags&16 != 0}
		if e := new(acp.Error); json.Unmarshal([]byte(body), e) == nil {
			o.Err = e
		} else {
			o.Stop = body
		}
		m, row := Classify(o), find(o)
		if (row == nil) != (m == Meaning{}) {
			t.Fatalf("row %v means %v", row, m)
		}
		if (o.Err != nil || o.Exited) && row == nil {
			t.Fatalf("an error that means nothing: %s", body)
		}
		if m.Turn == NotStarted && (row.meaning().Turn != NotStarted || method != "session/prompt" || o.Tools > 0 || o.reply() != "") {
			t.Fatalf("%s is thought not to have started: %s", method, body)
		}
	})
}
