package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
)

// writeSessions writes n sessions of Claude Code with some turns each, and returns a place with them.
func writeSessions(tb testing.TB, n, turns int) local.Place {
	tb.Helper()
	home := tb.TempDir()
	p := local.Place{Store: filepath.Join(home, "store"), UserHome: home, Homes: local.Homes{"claude": filepath.Join(home, ".claude"), "codex": filepath.Join(home, ".codex")}, Now: time.Now}
	for i := range n {
		dir := fmt.Sprintf("/srv/project-%d", i%100)
		folder := filepath.Join(p.Homes["claude"], "projects", claude.Slug(dir))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			tb.Fatal(err)
		}
		session := sessionID(i)
		if err := os.WriteFile(filepath.Join(folder, session+".jsonl"), []byte(transcriptOf(session, dir, turns)), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

func sessionID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i) }

// transcriptOf returns a session with turns of about 2 KiB each.
func transcriptOf(session, dir string, turns int) string {
	var b strings.Builder
	parent := "null"
	record := func(kind, uuid, message string) {
		fmt.Fprintf(&b, `{"parentUuid":%s,"isSidechain":false,"promptId":%q,"type":%q,"message":%s,"uuid":%q,"timestamp":"2026-11-20T11:23:33.600Z","permissionMode":"default","cwd":%q,"sessionId":%q,"version":"2.1.197"}`+"\n",
			parent, "p-"+uuid, kind, message, uuid, dir, session)
		parent = `"` + uuid + `"`
	}
	for i := range turns {
		record("user", fmt.Sprintf("%s-u%d", session, i), fmt.Sprintf(`{"role":"user","content":"prompt %d"}`, i))
		record("assistant", fmt.Sprintf("%s-a%d", session, i), fmt.Sprintf(`{"role":"assistant","id":"m%d","model":"m","content":[{"type":"text","text":%q}]}`, i, strings.Repeat("words ", 300)))
	}
	return b.String()
}

