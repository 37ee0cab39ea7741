package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno/agents/codex"
)

// Codex runs a new or changed hook only after the user reviewed it, and ignores it silently until
// then. segno never gives that consent for the user: it asks Codex, and reports the answer.

// reviewWait is how long Codex may take to answer. It needs a tenth of a second.
const reviewWait = 10 * time.Second

// listedHook is a hook in an answer to hooks/list.
type listedHook struct {
	Event      string `json:"eventName"`
	Command    string `json:"command"`
	SourcePath string `json:"sourcePath"`
	Enabled    bool   `json:"enabled"`
	Trust      string `json:"trustStatus"` // trusted, managed, untrusted or modified
}

// isRun reports whether Codex runs the hook.
func (h listedHook) isRun() bool {
	return h.Enabled && (h.Trust == "trusted" || h.Trust == "managed")
}

// unreviewed returns the events of segno's hooks in a settings file that Codex does not run in dir.
// It returns none if codex is not installed, or if it is a version that runs hooks without a review.
func unreviewed(ctx context.Context, file, dir string, env []string) ([]string, error) {
	binary, err := exec.LookPath(codex.Name)
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWait)
	defer cancel()
	all, err := listHooks(ctx, binary, dir, env)
	if err != nil {
		return nil, fmt.Errorf("ask %s which hooks it runs: %w", binary, err)
	}
	var events []string
	for _, h := range all {
		if followSymlinks(h.SourcePath) == file && codexAgent().commandOf(command{Command: h.Command}) != nil && !h.isRun() {
			events = append(events, h.Event)
		}
	}
	slices.Sort(events)
	return slices.Compact(events), nil
}

// listHooks asks a process of Codex for the hooks in a directory.
func listHooks(ctx context.Context, binary, dir string, env []string) ([]listedHook, error) {
	params, err := json.Marshal(map[string]any{"cwds": []string{dir}})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "app-server")
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = cmd.Wait() }() // the answer counts, not the exit code
	defer stdin.Close()               // it ends the process
	if _, err := fmt.Fprintf(stdin, "%s\n%s\n{\"id\":2,\"method\":\"hooks/list\",\"params\":%s}\n",
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"segno","version":"1"}}}`, `{"method":"initialized"}`, params); err != nil {
		return nil, err
	}
	return readHooks(stdout)
}

// readHooks reads the answer to hooks/list. A version that does not know the request has no review,
// so there is nothing to report.
func readHooks(stdout io.Reader) ([]listedHook, error) {
	const most = 8 << 20
	for dec := json.NewDecoder(io.LimitReader(stdout, most)); ; {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Error  json.RawMessage `json:"error"`
			Result struct {
				Data []struct {
					Hooks []listedHook `json:"hooks"`
				} `json:"data"`
			} `json:"result"`
		}
		err := dec.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("it ended without an answer")
		case err != nil:
			return nil, err
		case string(m.ID) != "2":
			continue
		case m.Error != nil && strings.Contains(string(m.Error), "unknown variant"):
			return nil, nil
		case m.Error != nil:
			return nil, fmt.Errorf("it answered %s", clip(string(m.Error)))
		}
		var all []listedHook
		for _, d := range m.Result.Data {
			all = append(all, d.Hooks...)
		}
		return all, nil
	}
}
