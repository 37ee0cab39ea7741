package webcmd

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/gitai"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/vfs"
)

// formatGitAI is the format of a note for a commit. Unlike the other formats, it has no text of the conversation.
const formatGitAI = "git-ai"

// notedCommit is the result of export --format git-ai with -o.
type notedCommit struct {
	File      string `json:"file"`
	FileBytes []byte `json:"file_bytes,omitempty"`
	Format    string `json:"format"`
	Commit    string `json:"commit"`
	Bytes     int    `json:"bytes"`
}

// runExportNote prints the note of git-ai for a commit, or writes it to a file. It never writes to the repository.
func (a *app) runExportNote(ctx context.Context, d *cli.Workspace, rev string, flags exportFlags) error {
	thread, err := a.ThreadID(ctx, d)
	if err != nil {
		return err
	}
	head, err := d.Store.Head(ctx, thread)
	if err != nil {
		return err
	}
	src, err := gitai.Open(d.Store, d.Rec, head.Head)
	if err != nil {
		return err
	}
	defer src.Git.Close()
	commit, err := src.Git.Commit(rev)
	if err != nil {
		return err
	}
	note, left, err := src.Make(ctx, commit)
	if err != nil {
		return err
	}
	text, err := note.Encode()
	if err != nil {
		return err
	}
	for _, path := range left {
		a.Notef("left out, because the format cannot have its name: %s", cli.QuotePath(path))
	}
	if flags.output == "" {
		_, err := a.Stdout.Write(text)
		return cli.WrapWriteError(err)
	}
	dir, err := a.WorkDir()
	if err != nil {
		return err
	}
	path := cli.Absolute(dir, flags.output)
	if err := cli.CheckOutput("export", path); err != nil {
		return err
	}
	switch err := vfs.WriteNew(vfs.OS, path, bytes.NewReader(text), 0o600); {
	case errors.Is(err, fs.ErrExist):
		return segno.Errorf(segno.KindConflict, "export", path, "already exists").WithHint("give a new file with -o")
	case err != nil:
		return segno.NewError(segno.KindIO, "export", path, err)
	}
	res := notedCommit{path, segno.PathBytes(path), formatGitAI, commit.ID, len(text)}
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("wrote %s: the note for %.12s, %s", cli.QuotePath(a.RelativePath(path)), commit.ID, cli.Size(int64(len(text))))
	})
}
