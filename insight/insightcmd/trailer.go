package insightcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
)

func (a *app) gitTrailer() *cobra.Command {
	return &cobra.Command{
		Use:   "git-trailer [CHECKPOINT]",
		Short: "print a trailer for a commit's message that names a checkpoint",
		Long: `Prints a trailer for the message of a git commit. It names a checkpoint, by default the
head of the thread. 'segno show HEAD' reads the trailer and shows that checkpoint, also in
another work tree of the repository that segno records on this machine. The trailer has no text of
the conversation. docs/understand.md has a hook that adds it to each commit.`,
		Example:           "  git commit --trailer \"$(segno git-trailer)\"",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE: a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
			_, c, err := a.CheckpointNamed(ctx, d, append(args, "@")[0])
			if err != nil {
				return err
			}
			trailer := cli.GitTrailer + ": " + string(c.ID)
			result := struct {
				Trailer    string         `json:"trailer"`
				Checkpoint segno.CommitID `json:"checkpoint"`
				Thread     segno.ThreadID `json:"thread"`
			}{trailer, c.ID, c.Thread}
			return a.Print(result, func(p *cli.Printer) { p.Linef("%s", cli.Inline(trailer)) })
		}),
	}
}
