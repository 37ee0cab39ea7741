package proxycmd

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/gemini"
	"github.com/dalsegno/segno/agents/opencode"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/proxy"
)

func (a *app) acp() *cobra.Command {
	var bestEffort, noWatch bool
	c := &cobra.Command{
		Use:   "acp [flags] -- AGENT [ARG...]",
		Short: "record the sessions of an editor and an agent through the Agent Client Protocol",
		Long: `Runs an agent that speaks the Agent Client Protocol, forwards its messages byte for
byte, and records every turn as a checkpoint. If the agent loses its session, segno
resumes it, rebuilds it from its transcript, or starts a new one with a summary of the
conversation. The client keeps its session id and sees one conversation. In the client,
/checkpoints, /undo, /redo, /restore, /fork and /edit change files and conversation
together.

Put 'segno acp --' in front of the agent's command in the editor's settings; docs/acp.md
shows how for each editor.`,
		Example: "  segno acp -- claude-agent-acp\n  acpx --agent \"segno acp -- claude-agent-acp\" exec \"...\"",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage(segno.Errorf(segno.KindInvalid, "acp", "", "the agent's command is missing after --"))
			}
			place, noPlace := a.OpenPlace()
			dir, err := a.WorkDir()
			if err != nil || noPlace != nil && !bestEffort {
				return errors.Join(noPlace, err)
			}
			for _, agent := range []string{gemini.Name, opencode.Name} { // tests prove their cuts only without the proxy
				delete(place.Homes, agent)
				delete(place.Data, agent)
			}
			signal.Ignore(syscall.SIGPIPE) // segno must outlive a client that exits first, to end the agent
			return proxy.Run(c.Context(), proxy.Config{Command: args, Env: a.Environ(), Dir: dir,
				Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Place: place, NoPlace: noPlace, BestEffort: bestEffort, NoWatch: noWatch})
		},
	}
	c.Flags().BoolVar(&bestEffort, "best-effort", false, "go on with a turn that cannot be recorded")
	c.Flags().BoolVar(&noWatch, "no-watch", false, "read every directory at each turn, instead of those that changed")
	c.Flags().SetInterspersed(false)
	return c
}
