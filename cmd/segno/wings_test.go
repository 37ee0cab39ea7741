package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/fleet/fleetcmd"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/soak"
	wholeCommand "github.com/dalsegno/segno/internal/testing/wings"
)

// namesOf returns the names of the verbs of wings.
func namesOf(wings []cli.Wing) (names []string) {
	for _, c := range cli.New(cli.Env{}, wings).Root().Commands() {
		names = append(names, c.Name())
	}
	return names
}

// TestTheTestsHaveAllWings checks that the tests of the main module run the command with the wings of this one. The main module cannot import
// the wing of the fleet, which is in another module.
func TestTheTestsHaveAllWings(t *testing.T) {
	fleet := namesOf([]cli.Wing{fleetcmd.Wing(nil)})
	want := slices.DeleteFunc(namesOf(wings()), func(name string) bool {
		return slices.Contains(fleet, name) && !slices.Contains(namesOf(nil), name)
	})
	if got := namesOf(wholeCommand.All()); !slices.Equal(got, want) {
		t.Errorf("the tests have the verbs %q, and the command has %q", got, want)
	}
}

// TestACommandWithoutAWing takes each wing away. The rest is a command that has its other verbs.
func TestACommandWithoutAWing(t *testing.T) {
	all := namesOf(wings())
	for i := range wings() {
		rest := namesOf(slices.Delete(wings(), i, i+1))
		if len(rest) >= len(all) || !slices.ContainsFunc(rest, func(name string) bool { return slices.Contains(all, name) }) {
			t.Errorf("without wing %d the verbs are %q", i, rest)
		}
	}
}

// TestTheLeanCommand builds the command with few wings and undoes the turn of its demo.
func TestTheLeanCommand(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it compiles another command
	}
	dir := t.TempDir()
	segno := filepath.Join(dir, "segno")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "lean", "-o", segno, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), segno, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+filepath.Join(dir, "data"))
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run("demo"); err != nil || !strings.Contains(out, "undo") {
		t.Errorf("the demo: %v\n%s", err, out)
	}
	if out, err := run("generations"); err == nil || !strings.Contains(out, "generations") {
		t.Errorf("a verb of a missing wing: %v\n%s", err, out)
	}
}
