package claude_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
)

// capturedTurn is the position at the end of a turn, and the messages that the agent would
// have sent to the model at that time.
type capturedTurn struct {
	at   segno.Position
	want []string
}

// TestCutsKeepTheConversation writes random sessions and captures the end of every turn
// as a hook would. Later it cuts at each of them, from the agent's file and from
// the stored objects.
func TestCutsKeepTheConversation(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for _, seed := range soak.Seeds(t, rounds, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			checkRandomSession(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func checkRandomSession(t *testing.T, r *rand.Rand) {
	home := t.TempDir()
	s := newSessionWriter(t, home, r.IntN)
	s.crlf = r.IntN(8) == 0
	o := newMemoryObjects()
	c := claude.New(home, claude.Options{FS: noSync{vfs.OS}, Objects: o})
	turns := writeSession(t, s, c, o)
	before := s.bytes(t)
	checkEarlierTurns(t, s, c, o, turns)
	checkCutsOfCuts(t, s, c, o, turns)
	n := 0
	for _, lost := range []bool{false, true} {
		if lost {
			if err := os.Rename(s.path, s.path+".gone"); err != nil {
				t.Fatal(err)
			}
		}
		for _, turn := range turns {
			n++
			to := segno.Target{Session: segno.SessionID(fmt.Sprintf("22222222-0000-4000-8000-%012d", n)), Dir: s.dir}
			checkCut(t, c, o, turn, to)
		}
	}
	after, err := os.ReadFile(s.path + ".gone")
	if err != nil || !bytes.Equal(before, after) {
		t.Error("the source is not what it was")
	}
}

// checkCut cuts at a turn's end and compares the messages that the agent would send.
func checkCut(t *testing.T, c *claude.Transcripts, o segno.Objects, turn capturedTurn, to segno.Target) {
	t.Helper()
	got, err := c.Cut(context.Background(), turn.at, to, o)
	if err != nil {
		t.Fatalf("cut at %s: %v", turn.at.Leaf, err)
	}
	data, err := os.ReadFile(got.Path)
	if err != nil {
		t.Fatal(err)
	}
	if now := conversation(data); !slices.Equal(now, turn.want) {
		t.Fatalf("cut at %s: the model would be sent\n%q\nwant\n%q", turn.at.Leaf, now, turn.want)
	}
	for _, raw := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		if id := sessionOf(raw); id != "" && id != string(to.Session) {
			t.Fatalf("a line is still of session %s", id)
		}
	}
}

// writeSession writes a session of some turns and returns their ends.
func writeSession(t *testing.T, s *sessionWriter, c *claude.Transcripts, o *memoryObjects) []capturedTurn {
	var turns []capturedTurn
	var prev *segno.Position
	back := 0 // turns before this cannot be gone back to
	if s.pick(2) == 0 {
		s.addLine(`{"type":"mode","mode":"normal","sessionId":"%s"}`, s.session)
	}
	for n := range 2 + s.pick(6) {
		follows := ""
		if prev != nil {
			follows = prev.Leaf
		}
		switch {
		case len(turns) > back+1 && s.pick(4) == 0:
			to := turns[back+s.pick(len(turns)-back-1)]
			follows, s.head = to.at.Leaf, to.at.Leaf
			if s.pick(2) == 0 {
				s.lastPrompt(s.head, `"explicit":true,"rewound":true,`)
			}
		case len(turns) > back && s.pick(6) == 0:
			s.compact(s.pick(3))
			back = len(turns)
		}
		prompt := randomTurn(s, n)
		size := s.flush(t)
		got, err := c.Capture(context.Background(), s.source(), prev, o, isLeafOf(turns))
		if err != nil {
			t.Fatal(err)
		}
		if got.Position.Leaf != s.head || got.Position.Offset != size || got.Prompt != prompt || got.Follows != follows {
			t.Fatalf("turn %d: captured leaf %s offset %d prompt %s follows %s; want %s %d %s %s",
				n, got.Position.Leaf, got.Position.Offset, got.Prompt, got.Follows, s.head, size, prompt, follows)
		}
		prev = &got.Position
		turns = append(turns, capturedTurn{got.Position, modelInput(s.bytes(t), s.head)})
	}
	return turns
}

func isLeafOf(turns []capturedTurn) func(string) bool {
	return func(leaf string) bool {
		return slices.ContainsFunc(turns, func(s capturedTurn) bool { return s.at.Leaf == leaf })
	}
}

// modelInput returns the messages that an agent at the record leaf sends to the model.
func modelInput(data []byte, leaf string) []string {
	l := recording.LoadClaude(data)
	l.ApplyCompaction()
	return l.Records(l.Message(leaf))
}

// randomTurn writes one turn with random other records around it, and returns the
// prompt's uuid.
func randomTurn(s *sessionWriter, n int) string {
	if s.pick(3) == 0 {
		s.addLine(`{"type":"queue-operation","operation":"enqueue","content":"turn %d","sessionId":"%s"}`, n, s.session)
	}
	prompt := s.prompt(fmt.Sprintf("turn %d: say \"sessionId\":\"%s\" \\ é 日本 😀", n, s.session))
	if s.pick(6) == 0 {
		s.lastPrompt("00000000-0000-0000-0000-000000000000", `"explicit":true,`)
	}
	body := len(s.lines)
	if s.pick(3) == 0 {
		s.attach("skill_listing")
	}
	if s.pick(6) == 0 {
		requestLines(s)
	}
	if s.pick(4) == 0 {
		s.addLine(`{"type":"file-history-snapshot","messageId":"%s","snapshot":{"messageId":"%s","trackedFileBackups":{}},"isSnapshotUpdate":false}`, prompt, prompt)
	}
	for range s.pick(3) {
		s.tools(1 + s.pick(3))
	}
	if s.pick(5) == 0 {
		subagentLines(s)
	}
	if s.pick(10) == 0 {
		s.answer("")
	}
	answer := s.answer(fmt.Sprintf("answer %d\u0000\t%s", n, s.session))
	if s.pick(6) == 0 {
		shuffleLines(s, body-1)
	}
	otherLines(s)
	if s.pick(2) == 0 {
		s.duration()
	}
	switch s.pick(6) {
	case 0, 1:
		s.lastPrompt(s.head, "")
	case 2:
		s.lastPrompt(answer, `"explicit":true,`)
		s.head = answer
	}
	return prompt
}

// subagentLines writes a subagent's records into the same file, as old versions did.
func subagentLines(s *sessionWriter) {
	a := s.uuid()
	s.addLine(`{"parentUuid":null,"isSidechain":true,"type":"user","message":{"role":"user","content":"sub"},"uuid":"%s","timestamp":"%s",%s`, a, s.timestamp(), s.tail())
	s.addLine(`{"parentUuid":"%s","isSidechain":true,"type":"assistant","message":{"id":"side","content":[{"type":"text","text":"sub done"}]},"uuid":"%s","timestamp":"%s",%s`, a, s.uuid(), s.timestamp(), s.tail())
}

// shuffleLines moves records in front of their ancestors. The last record stays the last.
func shuffleLines(s *sessionWriter, from int) {
	for i := from; i < len(s.lines)-1; i++ {
		j := from + s.pick(len(s.lines)-1-from)
		s.lines[i], s.lines[j] = s.lines[j], s.lines[i]
	}
}

// requestLines writes the records of 2.1.329 about its calls of the model.
func requestLines(s *sessionWriter) {
	hash := strings.Repeat("0f", 32)
	s.addLine(`{"type":"api-request-shape","shapeHash":"%s","shape":{"system":[{"type":"text","text":"You are"}]},"sessionId":"%s"}`, hash, s.session)
	s.addLine(`{"type":"api-request-blob","hash":"%s","message":{"role":"user","content":[{"type":"text","text":"turn"}]},"sessionId":"%s"}`, hash, s.session)
	s.addLine(`{"type":"api-request","id":"%s","querySource":"repl_main_thread","shapeHash":"%s","params":{},"sessionId":"%s"}`, s.uuid(), hash, s.session)
	s.addLine(`{"type":"tools-used","tools":["Write"],"sessionId":"%s"}`, s.session)
	s.addLine(`{"type":"atis-latch","atis":"","sessionId":"%s"}`, s.session)
	s.addLine(`{"type":"file-history-delta","messageId":"%s","snapshotMessageId":"%s","trackingPath":"a.txt","sessionId":"%s"}`, s.head, s.head, s.session)
	s.addLine(`{"type":"cost-state","totalCostUSD":0.5,"sessionId":"%s"}`, s.session)
}

// otherLines writes lines that are not records, or records of unknown types.
func otherLines(s *sessionWriter) {
	switch s.pick(12) {
	case 0:
		s.addLine("")
	case 1:
		s.addLine(`{"type":"brand-new","sessionId":"%s","deep":{"sessionId":"%s"},"list":[1,2.5e-3,null,true]}`, s.session, s.session)
	case 2:
		s.addLine(`{"type":"user","uuid":"broken`)
	case 3:
		s.addLine("{\"type\":\"tag\",\"tag\":\"\xff\xfe invalid\",\"sessionId\":\"%s\"}", s.session)
	case 4:
		s.addLine(`{"type":"custom-title","customTitle":"t","sessionId":"%s","uuid":"%s"}`, s.session, s.uuid())
	case 5:
		s.addLine("\x00\x00\x00")
	case 6:
		s.addLine(`  { "sessionId" : "%s" , "type" : "permission-mode" , "permissionMode" : "plan" }  `, s.session)
	case 7:
		p := s.uuid()
		s.addLine(`{"parentUuid":"%s","isSidechain":false,"type":"progress","data":{},"uuid":"%s","timestamp":"%s",%s`, s.head, p, s.timestamp(), s.tail())
		s.head = p
		s.duration()
	}
}

// checkEarlierTurns captures the whole session at once. The turns of its line must equal
// those that were captured one by one.
func checkEarlierTurns(t *testing.T, s *sessionWriter, c *claude.Transcripts, o *memoryObjects, turns []capturedTurn) {
	got, err := c.Capture(context.Background(), s.source(), nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := turns[len(turns)-1].at
	if p := got.Position; p.Leaf != last.Leaf || p.SHA256 != last.SHA256 || p.Offset != last.Offset {
		t.Fatalf("adopted at %+v, want %+v", p, last)
	}
	for i, e := range got.Earlier {
		at := slices.IndexFunc(turns, func(s capturedTurn) bool { return s.at.Leaf == e.Position.Leaf })
		if at < 0 {
			continue // the agent wrote something between that turn's end and the next prompt
		}
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("33333333-0000-4000-8000-%012d", i)), Dir: s.dir}
		checkCut(t, c, o, capturedTurn{e.Position, turns[at].want}, to)
	}
	if ok, err := c.EndsAt(context.Background(), s.source(), got.Position); err != nil || ok != (headOf(s.bytes(t)) == messageOf(s.bytes(t), last.Leaf)) {
		t.Fatalf("EndsAt: %v, %v", ok, err)
	}
}

func headOf(data []byte) string { return recording.LoadClaude(data).Head() }

// conversation returns the messages of a transcript that the agent sends to the model, in
// order, without the fields that name the session.
func conversation(data []byte) []string {
	l := recording.LoadClaude(data)
	return l.Records(l.Head())
}

// sessionOf returns the session id in a line.
func sessionOf(line []byte) string {
	var r struct {
		Session string `json:"sessionId"`
	}
	if json.Unmarshal(bytes.TrimSpace(line), &r) != nil {
		return ""
	}
	return r.Session
}

func messageOf(data []byte, uuid string) string {
	l := recording.LoadClaude(data)
	l.ApplyCompaction()
	return l.Message(uuid)
}
