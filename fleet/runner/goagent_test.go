package runner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/fleet/runner"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// goRunner returns a runner of a Go agent with the tool mark, which writes a file, and appends to a ledger outside of the
// machine unless the ledger has the key of the call.
func goRunner(store segno.Store, cache *workspaces.Cache, ledger string) *runner.Go {
	type args struct {
		Line string `json:"line"`
	}
	config := func(_ string, root *os.Root) agent.Config {
		mark := agent.NewTool("mark", "writes a file", agent.LostRetry, func(_ context.Context, inv *agent.Invocation, a args) (string, error) {
			data, err := os.ReadFile(ledger)
			if err != nil && !os.IsNotExist(err) {
				return "", err
			}
			if entry := inv.Key + " " + a.Line + "\n"; !strings.Contains(string(data), entry) {
				if err := os.WriteFile(ledger, append(data, entry...), 0o600); err != nil {
					return "", err
				}
			}
			return "marked " + a.Line, root.WriteFile(a.Line+".txt", []byte(a.Line), 0o600)
		})
		return agent.Config{Model: offline.New(), Tools: []agent.Tool{mark}}
	}
	return &runner.Go{Name: "agent", Store: store, Cache: cache, New: config, Runner: func(a *agent.Agent) fleet.Runner { return plain{a} }}
}

// plain runs a Go agent as [fleet.Fleet.AgentRunner] does, without a fleet.
type plain struct{ agent *agent.Agent }

func (p plain) Run(ctx context.Context, w fleet.Work) (fleet.Result, error) {
	out, err := p.agent.Run(ctx, agent.Input{Thread: w.Thread, Prompt: w.Prompt.Text, Key: w.Prompt.Key})
	return fleet.Result{Phase: agent.PhaseDone, Text: out.Text}, err
}

func (f *stage) goMachine(name string) *runner.Go {
	f.Helper()
	cache, err := workspaces.Open(filepath.Join(f.base, name), workspaces.Options{Objects: f.store.Objects()})
	f.must(err)
	return goRunner(f.store, cache, filepath.Join(f.base, "ledger"))
}

// marks returns a prompt that makes the agent call mark for each line, one after the other.
func marks(lines ...string) string {
	for i := range lines {
		lines[i] = `call mark {"line": "` + lines[i] + `"}`
	}
	return strings.Join(lines, "\n")
}

// TestAGoAgentMovesToAnotherMachine runs each turn on a machine that has nothing of the thread.
func TestAGoAgentMovesToAnotherMachine(t *testing.T) {
	f := newStage(t)
	for i, line := range []string{"one", "two"} {
		name := "machine-" + line
		_, err := f.goMachine(name).Run(t.Context(), work("t", line, marks(line)))
		f.must(err)
		f.hasFiles(name, []string{"one", "two"}[:i+1])
		f.must(os.RemoveAll(filepath.Join(f.base, name)))
	}
}

// hasFiles checks the files in the only directory of a machine.
func (f *stage) hasFiles(machine string, lines []string) {
	f.Helper()
	dirs, err := filepath.Glob(filepath.Join(f.base, machine, "dirs", "*", "*", "files"))
	if err != nil || len(dirs) != 1 {
		f.Fatalf("the machine has the directories %q, %v", dirs, err)
	}
	var want []string
	for _, line := range lines {
		want = append(want, line+".txt")
	}
	slices.Sort(want)
	if got := list(f.T, dirs[0]); !slices.Equal(got, want) {
		f.Errorf("the files are %q, want %q", got, want)
	}
}

// TestADecisionMovesTheHead commits on the thread while its directory is made. The run begins again with the new head.
func TestADecisionMovesTheHead(t *testing.T) {
	f := newStage(t)
	g := f.goMachine("a")
	config, runs := g.New, 0
	g.New = func(dir string, root *os.Root) agent.Config {
		if runs++; runs == 1 {
			f.decide(segno.Decision{Interrupt: "none", Kind: segno.Reject})
		}
		return config(dir, root)
	}
	_, err := g.Run(t.Context(), work("t", "one", marks("one")))
	f.must(err)
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	f.hasFiles("a", []string{"one"})
}

// TestAKilledGoAgent kills workers with SIGKILL at operations of the store. The next machine continues the turn with the
// files of its steps.
func TestAKilledGoAgent(t *testing.T) {
	for _, seed := range soak.Seeds(t, 1, 300) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := newStage(t)
		var lines []string
		for turn := range 2 {
			var own []string
			for i := range 3 {
				own = append(own, fmt.Sprintf("line%d%d", turn, i))
			}
			lines = append(lines, own...)
			text, key := marks(own...), "turn"+strconv.Itoa(turn)
			name := "machine" + strconv.Itoa(turn)
			for range 2 {
				f.kill(worker{Store: filepath.Join(f.base, "store"), Cache: filepath.Join(f.base, name), Ledger: filepath.Join(f.base, "ledger"),
					Key: key, Text: text, Limit: random.Int64N(80), After: random.IntN(2) == 0})
				if random.IntN(2) == 0 {
					f.must(os.RemoveAll(filepath.Join(f.base, name)))
				}
			}
			_, err := f.goMachine(name).Run(t.Context(), work("t", key, text))
			f.must(err)
		}
		_, err := f.goMachine("last").Run(t.Context(), work("t", "last", "say bye"))
		f.must(err)
		f.hasFiles("last", lines)
		data, err := os.ReadFile(filepath.Join(f.base, "ledger"))
		f.must(err)
		if n := strings.Count(string(data), "\n"); n != len(lines) {
			t.Errorf("the ledger has %d lines, want %d:\n%s", n, len(lines), data)
		}
	}
}