// TestDetailsCountAndFindWhatIsKept lists three sessions: one is kept, one has grown since it was kept, and one is too
// large to be counted.
func TestDetailsCountAndFindWhatIsKept(t *testing.T) {
	ctx := context.Background()
	p := writeSessions(t, 3, 2)
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	found, skipped := p.FindSessions(ctx)
	if len(found) != 3 || len(skipped) != 0 {
		t.Fatalf("found %d sessions, skipped %v", len(found), skipped)
	}
	byID := map[segno.SessionID]local.FoundSession{}
	for _, s := range found {
		byID[s.Session] = s
	}
	for _, i := range []int{0, 1} {
		s := byID[segno.SessionID(sessionID(i))]
		k, err := store.SessionTimeline().KeepSession(ctx, timeline.KeepRequest{Agent: s.Agent, Source: segno.Source{Session: s.Session, Path: s.Path}})
		if err != nil || k.Turns != 2 || k.Bytes != s.Bytes {
			t.Fatalf("kept %+v, %v", k, err)
		}
	}
	grown := byID[segno.SessionID(sessionID(1))]
	if err := os.WriteFile(grown.Path, []byte(transcriptOf(sessionID(1), "/srv/project-1", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	large := byID[segno.SessionID(sessionID(2))]
	if err := os.Truncate(large.Path, 40<<20); err != nil { // a hole of 40 MiB after the turns
		t.Fatal(err)
	}
	found, _ = p.FindSessions(ctx)
	details, err := p.Details(ctx, store, found)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range details {
		want := map[string]local.SessionDetail{
			sessionID(0): {Kept: true, SessionHeader: transcript.SessionHeader{Turns: 2}},
			sessionID(1): {SessionHeader: transcript.SessionHeader{Turns: 3}},
			sessionID(2): {SessionHeader: transcript.SessionHeader{Turns: -1}},
		}[string(d.Session)]
		if d.Err != nil || d.Kept != want.Kept || d.Turns != want.Turns || d.Title != "prompt 0" || !strings.HasPrefix(d.Dir, "/srv/project-") {
			t.Errorf("%s is %+v", d.Session, d)
		}
	}
}

// TestAnotherConversationIsNotKept lists a kept session after the agent replaced its last turn. The file has the same length as
// before, or is shorter.
func TestAnotherConversationIsNotKept(t *testing.T) {
	ctx := t.Context()
	for name, text := range map[string]string{"same length": otherTurn(0), "shorter": strings.Replace(otherTurn(0), "words words", "words", 1)} {
		t.Run(name, func(t *testing.T) {
			p := writeSessions(t, 1, 2)
			store, err := p.Open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			for _, kept := range []bool{true, false, true} {
				if kept {
					if _, err := store.SessionTimeline().KeepSession(ctx, requestFor(0)); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(pathOf(p, 0), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				found, _ := p.FindSessions(ctx)
				details, err := p.Details(ctx, store, found)
				if err != nil || len(details) != 1 || details[0].Kept != kept {
					t.Errorf("kept is %t: %+v, %v", kept, details, err)
				}
			}
		})
	}
}

// TestForkedSessionsShareTheirBytes keeps a session and a copy of it under another id with one more turn, as an agent's
// own fork writes it. The copy costs little more than that turn.
func TestForkedSessionsShareTheirBytes(t *testing.T) {
	ctx := context.Background()
	p := writeSessions(t, 1, 400)
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	keep := func(i int) timeline.Kept {
		s := segno.SessionID(sessionID(i))
		k, err := store.SessionTimeline().KeepSession(ctx, timeline.KeepRequest{Agent: claude.Agent, Source: segno.Source{Session: s}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := keep(0)
	folder := filepath.Join(p.Homes["claude"], "projects", claude.Slug("/srv/project-0"))
	fork := strings.ReplaceAll(transcriptOf(sessionID(0), "/srv/project-0", 401), `"sessionId":"`+sessionID(0), `"sessionId":"`+sessionID(1))
	if err := os.WriteFile(filepath.Join(folder, sessionID(1)+".jsonl"), []byte(fork), 0o600); err != nil {
		t.Fatal(err)
	}
	second := keep(1)
	if second.Thread == first.Thread || second.Turns != 1 {
		t.Errorf("the fork was kept as %+v", second)
	}
	shared := map[segno.Hash]bool{}
	err = store.Transcripts()[claude.Agent].Trace(ctx, *first.At, store.Objects(), func(name segno.Hash) bool {
		shared[name] = true
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	var own int
	err = store.Transcripts()[claude.Agent].Trace(ctx, *second.At, store.Objects(), func(name segno.Hash) bool {
		data, err := store.Objects().Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !shared[name] {
			own += len(data)
		}
		return true
	})
	if err != nil || own > 10<<10 {
		t.Errorf("the fork has %d bytes of its own, %v", own, err)
	}
}

func BenchmarkTenThousandSessions(b *testing.B) {
	p := writeSessions(b, 10_000, 5)
	ctx := context.Background()
	for b.Loop() {
		found, skipped := p.FindSessions(ctx)
		details, err := p.Details(ctx, nil, found)
		if err != nil || len(details) != 10_000 || len(skipped) > 0 {
			b.Fatal(len(details), skipped, err)
		}
	}
}

// BenchmarkKeep keeps sessions of small turns, and sessions of large ones.
func BenchmarkKeep(b *testing.B) {
	for _, words := range []int{300, 20_000} {
		b.Run(fmt.Sprintf("%d-words", words), func(b *testing.B) { benchmarkKeep(b, 200, 20, words) })
	}
}

func benchmarkKeep(b *testing.B, sessions, turns, words int) {
	p := writeSessions(b, sessions, turns)
	for i := range sessions {
		dir := fmt.Sprintf("/srv/project-%d", i%100)
		text := strings.ReplaceAll(transcriptOf(sessionID(i), dir, turns), strings.Repeat("words ", 300), strings.Repeat(fmt.Sprintf("words%d ", i), words))
		if err := os.WriteFile(filepath.Join(p.Homes["claude"], "projects", claude.Slug(dir), sessionID(i)+".jsonl"), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.Background()
	found, _ := p.FindSessions(ctx)
	for b.Loop() {
		p.Store = b.TempDir()
		store, err := p.Open(ctx)
		if err != nil {
			b.Fatal(err)
		}
		var requests []timeline.KeepRequest
		for _, s := range found {
			requests = append(requests, timeline.KeepRequest{Agent: s.Agent, Source: segno.Source{Session: s.Session, Path: s.Path}})
		}
		var bytes int64
		err = store.SessionTimeline().KeepSessions(ctx, requests, func(_ timeline.KeepRequest, k timeline.Kept, err error) {
			if bytes += k.Bytes; err != nil {
				b.Fatal(err)
			}
		})
		if b.SetBytes(bytes); err != nil {
			b.Fatal(err)
		}
		store.Close()
	}
}
