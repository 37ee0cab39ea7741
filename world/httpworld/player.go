package httpworld

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// Player returns the scripted player of the world in a directory. Its command runs once for each action, in the
// directory of the world. It reads the observation from standard input and prints the action. AGENT_WORKSPACE
// names the directory with the files of the agent. The processes that the command started end with it.
func Player(ctx context.Context, dir, workspace string) (world.Player, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	argv := c.Player.Command
	if len(argv) == 0 {
		return nil, segno.Errorf(segno.KindInvalid, "find player", c.Name, "the world has no player.command for offline agents").
			WithHint("see docs/worlds.md, or choose another kind of agent")
	}
	return func(o segno.Observation) (json.RawMessage, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		var out, failure bytes.Buffer
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(o), &out, &failure
		cmd.Env = environment([]string{"AGENT_WORKSPACE=" + workspace})
		// A program that the command started has its output, too, and would keep Run waiting.
		cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, time.Second
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		err := cmd.Run()
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left in the background
		}
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return nil, segno.Errorf(segno.KindIO, "run player", c.Name, "%v: %s", err, strings.TrimSpace(failure.String()))
		}
		action := bytes.TrimSpace(out.Bytes())
		if !json.Valid(action) {
			return nil, segno.Errorf(segno.KindInvalid, "run player", c.Name, "it printed %q, which is not JSON", action)
		}
		return action, nil
	}, nil
}
