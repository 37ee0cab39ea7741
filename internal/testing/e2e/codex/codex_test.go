// Package codex_test runs the real Codex on sessions that transcript/codex wrote, and with segno's
// hooks.
package codex_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript/codex"
	"github.com/google/uuid"
)

func TestMain(m *testing.M) { e2erig.Main(m) }

// stage is one installation of Codex with a model.
type stage struct {
	*testing.T
	ctx   context.Context
	model *fakemodel.Server
	url   string
	agent *agentrig.Codex
	store *memory.Store
}

// newest returns the newest version of Codex if the test is drawn, and with SEGNO_SOAK all versions. [drawn] is for what differs
// between the versions, and soak.Versions for the main journeys.
func newest(t *testing.T) []agentrig.CodexVersion {
	t.Helper()
	return e2erig.Newest(t, agentrig.CodexVersions())
}

// drawn returns all versions of Codex if the test is drawn.
func drawn(t *testing.T) []agentrig.CodexVersion {
	t.Helper()
	if !soak.IsDrawn(t) {
		return nil
	}
	return agentrig.CodexVersions()
}

// scenario runs on some versions of Codex.
func scenario(t *testing.T, versions []agentrig.CodexVersion, run func(*stage)) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			t.Cleanup(cancel)
			s := &stage{T: t, ctx: ctx, model: fakemodel.New(), store: memory.New(nil)}
			url, stop, err := s.model.Listen()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			t.Cleanup(func() { s.store.Close() })
			s.url = url
			s.agent = s.install(v)
			run(s)
		})
	}
}

// install makes another home and project.
func (s *stage) install(v agentrig.CodexVersion) *agentrig.Codex {
	s.Helper()
	a, err := agentrig.NewCodex(s.ctx, agentrig.TempDir(s), s.url, v)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// transcripts returns the reader of an installation's sessions.
func (s *stage) transcripts(a *agentrig.Codex) *codex.Transcripts {
	return codex.New(a.CodexHome(), codex.Options{})
}

// say runs one turn and returns the session and the first request of it.
func (s *stage) say(a *agentrig.Codex, prompt string, subcommand ...string) (segno.SessionID, []fakemodel.Message) {
	s.Helper()
	before := len(s.model.Calls())
	res, err := a.Exec(s.ctx, prompt, subcommand...)
	if err != nil {
		s.Fatal(err)
	}
	calls := s.model.Calls()[before:]
	if len(calls) == 0 {
		s.Fatalf("no model call: %s%s", res.Stdout, res.Stderr)
	}
	return segno.SessionID(res.Thread), calls[0].Messages()
}

// prompts returns the prompts of a session of five turns with tools, with parallel calls and text
// beyond ASCII.
func prompts() []string {
	return []string{
		e2erig.Prompt("one", shell("echo one > a.txt; cat a.txt"), "A1"),
		e2erig.Prompt("two é 日本 😀", "A2 é 日本 😀"),
		e2erig.Prompt("three", map[string]any{"thinking": "hm", "text": "two calls", "tools": []any{
			shell("echo x"), shell("echo y")}}, shell("echo z"), "A3"),
		e2erig.Prompt("four", shell("seq 1 3"), "A4"),
		e2erig.Prompt("five", "A5"),
	}
}

// isNotice reports whether Codex itself added a message, about a directory or about the paths of
// its files.
func isNotice(m fakemodel.Message) bool {
	return m.Role == "developer" || m.Role == "user" && !strings.Contains(m.Text(), "<<fake")
}

// sameContext compares the model's input for a moved session with its input for the original. It
// must have the same messages, then perhaps notices about the new directory, then the prompt.
func (s *stage) sameContext(name string, got, want []fakemodel.Message) {
	s.Helper()
	prompt := len(want) - 1
	history := want[:prompt]
	for len(history) > 0 && isNotice(history[len(history)-1]) {
		history = history[:len(history)-1]
	}
	if len(got) <= len(history) || !reflect.DeepEqual(got[:len(history)], history) || !reflect.DeepEqual(got[len(got)-1], want[prompt]) {
		s.Errorf("%s: the model saw\n%s\nof the original\n%s", name, show(got), show(want))
		return
	}
	for _, m := range got[len(history) : len(got)-1] {
		if !isNotice(m) {
			s.Errorf("%s: the model also saw %s", name, show([]fakemodel.Message{m}))
		}
	}
}

func show(all []fakemodel.Message) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s %.200q\n", m.Role, fmt.Sprint(m.Blocks))
	}
	return b.String()
}

