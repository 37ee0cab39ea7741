package httpworld

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// Player returns the scripted player of the world in a directory. Its command runs once for each action, in the
// directory of the world. It reads the observation from standard input and prints the action. AGENT_WORKSPACE
// names the directory with the files of the agent.
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
		if err := cmd.Run(); err != nil {
			return nil, segno.Errorf(segno.KindIO, "run player", c.Name, "%v: %s", err, strings.TrimSpace(failure.String()))
		}
		action := bytes.TrimSpace(out.Bytes())
		if !json.Valid(action) {
			return nil, segno.Errorf(segno.KindInvalid, "run player", c.Name, "it printed %q, which is not JSON", action)
		}
		return action, nil
	}, nil
}
