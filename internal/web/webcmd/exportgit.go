package webcmd

import (
	"context"

	"github.com/dalsegno/segno/insight/gitai"
	"github.com/dalsegno/segno/internal/cli"
)

// formatGitAI is the format of a note for a commit. Unlike the other formats, it has no text of the conversation.
const formatGitAI = "git-ai"

// runExportNote prints the note of git-ai for a commit. It writes nothing to the repository.
func (a *app) runExportNote(ctx context.Context, d *cli.Workspace, args []string) error {
	thread, err := a.ThreadID(ctx, d)
	if err != nil {
		return err
	}
	src, err := gitai.Open(ctx, d.Store, d.Rec, thread)
	if err != nil {
		return err
	}
	defer src.Git.Close()
	commit, err := src.Git.Commit(append(args, "HEAD")[0])
	if err != nil {
		return err
	}
	note, left, err := src.Make(ctx, commit)
	if err != nil {
		return err
	}
	for _, x := range left {
		a.Notef("left out: %s: %s", cli.QuotePath(x.Path), x.Why)
	}
	text, err := note.Encode()
	if err == nil {
		_, err = a.Stdout.Write(text)
	}
	return cli.WrapWriteError(err)
}
