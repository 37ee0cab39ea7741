package historycmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/workspace"
)

func (a *app) cat() *cobra.Command {
	return &cobra.Command{
		Use: "cat CHECKPOINT:PATH", Short: "print a file of a checkpoint", Args: cobra.ExactArgs(1),
		Long: `Prints a file as it was at a checkpoint, byte for byte. On a terminal, characters that could
control it are escaped. 'segno restore CHECKPOINT PATH' writes the file back.`,
		Example:           "  segno cat t3:src/a.go\n  segno cat @-:.env > old.env",
		ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE:              a.InWorkspace(a.runCat),
	}
}

type catResult struct {
	Checkpoint segno.CommitID   `json:"checkpoint"`
	Path       string           `json:"path"`
	Type       segno.EntityType `json:"type"`
	Mode       uint32           `json:"mode"`
	Content    string           `json:"content"`           // of a file, or the target of a symlink
	Inexact    bool             `json:"inexact,omitempty"` // a point inside a turn at which it may have been different

	PathBytes    []byte `json:"path_bytes,omitempty"`
	ContentBytes []byte `json:"content_bytes,omitempty"` // base64, if the content is not valid UTF-8
}

func (a *app) runCat(ctx context.Context, d *cli.Workspace, args []string) error {
	name, path, ok := strings.Cut(args[0], ":")
	if !ok || name == "" || path == "" {
		return cli.Usage(errors.New("cat takes a checkpoint and a path, as in 'segno cat t3:src/a.go'"))
	}
	_, c, point, err := a.FilesNamed(ctx, d, name)
	if err != nil {
		return err
	}
	paths, err := cli.NamedPaths(d, path)
	if err != nil {
		return err
	}
	entity, path, err := cli.FileAt(ctx, d, c, paths, workspace.LookupFile)
	if err != nil {
		return err
	}
	isInexact := point != nil && slices.Contains(point.Unknown, path)
	if isInexact {
		a.Notef("%s may have been different at %s: a command may have changed it", cli.QuotePath(path), point.Name())
	}
	content := []byte(entity.Target)
	if entity.HasContent() {
		if content, err = d.Content(ctx, entity.Hash); err != nil {
			return err
		}
	}
	res := catResult{Checkpoint: c.ID, Path: path, Type: entity.Type, Mode: entity.Mode, Content: string(content), Inexact: isInexact,
		PathBytes: segno.PathBytes(path), ContentBytes: segno.PathBytes(string(content))}
	switch {
	case a.JSON:
		return a.Print(res, nil)
	case !cli.Terminal(a.Stdout):
		a.Bar.Erase()
		_, err := a.Stdout.Write(content)
		return cli.WrapWriteError(err)
	case patch.IsBinary(content):
		return segno.Errorf(segno.KindRefused, "cat", args[0], "it is a binary file").WithHint("write it to a file: add '> FILE'")
	}
	return a.PrintLong(res, func(p *cli.Printer) { p.Lines([]string{strings.TrimSuffix(printable.Patch(string(content)), "\n")}) })
}
