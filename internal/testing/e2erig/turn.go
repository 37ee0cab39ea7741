package e2erig

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/damage"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// Prompt returns a prompt that consists of text and a script for the fake model.
func Prompt(text string, steps ...any) string {
	data, err := json.Marshal(steps)
	if err != nil {
		panic(err) // the steps are the test's own literals
	}
	return text + " <<fake " + string(data) + ">>"
}

// Bash returns a step in which the agent runs a command.
func Bash(command string) map[string]any {
	return map[string]any{"tool": "Bash", "input": map[string]string{"command": command, "description": "d"}}
}

// Writes returns a step in which the agent writes a file of the project with its own tool.
func (s *Stage) Writes(name, content string) map[string]any {
	return map[string]any{"tool": "Write", "input": map[string]string{"file_path": s.Path(name), "content": content}}
}

// Say runs one print-mode turn and returns its session.
func (s *Stage) Say(text string, args ...string) string {
	s.Helper()
	res, err := s.Rig.Print(s.Ctx, text, args...)
	if err != nil {
		s.Fatal(err)
	}
	out, err := res.Must()
	if err != nil {
		s.Fatal(err)
	}
	return out.SessionID
}

// LastCall returns the newest model call.
func (s *Stage) LastCall() fakemodel.Request {
	s.Helper()
	calls := s.Model.Calls()
	if len(calls) == 0 {
		s.Fatal("the model was not called")
	}
	return calls[len(calls)-1]
}

// CallFor returns the first model call whose conversation contains text.
func (s *Stage) CallFor(text string) fakemodel.Request {
	s.Helper()
	for _, c := range s.Model.Calls() {
		if Said(c, text) {
			return c
		}
	}
	s.Fatalf("the model was never sent %q", text)
	return fakemodel.Request{}
}

// Conversation returns the messages of a model call without the text that the agent adds
// to them. That text differs between versions, and its words could match a test by accident.
func Conversation(r fakemodel.Request) []fakemodel.Message {
	var kept []fakemodel.Message
	for _, m := range r.Messages() {
		if m.Role == "system" || m.Role == "developer" {
			continue
		}
		var blocks []fakemodel.Block
		for _, b := range m.Blocks {
			if strings.HasPrefix(b.Text, "<system-reminder>") || strings.HasPrefix(b.Text, "<environment_context>") {
				continue
			}
			blocks = append(blocks, b)
		}
		if len(blocks) > 0 {
			kept = append(kept, fakemodel.Message{Role: m.Role, Blocks: blocks})
		}
	}
	return kept
}

// Said reports whether the conversation in a model call contains text from the user or the
// agent.
func Said(r fakemodel.Request, text string) bool {
	return slices.ContainsFunc(Conversation(r), func(m fakemodel.Message) bool { return strings.Contains(m.Text(), text) })
}

// Transcripts returns every session file of the agent, by path.
func (s *Stage) Transcripts() map[string]string {
	s.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(s.Rig.Config, "projects", "*", "*.jsonl"))
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			s.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}

// Transcript returns the lines of a session's file.
func (s *Stage) Transcript(session string) string {
	s.Helper()
	file, err := s.Rig.Transcript(session)
	if err != nil {
		s.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// TUI starts the terminal program. The program ends when the scenario ends.
func (s *Stage) TUI(args ...string) *agentrig.TUI {
	s.Helper()
	tui, err := s.Rig.TUI(s.Ctx, args...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = tui.Kill() }) // it may have ended
	s.screens = append(s.screens, tui.Screen)
	return tui
}

// Type enters a prompt in the terminal program. It waits until the program shows answer,
// the turn is over, and segno has recorded its end.
func (s *Stage) Type(tui *agentrig.TUI, prompt, answer string) {
	s.Helper()
	if err := tui.Turn(s.Ctx, prompt, answer); err != nil {
		s.Fatal(err)
	}
	s.Quiet()
}

// Interrupt presses Esc while the agent works. It waits until the agent has written that the
// turn was interrupted, because a busy machine delays that.
func (s *Stage) Interrupt(tui *agentrig.TUI) {
	s.Helper()
	marks := func() (n int) {
		for _, lines := range s.Transcripts() {
			n += strings.Count(lines, "[Request interrupted by user")
		}
		return n
	}
	before := marks()
	if err := tui.Interrupt(s.Ctx); err != nil {
		s.Fatal(err)
	}
	s.Poll("the agent's note of the interruption", func() bool { return marks() > before })
}

// Quiet waits until no turn is open. Tests need it, because an agent shows an answer before
// segno has recorded the turn.
func (s *Stage) Quiet() {
	s.Helper()
	s.Poll("no turn to be open", func() bool {
		var st struct{ Open []struct{ Key string } }
		s.JSON(&st, "status")
		return len(st.Open) == 0
	})
}

// WaitFor waits until the project has a file that an agent's tool writes.
func (s *Stage) WaitFor(name string) {
	s.Helper()
	s.Poll(name, func() bool { return s.Exists(name) })
}

// pollEvery is the shortest pause between two checks of a state that no event announces. A check that
// starts a process is followed by a pause of three times its duration. Otherwise the checks would take a
// core away from the agents.
const pollEvery = 10 * time.Millisecond

// pollTime is how long Poll waits for one state. A state that has not come within this time
// is assumed never to come.
const pollTime = 2 * time.Minute

// Poll waits until is returns true. After two minutes it fails the scenario and shows the
// terminals of its agents.
func (s *Stage) Poll(what string, is func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, pollTime)
	defer cancel()
	for {
		began := time.Now()
		if is() {
			return
		}
		select {
		case <-time.After(max(pollEvery, 3*time.Since(began))):
		case <-ctx.Done():
			for _, screen := range s.screens {
				s.Logf("a terminal shows:\n%s", screen())
			}
			s.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}

// WaitForClock waits until a file that is written then has a later time than all events before, because the clock of a file system is coarse.
func (s *Stage) WaitForClock() {
	s.Helper()
	const grain = 10 * time.Millisecond // longer than a tick of the kernel's clock
	name, from := filepath.Join(s.TempDir(), "clock"), time.Now()
	s.Poll("a later time of files", func() bool {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		file, err := os.Stat(name)
		if err != nil {
			s.Fatal(err)
		}
		return file.ModTime().Sub(from) > 2*grain
	})
}

// Facts returns the facts of a damaged session that a model call sends, in their order.
func Facts(r fakemodel.Request) (out []string) {
	for _, m := range Conversation(r) {
		for _, b := range m.Blocks {
			out = append(out, damage.Facts([]byte(b.Text))...)
		}
	}
	return out
}
