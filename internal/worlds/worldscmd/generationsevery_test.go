package worldscmd

import (
	"testing"

	"time"

	"github.com/dalsegno/segno/internal/cli"
)

func TestCheckpointEvery(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 15 * time.Minute, "0": 0, "1": time.Second, "0.5": time.Second / 2, "1e-15": 1, "1e9": 1e18,
		"-1": -1, "NaN": -1, "Inf": -1, "1e10": -1, "15m": -1, " 1": -1, "-0": 0} {
		a := &app{App: cli.New(cli.Env{Getenv: func(string) string { return text }}, nil)}
		got, err := a.checkpointEvery(15 * time.Minute)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}
