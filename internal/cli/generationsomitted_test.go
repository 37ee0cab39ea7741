package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentThatWritesItsEnvironment has an agent that runs 'env > vars' in each turn, with a token in a variable. Every
// checkpoint is made without this file. Each command that reads a checkpoint names the file, but does not print the
// token.
func TestAgentThatWritesItsEnvironment(t *testing.T) {
	t.Parallel()
	const token = "ghp_" + "R5pZ8kQ2mW7xT4vN9cB3dF6hJ1sL0aYgUeKi"
	x := newExperiment(t, "world = \"company\"\ngenerations = 2\nticks = 2\n[[agents]]\nname = \"Cy\"\nkind = \"claude\"\nenv = [\"DEPLOY_TOKEN\"]\n", "0.001")
	x.env = append(x.env, "DEPLOY_TOKEN="+token)
	x.replaceClaude("#!/bin/sh\necho note >> notes\nenv > vars\n")
	const file = "agents/Cy/workspace/vars"
	out := x.mustRun()
	if n := strings.Count(out, file); n != 1 || !strings.Contains(out, "generation 1, tick 1: the scan found a secret: checkpoints go without "+file) {
		t.Errorf("the run named the file %d times:\n%s", n, out)
	}
	if strings.Contains(out, "no checkpoint") {
		t.Errorf("a checkpoint failed:\n%s", out)
	}
	other := newExperiment(t, "", "0")
	other.env = append(other.env, "DEPLOY_TOKEN=")
	other.replaceClaude("#!/bin/sh\ncat notes && ! test -e vars\n")
	last := filepath.Join(x.dir, "runs/village-g002/checkpoints/gen002-t000001.ckpt")
	look := func(x *experiment, want string, args ...string) {
		t.Helper()
		out, err := x.command(args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), token) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	look(x, "the newest archive is without "+file, "generations", "status")
	look(x, "gen002-t000001.ckpt  21600 s in the world, quiet  without 1 file", "generations", "log", "village")
	look(x, "left out when it was written:\n  "+file+"  secret-scan", "archive", "inspect", last)
	look(x, "the scan found a secret when it was written:\n  "+file+"  secret-scan", "unpack", last, "--to", "unpacked")
	look(x, file, "unpack", last, "--to", "dry", "--dry-run")
	text, err := os.ReadFile(x.file)
	if err == nil {
		err = os.WriteFile(other.file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	look(other, "generation 2: Cy has only the files of its archive: restore files: the archive leaves out "+file+" because of a secret",
		"generations", "wake", last, "--experiment", other.file, "--trust-session")
}
