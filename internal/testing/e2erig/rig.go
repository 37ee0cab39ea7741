// Package e2erig is the common part of the end-to-end scenarios: the segno command, built as
// users build it, and real agents that it records.
//
// A scenario is one function. It runs once on a version of Claude Code that
// internal/testing/agentrig/pins.go names, every run in parallel with the others, each with
// its own project, home, store and model. [Scenario] is for a main journey, which every run tries on the newest
// version. A run tries an eighth of the other scenarios, and SEGNO_SOAK tries all on every version:
//
//	func TestUndoBringsTheFileBack(t *testing.T) {
//		e2erig.Scenario(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
//			s.Say(e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "done")) // one claude -p
//			s.Segno("undo", "-y")
//			if got := s.Read("a.txt"); got != "0\n" {
//				s.Errorf("undo left %q", got)
//			}
//		})
//	}
//
// [Prompt] scripts the model: the i-th model call of the turn is answered with the
// i-th step, see internal/testing/fakemodel. [Stage.Say] runs claude -p; [Stage.TUI] and
// Stage.Rig.Stream keep one agent over several turns. Wait for an event with
// [Stage.WaitFor], [Stage.Quiet] or the TUI's own waits; do not sleep. After the
// scenario the stage checks the store and that no hook logged a failure.
//
// A package of scenarios has a TestMain that calls [Main]. With -short no scenario
// runs, because real agents come from the network; CI runs without it.
package e2erig

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/parallel"
	"github.com/dalsegno/segno/internal/testing/signals"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// These are the longest times of one scenario. A scenario needs a few seconds on an idle machine; the rest is for a busy one.
// The first is below go test's ten minutes for a package. The second is for campaigns, which run beside other work.
const limit, limitOfCampaigns = 6 * time.Minute, 30 * time.Minute

// Main builds segno and segno-hook, puts them first in $PATH, runs the tests and
// exits. In a process that a test started as a scripted agent, it runs that agent.
func Main(m *testing.M) {
	if code, ran := acptest.Main(context.Background(), os.Args[1:], acptest.Standard()); ran {
		os.Exit(code)
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("no scenario is run with -short: real agents are installed from the network")
		os.Exit(0)
	}
	memdir.Use()
	parallel.Double()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	signals.Restore()
	used, err := agentrig.UseNewest(context.Background())
	if err != nil {
		return 1, err
	}
	fmt.Print(used)
	dir, err := os.MkdirTemp("", "segno-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		return 1, fmt.Errorf("build segno: %w", err)
	}
	if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// Scenario runs do with hooks enabled on the newest version of Claude Code, and on the older ones if the test is drawn.
// files has the content of the project before segno is enabled.
func Scenario(t *testing.T, files map[string]string, do func(s *Stage)) {
	t.Helper()
	scenario(t, soak.Versions(t, agentrig.ClaudeVersions()), files, do)
}

// ScenarioOnNewest runs do on the newest version of Claude Code if the test is drawn, and with SEGNO_SOAK on every version.
// Most scenarios do so.
func ScenarioOnNewest(t *testing.T, files map[string]string, do func(s *Stage)) {
	t.Helper()
	scenario(t, Newest(t, agentrig.ClaudeVersions()), files, do)
}

// ScenarioIfDrawn runs do on every version of Claude Code if the test is drawn. It is for what differs between the versions
// and is not a main journey.
func ScenarioIfDrawn(t *testing.T, files map[string]string, do func(s *Stage)) {
	t.Helper()
	if soak.IsDrawn(t) {
		scenario(t, agentrig.ClaudeVersions(), files, do)
	}
}

// Newest returns the last of an agent's versions if the test is drawn, else none, and with SEGNO_SOAK all of them.
func Newest[V any](t *testing.T, versions []V) []V {
	t.Helper()
	return Cases(t, versions[len(versions)-1:], versions[:len(versions)-1]...)
}

// Cases returns the first list if the test is drawn, else none, and with SEGNO_SOAK both lists. No test is skipped.
func Cases[T any](t *testing.T, first []T, more ...T) []T {
	t.Helper()
	switch {
	case soak.IsWhole():
		return append(slices.Clip(more), first...)
	case soak.IsDrawn(t):
		return first
	}
	return nil
}

func scenario(t *testing.T, versions []agentrig.ClaudeVersion, files map[string]string, do func(s *Stage)) {
	t.Helper()
	t.Parallel()
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			do(newStage(t, version, files))
		})
	}
}

