package agentrig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// NewOpenCode is [NewACP] for OpenCode, which runs shell commands without asking.
func NewOpenCode(ctx context.Context, dir, modelURL string) (*ACP, error) {
	a, err := NewACP(ctx, dir, modelURL, OpenCode)
	if err != nil {
		return nil, err
	}
	a.Path = append(a.Path, filepath.Dir(a.Command[0])) // segno runs opencode
	return a, a.configureOpenCode("allow")
}

// OpenCodeConfig is OpenCode's configuration directory.
func (a *ACP) OpenCodeConfig() string { return filepath.Join(a.Home, ".config", "opencode") }

// RunOpenCode runs one prompt to its end and returns the session. An exit code other than 0 is
// an error, too.
func (a *ACP) RunOpenCode(ctx context.Context, prompt string, args ...string) (session string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := a.Start(ctx, slices.Concat([]string{a.Command[0], "run", "--format", "json"}, args)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(prompt), &stdout, &stderr // OpenCode would quote an argument
	p, err := start(cmd)
	if err != nil {
		return "", err
	}
	code, err := p.Wait(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("agentrig: opencode exited with %d: %s%s", code, stdout.String(), stderr.String())
	}
	for line := range bytes.Lines(stdout.Bytes()) {
		var event struct{ SessionID string }
		if json.Unmarshal(line, &event) == nil && event.SessionID != "" {
			session = event.SessionID
		}
	}
	return session, err
}
