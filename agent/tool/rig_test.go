package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	goleak.VerifyTestMain(m)
}

// rig calls tools as an agent does.
type rig struct {
	t     *testing.T
	state *agent.Values
	tools []agent.Tool

	mu     sync.Mutex
	events []agent.Event
}

func newRig(t *testing.T, tools []agent.Tool) *rig {
	return &rig{t: t, state: &agent.Values{}, tools: tools}
}

func inState(t *testing.T) *rig { return newRig(t, tool.Standard()) }

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func inDir(t *testing.T) (*rig, string) {
	t.Helper()
	dir := t.TempDir()
	return newRig(t, tool.Deep(dir, openRoot(t, dir))), dir
}

// both runs a test on a file system in the state and on one in a directory.
func both(t *testing.T, test func(r *rig)) {
	t.Run("state", func(t *testing.T) { test(inState(t)) })
	t.Run("dir", func(t *testing.T) {
		r, _ := inDir(t)
		test(&rig{t: t, state: r.state, tools: r.tools})
	})
}

// call calls a tool with arguments in JSON.
func (r *rig) call(ctx context.Context, name, args string) (agent.Result, error) {
	r.t.Helper()
	at := slices.IndexFunc(r.tools, func(t agent.Tool) bool { return t.Name == name })
	if at < 0 {
		r.t.Fatalf("there is no tool %s", name)
	}
	return r.tools[at].Run(ctx, &agent.Invocation{
		Call: agent.Call{ID: "c1", Name: name, Args: json.RawMessage(args)}, State: r.state,
		Emit: func(e agent.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		}})
}

func arguments(t *testing.T, args []any) string {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		m[args[i].(string)] = args[i+1]
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// do calls a tool with arguments by name, and returns its result.
func (r *rig) do(name string, args ...any) string {
	r.t.Helper()
	res, err := r.call(r.t.Context(), name, arguments(r.t, args))
	if err != nil {
		r.t.Fatalf("%s %v: %v", name, args, err)
	}
	return res.Text
}

// fails calls a tool that must return an error with all these words.
func (r *rig) fails(words []string, name string, args ...any) {
	r.t.Helper()
	res, err := r.call(r.t.Context(), name, arguments(r.t, args))
	if err == nil {
		r.t.Fatalf("%s %v succeeds and says %q; want an error with %q", name, args, res.Text, words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			r.t.Errorf("%s %v: %q does not say %q", name, args, err, w)
		}
	}
	if text := err.Error(); strings.Contains(text, "\n") {
		r.t.Errorf("%s %v: %q is not one line", name, args, text)
	}
}

func (r *rig) wants(want, name string, args ...any) {
	r.t.Helper()
	if got := r.do(name, args...); got != want {
		r.t.Errorf("%s %v says\n%s\nwant\n%s", name, args, got, want)
	}
}

// told returns the kinds of the events so far.
func (r *rig) told() (kinds []agent.EventKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (r *rig) last() agent.Event {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		r.t.Fatal("no event")
	}
	return r.events[len(r.events)-1]
}
