package cli

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// seeingAgent is a program in the place of Claude Code that writes down everything that it can see, and acts.
const seeingAgent = `#!/bin/sh
{
	echo "TURN"
	printf 'argument %s\n' "$@"
	echo "directory $(pwd) has $(ls -A) and $(ls -A "$TMPDIR")"
	env | grep -v '^_=' | sort
	echo "home $(cd "$HOME" && find . | sort | tr '\n' ' ')"
	curl -s -H "X-Session: $WORLD_SESSION" "$WORLD_URL/observe"; echo
	curl -s -H "X-Session: $WORLD_SESSION" -d '{"do":"order","good":"beans","quantity":1}' "$WORLD_URL/act"; echo
} >> seen
`

// runSeeing runs an experiment with agents that write down what they see, and returns it for each agent of
// each generation.
func runSeeing(t *testing.T, run func(x *experiment)) map[string]string {
	t.Helper()
	x := newExperiment(t, strings.ReplaceAll(villageTOML, `name = "Cy"`, "name = \"Cy\"\nkind = \"claude\""), "0.05")
	x.replaceClaude(seeingAgent)
	run(x)
	all := map[string]string{}
	for _, g := range []string{"1", "2", "3"} {
		data, err := os.ReadFile(filepath.Join(x.dir, "runs", "village-g00"+g, "agents/Cy/workspace/seen"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(x.dir, "DIR").Replace(string(data))
		all[g] = samePorts(text)
	}
	return all
}

// samePorts numbers the ports of worlds in the order of their first use. Each generation has a port.
func samePorts(text string) string {
	names := map[string]string{}
	return regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllStringFunc(text, func(port string) string {
		if names[port] == "" {
			names[port] = "WORLD" + string(rune('1'+len(names)))
		}
		return names[port]
	})
}

// TestAgentsCannotTellThatTheyWereResumed compares everything that an agent sees in a run with kills and in one without.
func TestAgentsCannotTellThatTheyWereResumed(t *testing.T) {
	want := runSeeing(t, func(x *experiment) { x.mustRun() })
	got := runSeeing(t, func(x *experiment) { x.runKilled(rand.New(rand.NewPCG(4, 4))) })
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text := strings.ReplaceAll(want["3"], os.Getenv("PATH"), "PATH") // the directory of the tests has such a name
	if at := strings.Index(strings.ToLower(text), "segno"); at >= 0 {
		t.Errorf("the agent sees segno: %s", text[max(0, at-100):min(len(text), at+100)])
	}
	if turns := strings.Count(want["3"], "TURN\n"); turns != 24 {
		t.Errorf("%d turns, want 24", turns)
	}
}
