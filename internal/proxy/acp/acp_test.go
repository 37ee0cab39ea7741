package acp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	. "github.com/dalsegno/segno/internal/proxy/acp"
)

// seeds returns lines of agents and clients, and malformed lines.
func seeds() []string {
	return []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":"dur:init","result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}` + "\r",
		`{"method":"session/update","params":{"update":{"sessionId":"inner"},"sessionId":"s\u00e9\"1\\"},"jsonrpc":"2.0"}`,
		`{"id":1.50e+0,"id":null,"result":{"sessionId":"a"},"result":{"sessionId":"b"}}`,
		`{"id":1,"error":{"code":-32002,"message":"Resource not found","data":{"sessionId":"x"}}}`,
		"\t {  \"id\" : 12345678901234567890 ,\"m\\u0065thod\":\"x\" , \"params\":[ 1 , {\"sessionId\":\"no\"} ] } ",
		`{"params":{"sessionId":12},"result":{"sessionId":"r"}}`,
		`{"params":{"sessionId":null,"sessionId":"twice"}}`,
		`{"params":{"sessionId":"once","sessionId":{}}}`,
		`{"":"","id":"","method":"","params":{},"result":[],"error":null}`,
		`{}`, `[]`, `[{"id":1}]`, `"id"`, `12`, `null`, `{`, `{"id":1}{"id":2}`, `{"id":1} x`, ``, `   `, "\xff", `{"id":"` + "\xff\xfe" + `"}`,
		`{"a":"` + `\ud800` + `","method":"\ud83d\ude00"}`,
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"id":3}`,
		`{"a":"}],{[","b":"\\","c":"\"","id":4}`,
		"{\"id\":5,\r\"method\":\"x\"}",
	}
}

// decoded is a message decoded by encoding/json. Its keys are case-sensitive.
type decoded map[string]json.RawMessage

func decode(t *testing.T, line []byte) decoded {
	t.Helper()
	var m decoded
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%q is taken, but is no object: %v", line, err)
	}
	return m
}

// FuzzParse compares Parse with encoding/json.
func FuzzParse(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s + "\n"))
	}
	f.Fuzz(func(t *testing.T, line []byte) { checkParse(t, line) })
}

func checkParse(t *testing.T, line []byte) {
	before := bytes.Clone(line)
	m, err := Parse(line)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("the error is %T", err)
	}
	object := json.Valid(line) && bytes.TrimLeft(line, " \t\r\n")[0] == '{'
	if (err == nil) != object {
		t.Fatalf("%q: error %v; an object: %v", line, err, object)
	}
	if !bytes.Equal(m.Splice(), before) {
		t.Fatalf("a splice of nothing makes %q of %q", m.Splice(), before)
	}
	if err != nil {
		return
	}
	d := decode(t, line)
	for _, part := range []struct {
		key string
		at  Span
	}{{"id", m.ID}, {"method", m.Method}, {"params", m.Params}, {"result", m.Result}, {"error", m.Error}} {
		sameValue(t, part.key, part.at.Of(line), d[part.key])
		if part.at != m.Find(Span{From: bytes.IndexByte(line, '{'), To: len(line)}, part.key) {
			t.Fatalf("Find of %s is another place in %q", part.key, line)
		}
	}
	if got, want := m.SessionID(), sessionID(d); got != want {
		t.Fatalf("session %q, want %q in %q", got, want, line)
	}
	if got, want := m.MethodName(), str(d["method"]); got != want {
		t.Fatalf("method %q, want %q", got, want)
	}
	if m.IsRequest() && m.IsResponse() || m.IsRequest() && m.IsNotification() || m.IsResponse() && m.IsNotification() {
		t.Fatalf("%q is two kinds of message", line)
	}
	checkSplice(t, m)
}

// checkSplice replaces the session and the id of a message.
func checkSplice(t *testing.T, m Message) {
	const session, id = `"another \"<&>\""`, `"dur:1"`
	edits := []Edit{{At: m.ID, With: []byte(id)}, {At: m.Session, With: []byte(session)}}
	out, err := Parse(m.Splice(edits...))
	if err != nil {
		t.Fatalf("a spliced line is no message: %q", out.Line)
	}
	if got, _ := Parse(m.Splice(edits[1], edits[0])); !bytes.Equal(got.Line, out.Line) {
		t.Fatal("the order of edits counts")
	}
	if !m.ID.IsZero() && out.IDText() != id || !m.Session.IsZero() && out.SessionID() != `another "<&>"` {
		t.Fatalf("%q does not have what was spliced in", out.Line)
	}
	back := out.Splice(Edit{At: out.ID, With: m.ID.Of(m.Line)}, Edit{At: out.Session, With: m.Session.Of(m.Line)})
	if !bytes.Equal(back, m.Line) {
		t.Fatalf("spliced there and back: %q, want %q", back, m.Line)
	}
}

