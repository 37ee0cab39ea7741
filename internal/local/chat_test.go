package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// chat is a session of Claude Code in the fixture's project: its transcript and its recorded turns.
type chat struct {
	*fixture
	session segno.SessionID
	path    string
	n, ids  int
	head    string // the parent of the next record
}

// chat begins a session, which has no transcript before its first record.
func (g *fixture) chat(n int) *chat {
	c := &chat{fixture: g, session: segno.SessionID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)), n: n}
	c.path = filepath.Join(g.place.Homes["claude"], "projects", claude.Slug(g.project), string(c.session)+".jsonl")
	return c
}

// continueChat returns a session whose transcript already has records.
func (g *fixture) continueChat(n int, l *segno.Link) *chat {
	g.Helper()
	c := g.chat(n)
	c.session, c.path = l.Session, l.Path
	if l.Position == nil {
		g.Fatalf("nobody knows where %s ends", l.Session)
	}
	c.head = l.Position.Leaf
	return c
}

func (c *chat) source() segno.Source { return segno.Source{Session: c.session, Dir: c.project} }

// writes appends a record to the transcript.
func (c *chat) writes(typ, middle string) {
	c.Helper()
	parent := "null"
	if c.head != "" {
		parent = `"` + c.head + `"`
	}
	c.ids++
	c.head = fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", c.n, c.ids)
	at := time.Date(2026, 3, 1, 12, c.n, c.ids, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		c.Fatal(err)
	}
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, `{"parentUuid":%s,"isSidechain":false,%s"type":"%s","uuid":"%s","timestamp":"%s","userType":"external","entrypoint":"cli","cwd":%q,"sessionId":"%s","version":"2.1.197","gitBranch":"main"}`+"\n",
		parent, middle, typ, c.head, at, c.project, c.session)
	if err != nil {
		c.Fatal(err)
	}
}

// prompt appends a message of the user, and answer one of the agent.
func (c *chat) prompt(text string) {
	c.Helper()
	c.writes("user", fmt.Sprintf(`"promptId":"p-%d-%d","permissionMode":"default","message":{"role":"user","content":%q},`, c.n, c.ids, text))
}

func (c *chat) answer(text string) {
	c.Helper()
	c.writes("assistant", fmt.Sprintf(`"message":{"model":"claude-x","id":"msg-%d-%d","type":"message","role":"assistant","content":[{"type":"text","text":%q}],"stop_reason":"end_turn"},"requestId":"req-%d-%d",`,
		c.n, c.ids, text, c.n, c.ids))
}

// exchange appends an unrecorded turn to the transcript.
func (c *chat) exchange(text string) {
	c.Helper()
	c.prompt(text)
	c.answer("done: " + text)
}

// opens records the beginning of a turn, and ends records its end.
func (c *chat) opens(key string) timeline.TurnStart {
	c.Helper()
	var begun timeline.TurnStart
	err := c.record(nil, func(ctx context.Context, r *timeline.Timeline) (err error) {
		begun, err = r.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "claude", Source: c.source(), Text: key})
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return begun
}

func (c *chat) ends(key string) (made *segno.Checkpoint) {
	c.Helper()
	err := c.record(nil, func(ctx context.Context, r *timeline.Timeline) (err error) {
		made, err = r.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "claude", Source: c.source()})
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return made
}

// runTurn records a complete turn that writes the file a.
func (c *chat) runTurn(key string) *segno.Checkpoint {
	c.Helper()
	c.opens(key)
	c.exchange(key)
	c.write("a", key)
	return c.ends(key)
}

// openThread opens the thread of a session, as the proxy does before its first prompt.
func (g *fixture) openThread(agent string, src segno.Source, title string) segno.ThreadID {
	g.Helper()
	var id segno.ThreadID
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) (err error) {
		id, err = r.AdoptSession(ctx, timeline.Adoption{Agent: agent, Source: src, Title: title})
		return err
	})
	if err != nil {
		g.Fatal(err)
	}
	return id
}

func (g *fixture) join(thread segno.ThreadID, l segno.Link) {
	g.Helper()
	err := g.record(nil, func(ctx context.Context, r *timeline.Timeline) error { return r.JoinSession(ctx, thread, l) })
	if err != nil {
		g.Fatal(err)
	}
}

// threadSummary is a thread: its checkpoints, oldest first, its head and its chain.
type threadSummary struct {
	segno.Thread
	head  segno.Head
	cs    []segno.Checkpoint
	links []segno.Link
}

func (g *fixture) summarize(id segno.ThreadID) (s threadSummary) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) (err error) {
		for t, err := range st.Threads(ctx, segno.ThreadQuery{IDPrefix: string(id)}) {
			if err != nil {
				return err
			}
			s.Thread = t
		}
		if s.head, err = st.Head(ctx, id); err != nil {
			return err
		}
		for c, err := range st.Checkpoints(ctx, segno.CheckpointQuery{Thread: id}) {
			if err != nil {
				return err
			}
			s.cs = append(s.cs, c)
		}
		for l, err := range st.Chain(ctx, id) {
			if err != nil {
				return err
			}
			s.links = append(s.links, l)
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	slices.Reverse(s.cs)
	return s
}

func (s threadSummary) at(t testing.TB, id segno.CommitID) segno.Checkpoint {
	t.Helper()
	for _, c := range s.cs {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("%s is not in the thread", id)
	return segno.Checkpoint{}
}

// line returns the kinds and prompts from the base to the head.
func (s threadSummary) line(t testing.TB) string {
	t.Helper()
	var parts []string
	for id := s.head.Head; id != s.Parent; {
		c := s.at(t, id)
		part := string(c.Kind)
		if c.Kind == segno.CheckpointTurn {
			part = fmt.Sprintf("%d %s", c.Turn, c.Prompt)
		}
		parts = append(parts, part)
		id = c.Parent
	}
	slices.Reverse(parts)
	return strings.Join(parts, ", ")
}

func (g *fixture) threads() (ids []segno.ThreadID) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		for t, err := range st.Threads(ctx, segno.ThreadQuery{}) {
			if err != nil {
				return err
			}
			ids = append(ids, t.ID)
		}
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	return ids
}

// entries returns the entries of a checkpoint, without those of its ancestors.
func (g *fixture) entries(id segno.CommitID) (es []segno.Entry) {
	g.Helper()
	err := g.withTimeline(nil, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		line, err := st.Load(ctx, id, segno.Window{Last: 1, Entries: true})
		if err != nil {
			return err
		}
		es = line.Commits[0].Entries
		return nil
	})
	if err != nil {
		g.Fatal(err)
	}
	return es
}