// record makes the session of prompts. It returns the session's id and the first request of each
// turn.
func (s *stage) record() (segno.SessionID, [][]fakemodel.Message) {
	s.Helper()
	var id segno.SessionID
	var requests [][]fakemodel.Message
	for i, prompt := range prompts() {
		var resume []string
		if i > 0 {
			resume = []string{"resume", string(id)}
		}
		thread, request := s.say(s.agent, prompt, resume...)
		if i > 0 && thread != id {
			s.Fatalf("Codex resumed %s as %s", id, thread)
		}
		id, requests = thread, append(requests, request)
	}
	return id, requests
}

// capture captures a whole session and returns the position at the end of each turn.
func (s *stage) capture(a *agentrig.Codex, id segno.SessionID) []segno.Position {
	s.Helper()
	batch := s.store.Objects().Batch()
	defer batch.Close()
	got, err := s.transcripts(a).Capture(s.ctx, segno.Source{Session: id}, nil, batch, nil)
	if err != nil {
		s.Fatal(err)
	}
	staged, err := batch.Stage(s.ctx)
	if err == nil {
		err = s.store.Objects().Keep(s.ctx, staged)
	}
	if err != nil {
		s.Fatal(err)
	}
	if len(got.Damage) > 0 {
		s.Errorf("damage %v", got.Damage)
	}
	var all []segno.Position
	for _, turn := range got.Earlier {
		all = append(all, turn.Position)
	}
	return append(all, got.Position)
}

func (s *stage) cut(a *agentrig.Codex, p segno.Position, dir string) segno.Source {
	s.Helper()
	to := segno.Target{Session: segno.SessionID(uuid.NewString()), Dir: dir}
	src, err := s.transcripts(a).Cut(s.ctx, p, to, s.store.Objects())
	if err != nil {
		s.Fatal(err)
	}
	return src
}

// TestCutAtEveryTurn cuts a session at each turn into another home and another directory, and into
// the same home. The real Codex resumes it there, and the model receives the same conversation as
// at that turn of the original.
func TestCutAtEveryTurn(t *testing.T) {
	scenario(t, soak.Versions(t, agentrig.CodexVersions()), func(s *stage) {
		id, requests := s.record()
		source := rollouts(s, s.agent)
		positions := s.capture(s.agent, id)
		if len(positions) != len(requests) {
			s.Fatalf("%d turns captured of %d", len(positions), len(requests))
		}
		other := s.install(s.agent.Version)
		for k := range len(requests) - 1 {
			p := positions[k]
			if k%2 == 1 { // only from the store
				p.Path, p.Session = "", "00000000-0000-4000-8000-000000000000"
			}
			for name, at := range map[string]*agentrig.Codex{"elsewhere": other, "in the same home": s.agent} {
				src := s.cut(at, p, at.Project)
				thread, got := s.say(at, prompts()[k+1], "resume", string(src.Session))
				if thread != src.Session {
					s.Errorf("Codex resumed %s as %s", src.Session, thread)
				}
				s.sameContext(fmt.Sprintf("turn %d %s", k+1, name), got, requests[k+1])
				s.continues(at, src, p)
			}
		}
		for path, want := range source {
			if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, want) {
				s.Errorf("%s changed, %v", path, err)
			}
		}
	})
}

// continues checks that a session that Codex resumed can be captured, cut and resumed again.
func (s *stage) continues(a *agentrig.Codex, src segno.Source, of segno.Position) {
	s.Helper()
	batch := s.store.Objects().Batch()
	defer batch.Close()
	got, err := s.transcripts(a).Capture(s.ctx, src, nil, batch, func(leaf string) bool { return leaf == of.Leaf })
	if err != nil || got.Origin == nil || got.Origin.Leaf != of.Leaf || got.Prompt == "" || len(got.Damage) > 0 {
		s.Errorf("captured %+v of a resumed cut, %v", got, err)
	}
	if ok, err := s.transcripts(a).EndsAt(s.ctx, src, got.Position); !ok || err != nil {
		s.Errorf("a resumed cut does not end at its end: %v", err)
	}
}

// TestForkedLineage forks natively, twice, and cuts the last fork into another home, without
// the rollouts that it refers to.
func TestForkedLineage(t *testing.T) {
	scenario(t, drawn(t), func(s *stage) {
		if s.agent.Version == agentrig.CodexOldest {
			return // it cannot fork without a terminal
		}
		first, _ := s.say(s.agent, prompts()[0])
		second, _ := s.say(s.agent, prompts()[1], "fork", string(first))
		third, _ := s.say(s.agent, prompts()[2], "fork", string(second))
		positions := s.capture(s.agent, third)
		_, want := s.say(s.agent, prompts()[3], "resume", string(third))
		if len(positions) != 3 {
			s.Fatalf("%d turns", len(positions))
		}
		other := s.install(s.agent.Version)
		src := s.cut(other, positions[2], other.Project)
		_, got := s.say(other, prompts()[3], "resume", string(src.Session))
		s.sameContext("a fork of a fork", got, want)
		data, err := os.ReadFile(src.Path)
		if err != nil || bytes.Contains(data[:bytes.IndexByte(data, '\n')], []byte("history_base")) {
			s.Errorf("the cut refers to other rollouts, %v", err)
		}
	})
}

