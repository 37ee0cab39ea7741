package httpworld

import (
	"slices"
	"testing"
)

// TestEnvironment starts a world from a shell that has set Go's directories and keys. The world gets the directories,
// so that "go run ." works as in the shell, and none of the keys.
func TestEnvironment(t *testing.T) {
	for name, value := range map[string]string{"GOPATH": "/gopath", "GOCACHE": "/cache", "GOFLAGS": "-mod=mod", "GOPROXY": "https://joe:secret@proxy.example",
		"ANTHROPIC_API_KEY": "secret"} {
		t.Setenv(name, value)
	}
	env := environment([]string{"WORLD_SEED=7"})
	for _, want := range []string{"GOPATH=/gopath", "GOCACHE=/cache", "GOFLAGS=-mod=mod", "WORLD_SEED=7"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	for _, secret := range []string{"GOPROXY=https://joe:secret@proxy.example", "ANTHROPIC_API_KEY=secret"} {
		if slices.Contains(env, secret) {
			t.Errorf("the world gets %s", secret)
		}
	}
}