// newStage installs Claude Code, starts its model and enables segno.
func newStage(t *testing.T, version agentrig.ClaudeVersion, files map[string]string) *Stage {
	t.Helper()
	bin, err := agentrig.Install(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t)
	s.limit()
	if s.Rig, err = agentrig.New(s.dir, bin, s.modelURL); err != nil {
		t.Fatal(err)
	}
	s.Version = version
	for name, content := range files {
		s.Write(name, content)
	}
	s.Segno("enable", "claude")
	t.Cleanup(s.sound)
	t.Cleanup(func() { agentrig.KillAll(t, filepath.Dir(s.dir)) }) // first of the two
	return s
}

// Agent returns a stage of an agent that speaks the Agent Client Protocol, and that agent. It
// enables no hooks.
func Agent(t *testing.T, agent agentrig.ACPAgent, files map[string]string) (*Stage, *agentrig.ACP) {
	t.Helper()
	t.Parallel()
	s := prepare(t)
	acp, err := agentrig.NewACP(t.Context(), s.dir, s.modelURL, agent)
	if err != nil {
		t.Fatal(err)
	}
	s.limit()
	s.Rig = acp.Rig
	for name, content := range files {
		s.Write(name, content)
	}
	t.Cleanup(s.sound)
	t.Cleanup(func() { agentrig.KillAll(t, filepath.Dir(s.dir)) }) // first of the two
	return s, acp
}

// Codex returns a stage of a version of Codex with segno's hooks, and that agent. The rig makes
// a version that asks the user to review hooks run them without asking.
func Codex(t *testing.T, version agentrig.CodexVersion, files map[string]string) (*Stage, *agentrig.Codex) {
	t.Helper()
	s := prepare(t)
	agent, err := agentrig.NewCodex(t.Context(), s.dir, s.modelURL, version)
	if err != nil {
		t.Fatal(err)
	}
	s.limit()
	if version != agentrig.CodexOldest {
		agent.Flags = append(agent.Flags, "--dangerously-bypass-hook-trust")
	}
	s.Rig = agent.Rig
	for name, content := range files {
		s.Write(name, content)
	}
	s.Segno("enable", "codex")
	t.Cleanup(s.sound)
	t.Cleanup(func() { agentrig.KillAll(t, filepath.Dir(s.dir)) }) // first of the two
	return s, agent
}

// Pair returns a stage of Claude Code, and Codex in the same home and project, both with segno's hooks.
func Pair(t *testing.T, claude agentrig.ClaudeVersion, codex agentrig.CodexVersion, files map[string]string) (*Stage, *agentrig.Codex) {
	t.Helper()
	bin, err := agentrig.Install(t.Context(), claude)
	if err != nil {
		t.Fatal(err)
	}
	s, agent := Codex(t, codex, files)
	if s.Rig, err = agentrig.New(s.dir, bin, s.modelURL); err != nil {
		t.Fatal(err)
	}
	s.Version = claude
	s.Segno("enable", "claude")
	return s, agent
}

// Gemini returns a stage of a version of Gemini CLI with segno's hooks, and that agent.
func Gemini(t *testing.T, version agentrig.GeminiVersion, files map[string]string) (*Stage, *agentrig.Gemini) {
	t.Helper()
	s := prepare(t)
	agent, err := agentrig.NewGemini(t.Context(), s.dir, s.modelURL, version)
	if err != nil {
		t.Fatal(err)
	}
	s.limit()
	s.Rig = agent.Rig
	for name, content := range files {
		s.Write(name, content)
	}
	s.Segno("enable", "gemini")
	t.Cleanup(s.sound)
	t.Cleanup(func() { agentrig.KillAll(t, filepath.Dir(s.dir)) }) // first of the two
	return s, agent
}

// OpenCode returns a stage of OpenCode with segno's plugin, and that agent.
func OpenCode(t *testing.T, files map[string]string) (*Stage, *agentrig.ACP) {
	t.Helper()
	s := prepare(t)
	agent, err := agentrig.NewOpenCode(t.Context(), s.dir, s.modelURL)
	if err != nil {
		t.Fatal(err)
	}
	s.limit()
	s.Rig = agent.Rig
	for name, content := range files {
		s.Write(name, content)
	}
	s.Segno("enable", "opencode")
	t.Cleanup(s.sound)
	t.Cleanup(func() { agentrig.KillAll(t, filepath.Dir(s.dir)) }) // first of the two
	return s, agent
}

// prepare makes a stage with a model and no agent.
func prepare(t *testing.T) *Stage {
	t.Helper()
	s := &Stage{T: t, Model: fakemodel.New(), Binary: Command(t), dir: t.TempDir()}
	url, stop, err := s.Model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	s.modelURL = url
	s.Store = filepath.Join(s.dir, "store")
	return s
}

// limit starts the scenario's time. The installation of the agent does not count.
func (s *Stage) limit() {
	most := limit
	if soak.IsWhole() {
		most = limitOfCampaigns
	}
	ctx, cancel := context.WithTimeout(s.T.Context(), most)
	s.Cleanup(cancel)
	s.Ctx = ctx
}
