package segnogenkit_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	segnogenkit "github.com/dalsegno/segno/adapters/genkit"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/programrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
	"github.com/firebase/genkit/go/core/x/session"
	"github.com/firebase/genkit/go/genkit"
)

// A process is killed in the middle of a flow of five steps, twice. The steps that ended do not run again, and a step
// that had begun runs only with the user's consent. A question waits over restarts of the process. A fork begins after the
// second step.
func TestExampleSurvivesKills(t *testing.T) {
	p := programrig.Build(t)
	p.MustFail("", []string{"-crash", "reserve"}, "order")
	p.MustFail("the step reserve was lost", nil, "order")
	p.WantEffects("check")
	p.MustRun("waits: pay?", []string{"-repeat", "reserve"}, "order")
	p.MustRun("waits: pay?", nil, "order")
	p.MustRun("", []string{"-fork", "copy"}, "order")
	p.WantEffects("check reserve")
	p.MustFail("", []string{"-crash", "ship", "-answer", "yes"}, "order")
	p.MustRun("check reserve yes pay ship", []string{"-repeat", "ship"}, "order")
	p.MustRun("check reserve yes pay ship", nil, "order") // it is complete
	p.WantEffects("check reserve pay ship")
	p.MustRun("waits: pay?", nil, "copy")
	p.MustRun("check reserve no pay ship", []string{"-answer", "no"}, "copy")
	p.WantEffects("check reserve pay ship pay ship")

	line := p.Line("order")
	turn := turns.Read(line.Commits, line.Commits[len(line.Commits)-1].Checkpoint)
	var calls []string
	for _, it := range turn.Items {
		if it.Call != nil && it.Call.Done {
			calls = append(calls, it.Call.Tool+": "+it.Call.Result)
		}
	}
	if got := strings.Join(calls, ", "); got != "check: check, reserve: reserve, pay: pay, ship: ship" {
		t.Errorf("the calls are %s", got)
	}
}

func TestMain(m *testing.M) {
	memdir.Use()
	os.Exit(m.Run())
}

type profile struct {
	Name string   `json:"name"`
	Tags []string `json:"tags,omitempty"`
}

