package sessions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// sampled are the recorded sessions that the real agents resume by default, at one turn. Under SEGNO_SOAK, they resume
// every session at every turn.
var sampled = []string{"claude/rich-sidecars", "codex/fork-of-fork"}

// TestTheAgentsResumeRecordedSessions lets the real agents resume recorded sessions that segno has cut at a turn, moved
// to another directory, or kept until the agent lost it. The model gets the conversation up to that turn.
func TestTheAgentsResumeRecordedSessions(t *testing.T) {
	all, err := recording.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range all {
		name := rec.Agent + "/" + rec.Name
		if !soak.IsWhole() && !isSampled(name) || rec.ID == "" {
			continue
		}
		if rec.Agent == codex.Agent {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, agent := e2erig.Codex(t, agentrig.CodexNewest, nil)
				s.Segno("disable", "codex")
				c := &resumeCase{Stage: s, rec: rec, home: agent.CodexHome(), transcripts: codex.New(agent.CodexHome(), codex.Options{})}
				c.resume = func(rig *agentrig.Rig, session segno.SessionID, prompt string) (string, error) {
					res, err := (&agentrig.Codex{Rig: rig, Version: agent.Version}).Exec(s.Ctx, prompt, "resume", string(session))
					return res.Thread, err
				}
				c.run()
			})
			continue
		}
		t.Run(name, func(t *testing.T) {
			e2erig.ScenarioOnNewest(t, nil, func(s *e2erig.Stage) {
				s.Segno("disable", "claude")
				c := &resumeCase{Stage: s, rec: rec, home: s.Rig.Config, transcripts: claude.New(s.Rig.Config, claude.Options{})}
				c.resume = func(rig *agentrig.Rig, session segno.SessionID, prompt string) (string, error) {
					res, err := rig.Print(s.Ctx, prompt, "--resume", string(session))
					if err == nil {
						_, err = res.Must()
					}
					return res.Outcome.SessionID, err
				}
				c.run()
			})
		})
	}
}

func isSampled(name string) bool { return slices.Contains(sampled, name) }

// resumeCase is a recorded session in the home of a real agent.
type resumeCase struct {
	*e2erig.Stage
	rec         recording.Session
	home        string
	transcripts interface {
		segno.Transcript
		transcript.TurnCapturer
	}
	resume func(rig *agentrig.Rig, session segno.SessionID, prompt string) (string, error)
	n      int // the number of sessions made so far
}

// run cuts the session at its turns and tests each of the results.
func (c *resumeCase) run() {
	c.Helper()
	there := filepath.Join(c.TempDir(), "recorded")
	if err := c.rec.Install(there); err != nil {
		c.Fatal(err)
	}
	positions, store := c.capture(there)
	defer store.Close()
	if !soak.IsWhole() {
		positions = positions[len(positions)/2:][:1]
	}
	for i, p := range positions {
		for _, mode := range []string{"cut", "move", "purge"} {
			if !soak.IsWhole() && mode == "cut" {
				continue // the other runs begin with its items
			}
			c.n++
			to := segno.Target{Session: segno.SessionID(fmt.Sprintf("%08x-0000-4000-8000-000000000001", c.n)), Dir: c.Rig.Project}
			src, err := c.transcripts.Cut(c.Ctx, p, to, store.Objects())
			if err != nil {
				c.Fatal(err)
			}
			want := c.context(src)
			if diff := cmp.Diff(c.rec.Context, want); i == len(positions)-1 && soak.IsWhole() && c.rec.Context != nil && diff != "" {
				c.Errorf("the newest turn:\n%s", diff)
			}
			c.test(mode, src, want)
		}
	}
}

// capture returns the positions at the ends of the turns.
func (c *resumeCase) capture(home string) ([]segno.Position, *memory.Store) {
	c.Helper()
	store := memory.New(nil)
	var there segno.Transcript = claude.New(home, claude.Options{})
	if c.rec.Agent == codex.Agent {
		there = codex.New(home, codex.Options{})
	}
	batch := store.Objects().Batch()
	defer batch.Close()
	got, err := there.Capture(c.Ctx, segno.Source{Session: segno.SessionID(c.rec.ID)}, nil, batch, nil)
	if err != nil {
		c.Fatal(err)
	}
	staged, err := batch.Stage(c.Ctx)
	if err == nil {
		err = store.Objects().Keep(c.Ctx, staged)
	}
	if err != nil {
		c.Fatal(err)
	}
	var all []segno.Position
	for _, turn := range got.Earlier {
		all = append(all, turn.Position)
	}
	return append(all, got.Position), store
}

// context returns what the agent should send when it resumes a session.
func (c *resumeCase) context(src segno.Source) []string {
	c.Helper()
	if c.rec.Agent == codex.Agent {
		got, err := recording.CodexContext(c.home, string(src.Session))
		if err != nil {
			c.Fatal(err)
		}
		return got
	}
	data, err := os.ReadFile(src.Path)
	if err != nil {
		c.Fatal(err)
	}
	return recording.LoadClaude(data).Context("")
}

// test either moves a session, or keeps, purges and resumes it. The agent then continues it.
func (c *resumeCase) test(mode string, src segno.Source, want []string) {
	c.Helper()
	rig, session := c.Rig, string(src.Session)
	switch mode {
	case "move":
		dir := filepath.Join(c.TempDir(), "moved")
		if err := os.Mkdir(dir, 0o755); err != nil {
			c.Fatal(err)
		}
		c.Segno("sessions", "move", session, "--to", dir)
		var err error
		if rig, err = c.Rig.In(dir); err != nil {
			c.Fatal(err)
		}
	case "purge":
		c.Segno("sessions", "keep", session)
		for _, dir := range []string{"projects", "tasks", "file-history", "sessions"} {
			if err := os.RemoveAll(filepath.Join(c.home, dir)); err != nil {
				c.Fatal(err)
			}
		}
		c.Segno("resume", session, "--print")
	}
	before := len(c.Model.Calls())
	resumed, err := c.resume(rig, src.Session, e2erig.Prompt("PROBE", "probe answer"))
	if err != nil {
		c.Fatalf("%s: %v", mode, err)
	}
	calls := c.Model.Calls()[before:]
	if resumed != session || len(calls) == 0 {
		c.Fatalf("%s: the agent continued %s as %s with %d calls", mode, session, resumed, len(calls))
	}
	got := withoutInterrupted(recording.Items(calls[0].Messages()))
	if diff := cmp.Diff(want, got[:max(0, len(got)-1)]); diff != "" {
		c.Errorf("%s of %d items: the model got\n%s", mode, len(want), diff)
	}
}

// withoutInterrupted omits a call that has no result. Claude Code 2.1.197 also omits it; newer versions send it with a
// result that they add.
func withoutInterrupted(items []string) (out []string) {
	for _, item := range items {
		if strings.HasPrefix(item, `["tool_result"`) && strings.Contains(item, `"[Tool call interrupted: `) && len(out) > 0 {
			out = out[:len(out)-1]
			continue
		}
		out = append(out, item)
	}
	return out
}
