package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/local"
)

// Probe is the result of checking the hooks in one settings file.
type Probe struct {
	Agent   string   `json:"agent"`
	File    string   `json:"file"`
	Command []string `json:"command,omitempty"` // the command of the Stop event; empty if hooks are not enabled
	Missing []string `json:"missing,omitempty"` // events that are not registered
	Review  []string `json:"review,omitempty"`  // events whose hooks the agent does not run before the user reviewed them
	Fires   bool     `json:"fires"`             // every command answered a synthetic event, and the agent runs it
	Error   string   `json:"error,omitempty"`
	// IsOther is set if the plugin in the file is not the one of this version of segno.
	IsOther bool `json:"other_plugin,omitempty"`
	// IsOff is set if the user has turned off all hooks of the agent.
	IsOff bool `json:"-"`
}

// ProbeHooks runs each command in a settings file of an agent as the agent does, with a synthetic event, and checks the
// answer. It also asks Codex whether it runs the hooks in dir. Installed hooks do not always run, for example if their
// binary was moved.
func ProbeHooks(ctx context.Context, p local.Place, agent, settings, dir string, env []string) Probe {
	out := Probe{Agent: agent, File: settings}
	if err := out.probe(ctx, p, dir, env); err != nil {
		out.Error = err.Error()
	}
	return out
}

// probe fills in the result. It runs each different command once, however many events have it.
func (out *Probe) probe(ctx context.Context, p local.Place, dir string, env []string) error {
	a, err := agentOf(out.Agent)
	if err != nil {
		return err
	}
	e, err := a.readSettings(p, out.File)
	if errors.Is(err, errNotPlain) {
		return nil // no hooks of segno are in a device
	}
	if err != nil {
		return err
	}
	var all [][]string
	for _, r := range a.Hooks.Registrations {
		run, err := a.installed(e.Old, r.Event)
		switch {
		case err != nil:
			return err
		case run == nil:
			out.Missing = append(out.Missing, r.Event)
		case !slices.ContainsFunc(all, func(known []string) bool { return slices.Equal(known, run) }):
			all = append(all, run)
		}
		if r.Event == a.turnEnd() {
			out.Command = run
		}
	}
	if out.Command == nil {
		return nil
	}
	if a.Hooks.IsPlugin {
		current, err := addPlugin(e.Old, readPlugin(e.Old).commands())
		if err != nil {
			return err
		}
		out.IsOther = !bytes.Equal(current, e.Old)
	}
	for _, run := range all {
		if err := runProbe(ctx, run, env); err != nil {
			return err
		}
	}
	why, err := a.offReason(p, e)
	if out.IsOff = why != ""; out.IsOff {
		return errors.New(why)
	}
	if err != nil {
		return err
	}
	if a.Hooks.IsReviewed {
		if out.Review, err = unreviewed(ctx, e.File, dir, env); err != nil {
			return err
		}
	}
	if len(out.Review) > 0 {
		until := ""
		if isNotified(p) {
			until = "; until then only the ends of turns are recorded"
		}
		return fmt.Errorf("%s does not run them: you have not reviewed %s%s", a.Name, strings.Join(out.Review, ", "), until)
	}
	out.Fires = true
	return nil
}

// runProbe sends a command a synthetic event with a random number. The answer must be derived from
// that number: a command that echoes its input, or prints something else, is not segno.
func runProbe(ctx context.Context, run, env []string) error {
	nonce := segno.NewID()
	data, err := json.Marshal(map[string]string{"hook_event_name": event.Probe, "segno_nonce": nonce, "cwd": os.TempDir()})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, run[0], run[1:]...)
	cmd.Stdin, cmd.Env = bytes.NewReader(data), env
	stdout, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", run[0], err)
	}
	var answer struct {
		Segno string `json:"segno"`
	}
	if json.Unmarshal(stdout, &answer) != nil || answer.Segno != segno.DerivedID("probe", nonce) {
		return fmt.Errorf("%s did not answer the synthetic event", run[0])
	}
	return nil
}

// offReason returns why the agent runs no hooks: they are turned off in the settings in e, or in the user's settings if those in e
// do not decide. It returns "" if they are not turned off.
func (a agent) offReason(p local.Place, e Edit) (why string, err error) {
	off := a.Hooks.Switch
	if off == nil {
		return "", nil
	}
	users, err := a.readSettings(p, a.settingsFile(p, ""))
	if err != nil && !errors.Is(err, errNotPlain) {
		return "", err
	}
	for _, at := range []Edit{e, users} {
		in := jsonscan.Span{From: jsonscan.SkipSpace(at.Old, 0), To: len(at.Old)}
		value, isOff := jsonscan.Find(at.Old, in, off.Path...).Of(at.Old), strconv.FormatBool(off.Off)
		if string(value) == isOff {
			return fmt.Sprintf("%s runs no hooks, because %s is %s in %s", a.Name, strings.Join(off.Path, "."), isOff, at.File), nil
		}
		if value != nil {
			break
		}
	}
	return "", nil
}
