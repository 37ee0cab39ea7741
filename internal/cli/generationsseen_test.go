package cli_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// seeingAgent replaces Claude Code by a program that records everything that it can read, and acts. It leaves files
// that no archive contains, and compares the times of its files with those of its last turn.
const seeingAgent = `#!/bin/sh
list() { find . "$HOME" -type f ! -name .times -exec stat -c '%n %a %h %y' {} + | sort; }
{
	echo "TURN"
	printf 'argument %s\n' "$@"
	echo "directory $(pwd)"
	env | grep -v '^_=' | sort
	for dir in . "$HOME" "$TMPDIR"; do
		(cd "$dir" && find . ! -name now -printf '%p %m %y %l\n' | sort; find . -type f ! -name seen ! -name .times ! -name now | sort | xargs -r cat)
	done
	if test -f "$HOME/.times"; then list | diff "$HOME/.times" - && echo "all files are as they were left"; fi
	curl -si "$WORLD_URL/api.md" | head -5
	curl -si -H "X-Session: $WORLD_SESSION" "$WORLD_URL/observe"; echo
	curl -si -H "X-Session: $WORLD_SESSION" -d '{"do":"order","good":"beans","quantity":1}' "$WORLD_URL/act"; echo
} > "$TMPDIR/now" 2>&1
cat "$TMPDIR/now" >> seen
rm "$TMPDIR/now"
echo "$1" >> "$HOME/.history"
echo secret > .env
mkdir -p .git empty
test -f .git/HEAD || echo ref > .git/HEAD
touch private && chmod 600 private
list > "$HOME/.times"
`

// runSeeing runs an experiment with seeingAgent, and returns the records of each agent in each generation.
func runSeeing(t *testing.T, run func(x *experiment)) map[string]string {
	t.Helper()
	x := newExperiment(t, strings.NewReplacer(`name = "Cy"`, "name = \"Cy\"\nkind = \"claude\"", "ticks = 8", "ticks = 4").Replace(villageTOML), "0.05")
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

// TestAgentsCannotTellThatTheyWereResumed compares everything that an agent can read in a run with kills and in a run
// without kills.
func TestAgentsCannotTellThatTheyWereResumed(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes seconds
	}
	t.Parallel()
	want := runSeeing(t, func(x *experiment) { x.mustRun() })
	got := runSeeing(t, func(x *experiment) { x.runKilled(rand.New(rand.NewPCG(soak.Seed(t), 0))) })
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text := strings.ReplaceAll(want["3"], os.Getenv("PATH"), "PATH") // the directory of the tests is in it
	if at := strings.Index(strings.ToLower(text), "segno"); at >= 0 {
		t.Errorf("the agent sees segno: %s", text[max(0, at-100):min(len(text), at+100)])
	}
	if same := strings.Count(want["3"], "all files are as they were left\n"); same != 3*3 { // a generation has a new home
		t.Errorf("in %d turns the files were as they were left", same)
	}
	if turns := strings.Count(want["3"], "TURN\n"); turns != 12 {
		t.Errorf("%d turns, want 12", turns)
	}
}
