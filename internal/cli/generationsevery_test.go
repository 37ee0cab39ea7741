package cli

import (
	"testing"
	"time"
)

func TestCheckpointEvery(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 15 * time.Minute, "0": 0, "1": time.Second, "0.5": time.Second / 2, "1e-15": 1, "1e9": 1e18,
		"-1": -1, "NaN": -1, "Inf": -1, "1e10": -1, "15m": -1, " 1": -1, "-0": 0} {
		a := &app{Env: Env{Getenv: func(string) string { return text }}}
		got, err := a.checkpointEvery(15 * time.Minute)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}
