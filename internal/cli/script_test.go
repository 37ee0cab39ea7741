package cli_test

import (
	"context"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/parallel"
	"github.com/dalsegno/segno/internal/testing/signals"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/testing/wings"
)

// usualProcess sets the usual umask, because tests compare permissions, and ignores no signals. The commands in the
// scripts inherit both. Hooks wait for a transcript, and experiments for their agents, so it runs more tests at once.
type usualProcess struct{ *testing.M }

func (m usualProcess) Run() int {
	soak.DrawIfShort()
	signals.Restore()
	syscall.Umask(0o022)
	parallel.Double()
	return m.M.Run()
}

func TestMain(m *testing.M) {
	memdir.Use()
	testscript.Main(usualProcess{m}, map[string]func(){
		"segno": func() {
			os.Exit(cli.Main(cli.Signalled(context.Background()), cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable},
				wings.With(chat.Models{"test": newTestModel, "anthropic": newAnthropicModel}), os.Args[1:]))
		},
		"segno-hook": func() {
			ctx, stop := event.SignalContext(context.Background())
			defer stop()
			event.ToolHook{Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Now: time.Now, Exit: func() { os.Exit(0) },
				Delegate: func(ctx context.Context, stdin io.Reader) error {
					cmd := exec.CommandContext(ctx, "segno", os.Args[1:]...)
					cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, os.Stdout, os.Stderr
					return cmd.Run()
				}}.Run(ctx, os.Args[1:])
		},
		"agent":        agentMain,
		"acpagent":     acpAgentMain,
		"unprivileged": unprivilegedMain,
		"sql":          sqlMain,
	})
}

// testModel is a model that needs a key and answers with its name.
type testModel struct {
	agent.Model
	name string
}

func newTestModel(name string, getenv func(string) string) (agent.Model, error) {
	if getenv("TEST_KEY") == "" {
		return nil, segno.Errorf(segno.KindInvalid, "open model", "test/"+name, "there is no key for it").WithHint("set TEST_KEY")
	}
	return testModel{offline.New(), "test/" + name}, nil
}

func (m testModel) Name() string { return m.name }

func (m testModel) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		for c, err := range m.Model.Generate(ctx, r) {
			if c.Reply != nil {
				said := &c.Reply.Message
				said.Model = m.name
				for i := range said.Parts {
					if said.Parts[i].Text != "" {
						said.Parts[i].Text = m.name + ": " + said.Parts[i].Text
					}
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// TestScripts runs every testdata/scripts/*.txtar. In these scripts, 'agent' is a stand-in for
// Claude Code (see agent_test.go). commands_test.go and json_test.go have the other commands that
// testscript lacks.
func TestScripts(t *testing.T) { runScripts(t, "testdata/scripts") }

func runScripts(t *testing.T, dir string) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	if apart := soak.OneOf(t, 5, 18); apart > 1 {
		var some []string
		for i := int(soak.Seed(t) % uint64(apart)); i < len(scripts); i += apart {
			some = append(some, scripts[i])
		}
		t.Logf("%d of %d scripts run", len(some), len(scripts))
		scripts = some
	}
	archives, err := filepath.Abs("../../archive/testdata") // made by another program
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(filepath.Dir(filepath.Dir(archives)), "docs")
	testscript.Run(t, testscript.Params{
		Files:               scripts,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds:                scriptCommands(),
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
			e.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(home, ".claude"))
			e.Setenv("STORE", filepath.Join(home, "data", "segno"))
			e.Setenv("NO_COLOR", "1")
			e.Setenv("ARCHIVES", archives)
			e.Setenv("DOCS", docs)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // a thousand programs run, and each would sleep for a second
			e.Values[snapKey("")] = map[string]snapped{}
			e.Values[writerKey("")] = new(func() error)
			e.Values[serverKey{}] = new(exec.Cmd)
			return os.MkdirAll(filepath.Join(home, ".claude", "projects"), 0o700)
		},
	})
}
