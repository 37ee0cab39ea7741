package worldscmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
)

// TestHostileGenerations prints the status and the log for files that an agent or another user may have written.
func TestHostileGenerations(t *testing.T) {
	const evil = "x\x1b[2J\nline"
	var out bytes.Buffer
	p := cli.New(cli.Env{Getenv: func(string) string { return "" }}, nil).Printer(&out)
	writeExperiment(p, generationsItem{
		generation.Status{Experiment: evil, State: evil, Agents: []string{evil}, CheckpointFailures: 1, LastFailure: evil, Error: evil},
		&generation.Pointer{Checkpoint: evil}})
	writeGenerationsLog(p, generation.Log{Rows: []generation.Row{{Agent: evil, TemplateIn: evil}}, Checkpoints: []generation.SavedCheckpoint{
		{Path: evil, Run: "run." + evil, SimTime: evil, Consistency: evil}, {Path: evil, Error: evil}}})
	if text := out.String(); p.Err != nil || strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 8 {
		t.Errorf("it printed\n%q, %v", text, p.Err)
	}
}
