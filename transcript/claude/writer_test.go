package claude_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/claude"
)

// sessionWriter writes a transcript as Claude Code does, record by record.
type sessionWriter struct {
	path    string
	session segno.SessionID
	dir     string
	now     time.Time
	ids     int
	head    string // the parent of the next record
	lines   [][]byte
	count   int // lines in the file, blank and broken ones included
	pick    func(n int) int
	chain   []string // messages since the last compaction, newest last
	crlf    bool
}

const (
	firstSession  = "11111111-0000-4000-8000-000000000001"
	secondSession = "22222222-0000-4000-8000-000000000002"
)

// newSessionWriter begins a session in home. pick chooses a number below n.
func newSessionWriter(t testing.TB, home string, pick func(n int) int) *sessionWriter {
	t.Helper()
	dir := filepath.Join(home, "work.dir")
	path := filepath.Join(home, "projects", claude.Slug(dir), firstSession+".jsonl")
	for _, d := range []string{dir, filepath.Dir(path)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &sessionWriter{path: path, session: firstSession, dir: dir, pick: pick, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func first(int) int { return 0 }

func (s *sessionWriter) uuid() string {
	s.ids++
	return fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", s.ids*2654435761%(1<<32), s.ids)
}

func (s *sessionWriter) timestamp() string {
	s.now = s.now.Add(time.Duration(1+s.pick(7000)) * time.Millisecond)
	return s.now.Format("2006-01-02T15:04:05.000Z")
}

func quote(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

func parentOf(uuid string) string {
	if uuid == "" {
		return "null"
	}
	return quote(uuid)
}

func (s *sessionWriter) addLine(format string, args ...any) {
	s.lines = append(s.lines, fmt.Appendf(nil, format+"\n", args...))
}

func (s *sessionWriter) tail() string {
	return fmt.Sprintf(`"userType":"external","entrypoint":"cli","cwd":%s,"sessionId":"%s","version":"2.1.197","gitBranch":"main"}`, quote(s.dir), s.session)
}

// record adds a record of the conversation and moves the head to it.
func (s *sessionWriter) record(parent, typ, middle string) string {
	id := s.uuid()
	s.addLine(`{"parentUuid":%s,"isSidechain":false,%s"type":"%s","uuid":"%s","timestamp":"%s",%s`, parentOf(parent), middle, typ, id, s.timestamp(), s.tail())
	s.head = id
	if typ == "user" || typ == "assistant" {
		s.chain = append(s.chain, id)
	}
	return id
}

func (s *sessionWriter) prompt(text string) string {
	return s.record(s.head, "user", fmt.Sprintf(`"promptId":"p-%d","permissionMode":"default","message":{"role":"user","content":%s},`, s.ids, quote(text)))
}

func (s *sessionWriter) attach(kind string) string {
	return s.record(s.head, "attachment", fmt.Sprintf(`"attachment":{"type":"%s","content":"{\"sessionId\":\"%s\"}"},`, kind, s.session))
}

// block adds one block of an answer.
func (s *sessionWriter) block(message, block, stop string) string {
	return s.record(s.head, "assistant", fmt.Sprintf(`"message":{"model":"claude-x","id":"%s","type":"message","role":"assistant","content":[%s],"stop_reason":"%s"},"requestId":"req-%s",`, message, block, stop, message))
}

func (s *sessionWriter) answer(text string) string {
	return s.block("msg-"+s.uuid(), fmt.Sprintf(`{"type":"text","text":%s}`, quote(text)), "end_turn")
}

func (s *sessionWriter) result(parent, tool, text string) string {
	return s.record(parent, "user", fmt.Sprintf(`"promptId":"p","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":%s,"is_error":false}]},"toolUseResult":{"stdout":%s,"sessionId":"%s"},"sourceToolAssistantUUID":"%s",`,
		tool, quote(text), quote(text), s.session, parent))
}

// tools adds an answer with n tool calls and their results. Only the last result
// is an ancestor of the records after it.
func (s *sessionWriter) tools(n int) {
	message := "msg-" + s.uuid()
	if s.pick(2) == 0 {
		s.block(message, `{"type":"text","text":"let me see"}`, "tool_use")
	}
	type call struct{ record, tool string }
	var calls []call
	for i := range n {
		tool := fmt.Sprintf("toolu_%d_%d", s.ids, i)
		calls = append(calls, call{s.block(message, fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"Bash","input":{"command":"echo \"%d\""}}`, tool, i), "tool_use"), tool})
	}
	for _, c := range calls {
		s.result(c.record, c.tool, "out "+strings.Repeat("x\t\"é\n", s.pick(20)))
	}
}

func (s *sessionWriter) duration() string {
	return s.record(s.head, "system", `"subtype":"turn_duration","durationMs":12,"messageCount":3,`)
}

func (s *sessionWriter) lastPrompt(leaf, extra string) {
	s.addLine(`{"type":"last-prompt","lastPrompt":"…","leafUuid":%s,%s"sessionId":"%s"}`, parentOf(leaf), extra, s.session)
}

// compact adds the records of a compaction. how is 0 for no preserved records, 1 for a
// list, 2 for a segment.
func (s *sessionWriter) compact(how int) {
	keep := s.chain[len(s.chain)-1:]
	logical, boundary, summary := s.head, s.uuid(), s.uuid()
	meta := `"trigger":"manual","preTokens":1000`
	switch how {
	case 1:
		meta += fmt.Sprintf(`,"preservedMessages":{"anchorUuid":"%s","uuids":%s,"allUuids":%s}`, summary, quote(keep), quote(keep))
	case 2:
		meta += fmt.Sprintf(`,"preservedSegment":{"headUuid":"%s","anchorUuid":"%s","tailUuid":"%s"}`, keep[0], summary, keep[0])
	}
	s.addLine(`{"parentUuid":null,"logicalParentUuid":"%s","isSidechain":false,"type":"system","subtype":"compact_boundary","content":"Conversation compacted","timestamp":"%s","uuid":"%s","compactMetadata":{%s},%s`,
		logical, s.timestamp(), boundary, meta, s.tail())
	s.addLine(`{"parentUuid":"%s","isSidechain":false,"type":"user","message":{"role":"user","content":"This session is being continued"},"isCompactSummary":true,"uuid":"%s","timestamp":"%s",%s`, boundary, summary, s.timestamp(), s.tail())
	s.head, s.chain = summary, []string{summary}
	s.record(s.head, "user", `"message":{"role":"user","content":"<local-command-caveat>Caveat"},"isMeta":true,`)
	s.record(s.head, "user", `"message":{"role":"user","content":"<command-name>/compact</command-name>\n<command-args></command-args>"},`)
	s.record(s.head, "user", `"message":{"role":"user","content":"<local-command-stdout>Compacted</local-command-stdout>"},`)
}

// flush appends the added lines to the file and returns the file's size.
func (s *sessionWriter) flush(t testing.TB) int64 {
	t.Helper()
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, l := range s.lines {
		if s.crlf {
			l = append(bytes.TrimSuffix(l, []byte("\n")), '\r', '\n')
		}
		if _, err := f.Write(l); err != nil {
			t.Fatal(err)
		}
		s.count++
	}
	s.lines = nil
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// turn is a plain turn: a prompt, an answer with tools, the end.
func (s *sessionWriter) turn(text string) {
	s.prompt(text)
	if s.pick(2) == 0 {
		s.tools(1 + s.pick(3))
	}
	s.answer("done: " + text)
}

func (s *sessionWriter) source() segno.Source {
	return segno.Source{Session: s.session, Path: s.path, Dir: s.dir}
}

func (s *sessionWriter) bytes(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
