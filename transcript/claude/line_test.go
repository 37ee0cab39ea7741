package claude_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
)

// saved is a turn's end as it was captured when it was new, and what the agent
// would have sent to the model then.
type saved struct {
	at   segno.Position
	want []string
}

// TestCutsKeepTheConversation writes random sessions, captures every turn's end
// as a hook would, and later cuts at each of them, from the agent's file and from
// what was stored.
func TestCutsKeepTheConversation(t *testing.T) {
	rounds := uint64(60)
	if os.Getenv("SEGNO_SOAK") != "" {
		rounds = 2000
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			tryLines(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func tryLines(t *testing.T, r *rand.Rand) {
	home := t.TempDir()
	s := newScribe(t, home, r.IntN)
	s.crlf = r.IntN(8) == 0
	o := newShelf()
	c := claude.New(home, claude.Options{FS: quick{vfs.OS}, Objects: o})
	turns := writeSession(t, s, c, o)
	before := s.bytes(t)
	tryEarlier(t, s, c, o, turns)
	tryCutsOfCuts(t, s, c, o, turns)
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
			tryCut(t, c, o, turn, to)
		}
	}
	after, err := os.ReadFile(s.path + ".gone")
	if err != nil || !bytes.Equal(before, after) {
		t.Error("the source is not what it was")
	}
}

// tryCut cuts at a turn's end and compares what the agent would send.
func tryCut(t *testing.T, c *claude.Transcripts, o segno.Objects, turn saved, to segno.Target) {
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
func writeSession(t *testing.T, s *scribe, c *claude.Transcripts, o *shelf) []saved {
	var turns []saved
	var prev *segno.Position
	back := 0 // turns before this cannot be gone back to
	if s.pick(2) == 0 {
		s.say(`{"type":"mode","mode":"normal","sessionId":"%s"}`, s.session)
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
		got, err := c.Capture(context.Background(), s.source(), prev, o, knows(turns))
		if err != nil {
			t.Fatal(err)
		}
		if got.Position.Leaf != s.head || got.Position.Offset != size || got.Prompt != prompt || got.Follows != follows {
			t.Fatalf("turn %d: captured leaf %s offset %d prompt %s follows %s; want %s %d %s %s",
				n, got.Position.Leaf, got.Position.Offset, got.Prompt, got.Follows, s.head, size, prompt, follows)
		}
		prev = &got.Position
		turns = append(turns, saved{got.Position, sent(s.bytes(t), s.head)})
	}
	return turns
}

func knows(turns []saved) func(string) bool {
	return func(leaf string) bool {
		return slices.ContainsFunc(turns, func(s saved) bool { return s.at.Leaf == leaf })
	}
}

// sent is what the model is sent by an agent that stands on leaf.
func sent(data []byte, leaf string) []string {
	l := load(data)
	l.relink()
	return texts(l.messages(l.speaker(leaf)))
}

// randomTurn writes one turn with whatever may stand around it, and returns the
// prompt's uuid.
func randomTurn(s *scribe, n int) string {
	if s.pick(3) == 0 {
		s.say(`{"type":"queue-operation","operation":"enqueue","content":"turn %d","sessionId":"%s"}`, n, s.session)
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
		request(s)
	}
	if s.pick(4) == 0 {
		s.say(`{"type":"file-history-snapshot","messageId":"%s","snapshot":{"messageId":"%s","trackedFileBackups":{}},"isSnapshotUpdate":false}`, prompt, prompt)
	}
	for range s.pick(3) {
		s.tools(1 + s.pick(3))
	}
	if s.pick(5) == 0 {
		sidechain(s)
	}
	if s.pick(10) == 0 {
		s.answer("")
	}
	answer := s.answer(fmt.Sprintf("answer %d\u0000\t%s", n, s.session))
	if s.pick(6) == 0 {
		shuffle(s, body-1)
	}
	noise(s)
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

// sidechain writes a subagent's records, as old versions did into the same file.
func sidechain(s *scribe) {
	a := s.uuid()
	s.say(`{"parentUuid":null,"isSidechain":true,"type":"user","message":{"role":"user","content":"sub"},"uuid":"%s","timestamp":"%s",%s`, a, s.stamp(), s.tail())
	s.say(`{"parentUuid":"%s","isSidechain":true,"type":"assistant","message":{"id":"side","content":[{"type":"text","text":"sub done"}]},"uuid":"%s","timestamp":"%s",%s`, a, s.uuid(), s.stamp(), s.tail())
}

// shuffle moves records in front of their ancestors, but leaves the last one last.
func shuffle(s *scribe, from int) {
	for i := from; i < len(s.lines)-1; i++ {
		j := from + s.pick(len(s.lines)-1-from)
		s.lines[i], s.lines[j] = s.lines[j], s.lines[i]
	}
}

// request writes what 2.1.329 notes of its calls of the model.
func request(s *scribe) {
	hash := strings.Repeat("0f", 32)
	s.say(`{"type":"api-request-shape","shapeHash":"%s","shape":{"system":[{"type":"text","text":"You are"}]},"sessionId":"%s"}`, hash, s.session)
	s.say(`{"type":"api-request-blob","hash":"%s","message":{"role":"user","content":[{"type":"text","text":"turn"}]},"sessionId":"%s"}`, hash, s.session)
	s.say(`{"type":"api-request","id":"%s","querySource":"repl_main_thread","shapeHash":"%s","params":{},"sessionId":"%s"}`, s.uuid(), hash, s.session)
	s.say(`{"type":"tools-used","tools":["Write"],"sessionId":"%s"}`, s.session)
	s.say(`{"type":"atis-latch","atis":"","sessionId":"%s"}`, s.session)
	s.say(`{"type":"file-history-delta","messageId":"%s","snapshotMessageId":"%s","trackingPath":"a.txt","sessionId":"%s"}`, s.head, s.head, s.session)
	s.say(`{"type":"cost-state","totalCostUSD":0.5,"sessionId":"%s"}`, s.session)
}

// noise writes lines that are no records, or of kinds nobody knows.
func noise(s *scribe) {
	switch s.pick(12) {
	case 0:
		s.say("")
	case 1:
		s.say(`{"type":"brand-new","sessionId":"%s","deep":{"sessionId":"%s"},"list":[1,2.5e-3,null,true]}`, s.session, s.session)
	case 2:
		s.say(`{"type":"user","uuid":"broken`)
	case 3:
		s.say("{\"type\":\"tag\",\"tag\":\"\xff\xfe invalid\",\"sessionId\":\"%s\"}", s.session)
	case 4:
		s.say(`{"type":"custom-title","customTitle":"t","sessionId":"%s","uuid":"%s"}`, s.session, s.uuid())
	case 5:
		s.say("\x00\x00\x00")
	case 6:
		s.say(`  { "sessionId" : "%s" , "type" : "permission-mode" , "permissionMode" : "plan" }  `, s.session)
	case 7:
		p := s.uuid()
		s.say(`{"parentUuid":"%s","isSidechain":false,"type":"progress","data":{},"uuid":"%s","timestamp":"%s",%s`, s.head, p, s.stamp(), s.tail())
		s.head = p
		s.duration()
	}
}

// tryEarlier adopts the whole session at once: the turns of its line must come
// out as they were captured one by one.
func tryEarlier(t *testing.T, s *scribe, c *claude.Transcripts, o *shelf, turns []saved) {
	got, err := c.Capture(context.Background(), s.source(), nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := turns[len(turns)-1].at
	if p := got.Position; p.Leaf != last.Leaf || p.SHA256 != last.SHA256 || p.Offset != last.Offset {
		t.Fatalf("adopted at %+v, want %+v", p, last)
	}
	for i, e := range got.Earlier {
		at := slices.IndexFunc(turns, func(s saved) bool { return s.at.Leaf == e.Position.Leaf })
		if at < 0 {
			continue // something was written between that turn's end and the next prompt
		}
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("33333333-0000-4000-8000-%012d", i)), Dir: s.dir}
		tryCut(t, c, o, saved{e.Position, turns[at].want}, to)
	}
	if ok, err := c.EndsAt(context.Background(), s.source(), got.Position); err != nil || ok != (headOf(s.bytes(t)) == speakerOf(s.bytes(t), last.Leaf)) {
		t.Fatalf("stands: %v, %v", ok, err)
	}
}

func headOf(data []byte) string { return load(data).head() }

func speakerOf(data []byte, uuid string) string {
	l := load(data)
	l.relink()
	return l.speaker(uuid)
}
