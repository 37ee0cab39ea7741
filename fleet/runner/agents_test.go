package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestRealAgentsMove runs the real adapters of Claude Code and Codex on two machines: the second one has neither the
// session nor the files of the first one.
func TestRealAgentsMove(t *testing.T) {
	for _, a := range []agentrig.ACPAgent{agentrig.CodexACPOldest, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.ClaudeACPNewest} {
		t.Run(string(a), func(t *testing.T) {
			if soak.IsDrawn(t) && !testing.Short() {
				newRealStage(t, a).moves()
			}
		})
	}
}

// realStage is a fleet whose machines run a real agent.
type realStage struct {
	*stage
	rig   *agentrig.ACP
	model *fakemodel.Server
}

func newRealStage(t *testing.T, a agentrig.ACPAgent) *realStage {
	t.Helper()
	f := &realStage{stage: newStage(t), model: fakemodel.New()}
	url, stop, err := f.model.Listen()
	f.must(err)
	t.Cleanup(stop)
	dir := agentrig.TempDir(t)
	t.Cleanup(func() { agentrig.KillAll(t, f.base) })
	f.rig, err = agentrig.NewACP(t.Context(), dir, url, a)
	f.must(err)
	return f
}

func (f *realStage) machine(name string) *machine {
	f.Helper()
	m := f.stage.machine(name)
	m.Command, m.Env = f.rig.Command, f.rig.Env()
	m.PrepareHome = func(_ context.Context, home string) error {
		state, err := os.ReadFile(filepath.Join(f.rig.Config, ".claude.json"))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, os.CopyFS(home, os.DirFS(f.rig.Home)), os.WriteFile(filepath.Join(home, ".claude.json"), state, 0o600))
	}
	return m
}

// prompt returns a prompt that scripts the model: it runs a command, and then answers.
func (f *realStage) prompt(word string) string {
	f.Helper()
	data, err := json.Marshal([]any{f.rig.Shell("echo made by " + word + " > " + word + ".txt"), map[string]any{"text": "answer " + word}})
	f.must(err)
	return "Prompt " + word + " <<fake " + string(data) + ">>"
}

func (f *realStage) moves() {
	f.Helper()
	words := []string{"uno", "due"}
	for i, word := range words {
		m := f.machine("machine-" + word)
		if got := m.done(word, f.prompt(word)); !strings.HasSuffix(strings.TrimSpace(got), "answer "+word) { // the adapter may add a warning
			f.Errorf("the answer is %q\n%s", got, m.stderr.String())
		}
		for _, before := range words[:i+1] {
			data, err := os.ReadFile(filepath.Join(m.files(), before+".txt"))
			if err != nil || string(data) != "made by "+before+"\n" {
				f.Errorf("turn %s: the file of turn %s contains %q, %v", word, before, data, err)
			}
		}
		m.lost()
	}
	var call *fakemodel.Request
	for _, c := range f.model.Calls() {
		if c.HasText("Prompt due") {
			call = &c
		}
	}
	if call == nil || !call.HasText("Prompt uno") || !call.HasText("answer uno") {
		f.Error("in the second turn, the model does not see the first one")
	}
	for l, err := range f.store.Chain(f.Context(), "t") {
		f.must(err)
		if l.Fidelity == segno.FidelityPreamble || l.Fidelity == segno.FidelityNone {
			f.Errorf("the agent received only a summary: %+v", l)
		}
	}
}
