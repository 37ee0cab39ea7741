package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// events runs hooks as Claude Code does: without a shell, with the event on standard input. It
// obeys their exit codes and standard output.
type events struct {
	dir       string // the directory in which the agent was started
	path      string // path of the transcript
	anonymous bool
	installed bool
	double    bool
}

// settingsFiles returns the files in which the agent looks for hooks and which segno writes.
func (e *events) settingsFiles() []string {
	return []string{
		filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "settings.json"),
		filepath.Join(e.dir, ".claude", "settings.json"),
		filepath.Join(e.dir, ".claude", "settings.local.json"),
	}
}

// commands returns the commands of an event, without duplicates.
func (e *events) commands(event string) ([][]string, error) {
	if !e.installed {
		own := [][]string{{"segno", "hook", "claude"}}
		if e.double {
			own = append(own, own[0])
		}
		return own, nil
	}
	var all [][]string
	for _, file := range e.settingsFiles() {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var settings struct {
			Hooks map[string][]struct {
				Hooks []struct {
					Type, Command string
					Args          []string
					Async         bool
				}
			}
		}
		if err := json.Unmarshal(data, &settings); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, matcher := range settings.Hooks[event] {
			for _, hook := range matcher.Hooks {
				if hook.Async {
					return nil, fmt.Errorf("the hook of %s is async: it would be killed with a -p process", event)
				}
				command := append([]string{hook.Command}, hook.Args...)
				if hook.Args == nil {
					command = []string{"sh", "-c", hook.Command}
				}
				if !slices.ContainsFunc(all, func(c []string) bool { return slices.Equal(c, command) }) {
					all = append(all, command)
				}
			}
		}
	}
	return all, nil
}

func (a *agentStandIn) fire(event string, more map[string]any) error {
	return a.fireThen(event, more, func() error { return nil })
}

// fireThen calls then while the hooks run.
func (a *agentStandIn) fireThen(event string, more map[string]any, then func() error) error {
	payload := map[string]any{"hook_event_name": event, "session_id": a.session, "transcript_path": a.path,
		"cwd": a.transcriptWriter.cwd, "permission_mode": "default"}
	if !a.anonymous {
		payload["prompt_id"] = a.promptID
	}
	for k, v := range more {
		payload[k] = v
	}
	data, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	commands, err := a.commands(event)
	if err != nil {
		return err
	}
	for _, command := range commands {
		if err := a.run(event, command, data, then); err != nil {
			return fmt.Errorf("hook %s: %w", event, err)
		}
	}
	return nil
}

func (a *agentStandIn) run(event string, command []string, payload []byte, then func() error) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stderr = a.transcriptWriter.cwd, os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, _ = io.Copy(in, bytes.NewReader(payload)) // a hook need not read it
	_ = in.Close()
	if err := errors.Join(then(), cmd.Wait()); err != nil {
		return err
	}
	if out.Len() == 0 {
		return nil
	}
	if !json.Valid(out.Bytes()) {
		return fmt.Errorf("printed what is not JSON: %q", out.String())
	}
	fmt.Printf("%s said %s\n", event, bytes.TrimSpace(out.Bytes()))
	return nil
}