// TestRelocate copies a session to another home under its own id.
func TestRelocate(t *testing.T) {
	scenario(t, newest(t), func(s *stage) {
		id, _ := s.say(s.agent, prompts()[0])
		src, err := s.transcripts(s.agent).Find(s.ctx, id)
		if err != nil || src.Dir != s.agent.Project {
			s.Fatal(src, err)
		}
		other := s.install(s.agent.Version)
		moved, err := s.transcripts(other).Relocate(s.ctx, src, other.Project)
		if err != nil {
			s.Fatal(err)
		}
		_, want := s.say(s.agent, prompts()[1], "resume", string(id))
		thread, got := s.say(other, prompts()[1], "resume", string(moved.Session))
		if thread != id {
			s.Errorf("Codex resumed %s as %s", id, thread)
		}
		s.sameContext("moved", got, want)
	})
}

// rollouts reads the rollouts of a home.
func rollouts(s *stage, a *agentrig.Codex) map[string][]byte {
	s.Helper()
	out := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(a.CodexHome(), "sessions", "*", "*", "*", "*.jsonl"))
	for _, path := range paths {
		data, readErr := os.ReadFile(path)
		if err = readErr; err != nil {
			break
		}
		out[path] = data
	}
	if err != nil || len(out) == 0 {
		s.Fatalf("%d rollouts, %v", len(out), err)
	}
	return out
}

// TestUpgrade resumes a cut of an old Codex's session with the newest one.
func TestUpgrade(t *testing.T) {
	scenario(t, drawn(t), func(s *stage) {
		id, requests := s.record()
		positions := s.capture(s.agent, id)
		other := s.install(agentrig.CodexNewest)
		src := s.cut(other, positions[2], other.Project)
		thread, got := s.say(other, prompts()[3], "resume", string(src.Session))
		if thread != src.Session {
			s.Errorf("Codex resumed %s as %s", src.Session, thread)
		}
		if s.agent.Version == agentrig.CodexOldest {
			got = got[1:] // omit the instructions, which the old version does not send as a message
		}
		s.sameContext("in the newest version", got, requests[3])
	})
}

// TestTerminal continues a cut in another directory, with the command that segno prints. Codex asks
// no question and works in that directory.
func TestTerminal(t *testing.T) {
	scenario(t, newest(t), func(s *stage) {
		id, requests := s.record()
		other := s.install(s.agent.Version)
		src := s.cut(other, s.capture(s.agent, id)[1], other.Project)
		before := len(s.model.Calls())
		tui, err := other.TUI(s.ctx, s.transcripts(other).Resume(src)[1:]...)
		if err != nil {
			s.Fatal(err)
		}
		defer tui.Kill()
		if _, err := tui.WaitFor(s.ctx, func(screen string) bool {
			return strings.Contains(screen, "A2 é") || strings.Contains(screen, "irectory") && strings.Contains(screen, "1. ")
		}); err != nil {
			s.Fatal(err)
		}
		if screen := tui.Screen(); !strings.Contains(screen, "A2 é") {
			s.Fatalf("Codex shows\n%s", screen)
		}
		// Paste the prompt, so that no part of it counts as a key, and wait until all of it is
		// visible before sending it.
		if err := tui.Press(agentrig.Key("\x1b[200~" + prompts()[2] + "\x1b[201~")); err != nil {
			s.Fatal(err)
		}
		if err := tui.WaitText(s.ctx, `A3"]>>`); err != nil {
			s.Fatal(err)
		}
		if err := tui.Press(agentrig.Enter); err != nil {
			s.Fatal(err)
		}
		if _, err := s.model.WaitFor(s.ctx, func(r fakemodel.Request) bool { return r.Seq >= before && r.Call() && r.HasText("three") }); err != nil {
			s.Fatalf("%v: %s", err, tui.Screen())
		}
		s.sameContext("in a terminal", s.model.Calls()[before].Messages(), requests[2])
		// Codex may write its files until it ends.
		if err := tui.WaitText(s.ctx, "A3"); err != nil {
			s.Fatal(err)
		}
		for range 3 { // the first ones only interrupt its work
			if tui.Press(agentrig.CtrlC) != nil {
				break
			}
			select {
			case <-tui.Exited():
			case <-time.After(time.Second):
			}
		}
	})
}
