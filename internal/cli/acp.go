package cli

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy"
)

func (a *app) acp() *cobra.Command {
	var bestEffort bool
	c := &cobra.Command{
		Use:   "acp [flags] -- AGENT [ARG...]",
		Short: "stand between an editor and an agent, and make their sessions durable",
		Long: `Runs an agent that speaks the Agent Client Protocol and passes its messages on,
byte for byte. Every turn becomes a checkpoint. A session that is lost below is
resumed, written anew or told what happened, under the id the client knows; the
client sees one conversation. In the client, /checkpoints, /undo, /redo, /restore,
/fork and /edit work on files and conversation together.

Put 'segno acp --' in front of the agent's command in the editor's settings;
docs/acp.md has them for each editor.`,
		Example: "  segno acp -- claude-agent-acp\n  acpx --agent \"segno acp -- claude-agent-acp\" exec \"...\"",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(segno.Errorf(segno.KindInvalid, "acp", "", "it needs the agent's command after --"))
			}
			place, err := a.place()
			if err != nil {
				return err
			}
			dir, err := a.workDir()
			if err != nil {
				return err
			}
			signal.Ignore(syscall.SIGPIPE) // a client that is gone must not take us with it before the agent is ended
			return proxy.Run(c.Context(), proxy.Config{Command: args, Env: a.Environ(), Dir: dir,
				Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Place: place, BestEffort: bestEffort})
		},
	}
	c.Flags().BoolVar(&bestEffort, "best-effort", false, "go on with a turn that cannot be recorded")
	c.Flags().SetInterspersed(false)
	return c
}
