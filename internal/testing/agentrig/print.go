package agentrig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Result is the result of one claude -p.
type Result struct {
	Stdout, Stderr string
	Code           int // the exit code; -1 if a signal ended it
	Outcome        Outcome
}

// Outcome is the result message that ends a turn in the JSON output formats.
type Outcome struct {
	Subtype   string `json:"subtype"`
	IsError   bool   `json:"is_error"`
	Text      string `json:"result"`
	SessionID string `json:"session_id"`
	NumTurns  int    `json:"num_turns"`
}

// Printing is a claude -p under way.
type Printing struct {
	*Process
	stdout, stderr bytes.Buffer
}

// Print runs claude -p with a prompt to its end. The output format is json unless
// args say otherwise. If the agent exits with an error, Print returns a Result and not an
// error.
func (r *Rig) Print(ctx context.Context, prompt string, args ...string) (Result, error) {
	p, err := r.StartPrint(ctx, prompt, args...)
	if err != nil {
		return Result{}, err
	}
	return p.Result(ctx)
}

// StartPrint starts claude -p and returns at once.
func (r *Rig) StartPrint(ctx context.Context, prompt string, args ...string) (*Printing, error) {
	args = slices.Concat([]string{"-p"}, r.Flags, args)
	if !slices.Contains(args, "--output-format") {
		args = append(args, "--output-format", "json")
	}
	if prompt != "" {
		args = append(args, "--", prompt)
	}
	p := &Printing{}
	cmd := r.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	var err error
	p.Process, err = start(cmd)
	return p, err
}

// Result waits for the end of the process.
func (p *Printing) Result(ctx context.Context) (Result, error) {
	code, err := p.Wait(ctx)
	if err != nil {
		return Result{}, err
	}
	res := Result{Stdout: p.stdout.String(), Stderr: p.stderr.String(), Code: code}
	// Ignore errors: other formats, and an agent that crashed early, print no such object.
	_ = json.Unmarshal(p.stdout.Bytes(), &res.Outcome)
	return res, nil
}

// Must returns the outcome of a successful Print, or an error with the reason of the
// failure.
func (res Result) Must() (Outcome, error) {
	if res.Code != 0 || res.Outcome.IsError {
		return res.Outcome, fmt.Errorf("agentrig: the agent exited with %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	return res.Outcome, nil
}