func TestEverySaveIsAVersion(t *testing.T) {
	store, ctx := memory.New(nil), t.Context()
	defer store.Close()
	sessions, other := segnogenkit.NewSessions[profile](store), segnogenkit.NewSessions[profile](store)
	s, err := session.New(ctx, session.WithID[profile]("s"), session.WithStore[profile](sessions), session.WithInitialState(profile{Name: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	second, err := session.Load(ctx, session.Store[profile](other), "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c"} {
		if err := s.UpdateState(ctx, profile{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.UpdateState(ctx, profile{Name: "late"}); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("a late writer: %v", err)
	}
	if _, err := session.New(ctx, session.WithID[profile]("s"), session.WithStore[profile](segnogenkit.NewSessions[profile](store))); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("a new session with a used id: %v", err)
	}
	if _, err := saver.New(store).Undo(ctx, saver.ThreadKey{Thread: "s"}, 1); err != nil {
		t.Fatal(err)
	}
	if second, err = session.Load(ctx, session.Store[profile](other), "s"); err != nil || second.State().Name != "b" {
		t.Errorf("%v, %v", second.State(), err)
	}
}

// run runs a durable flow with one step that returns v, twice, and returns what the second run gets.
func run[T any](t *testing.T, v T) (got T, calls int, err error) {
	t.Helper()
	store := memory.New(nil)
	defer store.Close()
	fn := segnogenkit.Durable(segnogenkit.Options[string]{Store: store, Thread: func(string) string { return "t" }}, func(ctx context.Context, _ string) (string, error) {
		got, err = segnogenkit.Run(ctx, "step", func() (T, error) { calls++; return v, nil })
		if err != nil {
			return "", err
		}
		if calls++; calls == 2 {
			return "", errors.New("after the step")
		}
		return "", nil
	})
	flow := genkit.DefineFlow(genkit.Init(t.Context()), "flow", fn)
	if _, err = flow.Run(t.Context(), ""); err != nil && calls == 2 {
		_, err = flow.Run(t.Context(), "")
	}
	return got, calls, err
}

func TestResultsSurviveOrNameTheirType(t *testing.T) {
	if got, calls, err := run(t, profile{"a", []string{"b"}}); err != nil || calls != 3 || got.Name != "a" || got.Tags[0] != "b" {
		t.Errorf("%v, %d, %v", got, calls, err)
	}
	if got, _, err := run(t, map[string]any{"n": nil, "list": []any{1.5, "x"}}); err != nil || len(got["list"].([]any)) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	type secretive struct{ cache int }
	if _, _, err := run(t, secretive{1}); err == nil || !strings.Contains(err.Error(), "secretive") {
		t.Error(err)
	}
	if _, _, err := run(t, make(chan int)); err == nil || !strings.Contains(err.Error(), "chan int") {
		t.Error(err)
	}
}

func TestTheFirstAnswerCounts(t *testing.T) {
	store, ctx := memory.New(nil), t.Context()
	defer store.Close()
	flow := segnogenkit.Durable(segnogenkit.Options[string]{Store: store, Thread: func(id string) string { return id }},
		func(ctx context.Context, _ string) (int, error) { return segnogenkit.Ask[int](ctx, "q", "how many?") })
	if err := segnogenkit.Answer(ctx, store, "t", "q", 1); segno.KindOf(err) != segno.KindNotFound {
		t.Error(err)
	}
	var waits *segnogenkit.WaitingError
	if _, err := flow(ctx, "t"); !errors.As(err, &waits) || waits.Question != "q" {
		t.Fatal(err)
	}
	for _, a := range []int{1, 1, 2} {
		if err := segnogenkit.Answer(ctx, store, "t", "q", a); (a == 2) != errors.Is(err, segno.ErrAnswered) || a == 1 && err != nil {
			t.Errorf("%d: %v", a, err)
		}
	}
	if n, err := flow(ctx, "t"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// The tests that Genkit has for its sessions and its own store pass with that of segno.
func TestTheTestsOfGenkit(t *testing.T) {
	if !soak.IsWhole() {
		return // it compiles segno again
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/firebase/genkit/go").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "core/x/session/session_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	// The tests move outside of the package, because the store of segno imports it. Three lines look into a session.
	var lines []string
	for line := range strings.Lines(string(text)) {
		for old, with := range map[string]string{
			"package session": "package segnogenkit_test", "NewInMemoryStore[": "newStore[",
			"import (":               "import (\n\t. \"github.com/firebase/genkit/go/core/x/session\"\n\tsegnogenkit \"github.com/dalsegno/segno/adapters/genkit\"\n\t\"github.com/dalsegno/segno/store/memory\"",
			"if sess.store != store": "if sess == nil", "if sess.store != nil": "if sess == nil",
		} {
			line = strings.ReplaceAll(line, old, with)
		}
		lines = append(lines, line)
	}
	code := strings.Join(lines, "") + "\nfunc newStore[S any]() *segnogenkit.Sessions[S] { return segnogenkit.NewSessions[S](memory.New(nil)) }\n"
	a := strings.Index(code, "func TestSession_UpdateState_StoreError") // it sets the field of a session
	if a < 0 {
		t.Fatal("the tests of Genkit changed")
	}
	b := strings.Index(code[a:], "\n}\n")
	code = code[:a] + code[a+b+3:]
	dir := filepath.Join("testdata", "genkit") // no pattern of packages matches it
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll("testdata") })
	if err := os.WriteFile(filepath.Join(dir, "session_test.go"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "./"+dir).CombinedOutput()
	t.Logf("%s", result)
	if err != nil {
		t.Error(err)
	}
}
