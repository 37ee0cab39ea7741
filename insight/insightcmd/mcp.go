package insightcmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/internal/mcp"
)

func (a *app) mcp() *cobra.Command {
	var o mcp.Options
	c := &cobra.Command{
		Use: "mcp", Short: "serve the history of this directory to an agent, over MCP",
		Long: `Speaks the Model Context Protocol on standard input and output, for an agent that starts it. The
tools are log, show, diff, cat, blame, search, threads and status. With --allow-moves, an agent can
also undo, redo, restore, fork and save. Their results are those of the verbs with --json.

An agent that asks for an undo or a restore of its own thread during its turn gets the outcome
REQUESTED: the move is made once, when the turn ends. 'segno status' lists it, and 'segno op
cancel' drops it. No tool overwrites a conflict.`,
		Example: "  claude mcp add segno -- segno mcp\n  codex mcp add segno -- segno mcp --allow-moves",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in, isFile := a.Stdin.(io.ReadCloser)
			out, isAlso := a.Stdout.(io.WriteCloser)
			if !isFile || !isAlso {
				return segno.Errorf(segno.KindInternal, "mcp", "", "standard input and output cannot be closed")
			}
			return mcp.Serve(c.Context(), a.App, in, out, o)
		},
	}
	c.Flags().BoolVar(&o.AllowMoves, "allow-moves", false, "also offer undo, redo, restore, fork and save")
	return c
}
