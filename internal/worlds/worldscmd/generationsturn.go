package worldscmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/worlds/worldagent"
)

// turnFlags adds the flags of an agent's turn in a world. The other settings come from the
// environment.
func turnFlags(c *cobra.Command, t *worldagent.Config) {
	c.Hidden = true
	c.Flags().StringVar(&t.Conversation, "conversation", "", "the `DIR` of the conversation")
	c.Flags().StringVar(&t.ID, "id", "", "the `ID` of the conversation")
	c.Flags().StringVar(&t.Prompt, "prompt", "", "the `TEXT` that begins the turn")
	c.Flags().StringVar(&t.System, "system", "", "the system prompt, a `TEXT`")
}

// placeTurn sets the world, the ticket and the directory of a turn.
func (a *app) placeTurn(t *worldagent.Config) (err error) {
	t.World, t.Ticket = a.Getenv("WORLD_URL"), a.Getenv("WORLD_SESSION")
	t.Dir, err = a.WorkDir()
	return err
}

// generationsTurn is the command of a process that runs one turn of segno's own agent.
func (a *app) generationsTurn() *cobra.Command {
	var t worldagent.Config
	var world, model string
	c := &cobra.Command{
		Use: "turn", Short: "run one turn of an agent in a world", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := a.placeTurn(&t)
			var m agent.Model
			if err == nil {
				m, err = a.turnModel(c.Context(), world, model, t.Dir)
			}
			if err != nil {
				return err
			}
			words, err := worldagent.Turn(c.Context(), m, t)
			return a.printTurn(words, err)
		},
	}
	turnFlags(c, &t)
	c.Flags().StringVar(&world, "world", "", "the `WORLD`, whose scripted player is the offline model")
	c.Flags().StringVar(&model, "model", "", "the `MODEL`: offline, anthropic/NAME or openai/NAME")
	return c
}

// turnModel returns the model of an agent. The offline model is the scripted player of the world.
func (a *app) turnModel(ctx context.Context, world, model, workspace string) (agent.Model, error) {
	if cmp.Or(model, "offline") != "offline" {
		return a.models.Open(model, a.Getenv)
	}
	player, err := playerOf(ctx, world, workspace)
	if err != nil {
		return nil, err
	}
	return worldagent.Player(player), nil
}

// printTurn prints the last message of an agent.
func (a *app) printTurn(words string, err error) error {
	if err != nil {
		return err
	}
	p := a.Printer(a.Stdout)
	p.Linef("%s", cli.Clean(words))
	return p.Err
}

// generationsACP is the command of a process that runs one turn of an agent with the Agent Client
// Protocol.
func (a *app) generationsACP() *cobra.Command {
	var t worldagent.Config
	var session string
	c := &cobra.Command{
		Use: "acp -- COMMAND ...", Short: "run one turn of an ACP agent in a world", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.placeTurn(&t); err != nil {
				return err
			}
			words, err := worldagent.TurnACP(c.Context(), t, segno.SessionID(session), args)
			return a.printTurn(words, err)
		},
	}
	turnFlags(c, &t)
	c.Flags().StringVar(&session, "session", "", "the session of the agent, an `ID`, if its home has it")
	return c
}