// sameValue compares two JSON values by their compact text; absent is nil.
func sameValue(t *testing.T, key string, got, want []byte) {
	t.Helper()
	if (got == nil) != (want == nil) || got != nil && !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
		t.Fatalf("%s is %q, want %q", key, got, want)
	}
}

// sessionID returns params.sessionId, or else result.sessionId, if that is a string.
func sessionID(d decoded) string {
	for _, in := range []string{"params", "result"} {
		var o map[string]json.RawMessage
		if json.Unmarshal(d[in], &o) == nil {
			if v, ok := o["sessionId"]; ok {
				return str(v)
			}
		}
	}
	return ""
}

func str(v json.RawMessage) string {
	var s string
	if len(v) == 0 || v[0] != '"' || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

func TestSpliceInserts(t *testing.T) {
	m, err := Parse([]byte(`{"a":{"b":1},"id":2}`))
	if err != nil {
		t.Fatal(err)
	}
	a := m.Find(Span{To: len(m.Line)}, "a")
	b := m.Find(a, "b")
	before := func(s Span, text string) Edit { return Edit{At: Span{From: s.From, To: s.From}, With: []byte(text)} }
	got := string(m.Splice(Edit{At: b, With: []byte("3")}, Edit{}, before(m.ID, "1"), before(b, "x"), before(b, "y"), before(Span{From: a.From + 1, To: a.To}, `"c":0,`)))
	if want := `{"a":{"c":0,"b":xy3},"id":12}`; got != want {
		t.Errorf("spliced: %s, want %s", got, want)
	}
}

func TestElements(t *testing.T) {
	line := []byte(`{"params":{"prompt":[ {"text":"a,]"} ,[1,[2]], "x" , 3e1,null]}}` + "\n")
	m, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	m.Elements(m.Find(m.Params, "prompt"), func(s Span) { got = append(got, string(s.Of(line))) })
	if want := `{"text":"a,]"} [1,[2]] "x" 3e1 null`; strings.Join(got, " ") != want {
		t.Errorf("elements: %q", got)
	}
	for _, none := range []Span{{}, m.Params, m.Find(m.Params, "prompt", "text")} {
		m.Elements(none, func(s Span) { t.Errorf("an element of no array: %q", s.Of(line)) })
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
	}{
		{"hello\n", CodeParse}, {"{\"id\":1\n", CodeParse}, {"{\"id\":1}}\n", CodeParse}, {"\n", CodeParse},
		{"[]\n", CodeInvalidRequest}, {"[{\"id\":1}]\n", CodeInvalidRequest}, {"null\n", CodeInvalidRequest}, {"\"{\"\n", CodeInvalidRequest},
		{strings.Repeat("[", 1<<20) + "\n", CodeParse},
		{`{"a":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + "}\n", CodeParse},
	} {
		_, err := Parse([]byte(c.line))
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%.20q: %v, want %d", c.line, err, c.code)
			continue
		}
		answer, err := Parse(Failure("", e))
		if err != nil || answer.IDText() != "null" || answer.Err().Code != c.code {
			t.Errorf("the answer is %s", answer.Line)
		}
	}
}

func TestBuiltMessagesParse(t *testing.T) {
	m, err := Parse(Request(`"segno:1"`, "session/new", Encode(map[string]string{"cwd": "/a<b>&c"})))
	if err != nil || !m.IsRequest() || m.IDText() != `"segno:1"` || m.MethodName() != "session/new" || !bytes.Contains(m.Line, []byte("/a<b>&c")) {
		t.Errorf("request: %s, %v", m.Line, err)
	}
	m, err = Parse(Notification("session/cancel", Encode(map[string]string{"sessionId": "s"})))
	if err != nil || !m.IsNotification() || m.SessionID() != "s" {
		t.Errorf("notification: %s, %v", m.Line, err)
	}
	m, err = Parse(Result("7", Encode(map[string]string{"sessionId": "s"})))
	if err != nil || !m.IsResponse() || m.SessionID() != "s" || m.Err() != nil {
		t.Errorf("result: %s, %v", m.Line, err)
	}
	m, err = Parse(Result("7", nil))
	if err != nil || m.Result.IsZero() {
		t.Errorf("a result of nothing is %s, which has no result", m.Line)
	}
}
