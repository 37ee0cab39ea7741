package historycmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) fork() *cobra.Command {
	var to string
	var noNote, chatOnly bool
	c := &cobra.Command{
		Use:   "fork [CHECKPOINT] --to DIR",
		Short: "a new directory with the files of a checkpoint, and a session cut there",
		Long: `Makes a new directory with the files of a checkpoint (default: the head of the thread),
with untracked and ignored files and a separate .git, and a native session of the agent
that ends there. The source directory is only read.

With --chat it forks the conversation alone, also of a turn without files: a new thread with a
session that ends there, on the files as they are.`,
		Example:           "  segno fork t2 --to ../try-middleware\n  segno fork t2 --chat\n  cd ../try-middleware && claude --resume …",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			if (to == "") != chatOnly {
				return cli.Usage(errors.New("fork needs --to DIR, or --chat"))
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runFork(ctx, d, append(args, "@")[0], to, noNote)
			})(c, args)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the new directory; it must not exist")
	c.Flags().BoolVar(&chatOnly, "chat", false, "fork the conversation alone, on the files as they are")
	c.Flags().BoolVar(&noNote, "no-note", false, "do not add a note about the fork to the first prompt")
	a.WriteFlags(c)
	return c
}

type forkResult struct {
	Thread     segno.ThreadID  `json:"thread"`
	Checkpoint segno.CommitID  `json:"checkpoint"`
	Dir        string          `json:"dir"`         // the root of the new files
	SessionDir string          `json:"session_dir"` // where to run the command
	Session    segno.SessionID `json:"session"`
	Command    []string        `json:"command"`
	From       segno.CommitID  `json:"from"`
	How        string          `json:"how"`
	LeftOut    []string        `json:"left_out"`
	Databases  []string        `json:"databases,omitempty"` // the copies of attached databases
	// UnreadDatabases are the attached databases that the fork lacks, and those whose copy lacks a property.
	UnreadDatabases []history.UnreadDatabase `json:"unread_databases,omitempty"`

	DirBytes     []byte   `json:"dir_bytes,omitempty"`
	LeftOutBytes [][]byte `json:"left_out_bytes,omitempty"`
}

func (a *app) runFork(ctx context.Context, d *cli.Workspace, name, to string, noNote bool) error {
	_, c, err := a.CheckpointNamed(ctx, d, name)
	if err != nil {
		return err
	}
	dir := ""
	if to != "" {
		if c, err = a.withFiles(ctx, d, c); err != nil {
			return err
		}
		dir = cli.Absolute(d.Dir, to)
	}
	if a.DryRun {
		return a.dryFork(d, c, dir)
	}
	f, err := d.Timeline.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: c.ID, Name: cli.Label(c), Dir: dir, NoNote: noNote})
	if err != nil {
		return err
	}
	if c.Agent == chat.Name && c.Session == nil && len(f.Run) == 0 {
		f.Run = chat.Command(a.StoreToName(d.Store), f.Thread)
	}
	res := forkResult{Thread: f.Thread, Checkpoint: f.At.ID, Dir: f.Report.Root, SessionDir: f.Dir, Command: append([]string{}, f.Run...),
		From: c.ID, How: f.Report.How, Databases: f.Report.Databases, UnreadDatabases: history.UnreadDatabases(f.Report.Unsaved), LeftOut: append([]string{}, f.Report.LeftOut...),
		DirBytes: segno.PathBytes(f.Report.Root), LeftOutBytes: history.PathsBytes(f.Report.LeftOut)}
	if f.Link != nil {
		res.Session = f.Link.Session
	}
	return cli.WithUnread(a.Print(res, func(p *cli.Printer) { a.writeFork(p, c, f, res) }), res.UnreadDatabases)
}

func (a *app) writeFork(p *cli.Printer, c *segno.Checkpoint, f *timeline.ForkResult, res forkResult) {
	if res.How == "none" { // without a directory
		p.Linef("forked %s into thread %s, on the same files", cli.Label(c), cli.Short(f.Thread))
	} else {
		p.Linef("forked %s into %s (%s, by %s)", cli.Label(c), cli.QuotePath(res.Dir), cli.Files(f.Report.Files), res.How)
	}
	for _, path := range res.LeftOut {
		p.Linef("  left out: %s", shortPath(path))
	}
	for _, path := range res.Databases {
		p.Linef("  database: %s", cli.QuotePath(path))
	}
	for _, u := range res.UnreadDatabases {
		p.Linef("  %s %s", p.Warn("not in the fork:"), u)
	}
	switch {
	case f.Chat != "":
		p.Linef("conversation: %s", cli.Inline(f.Chat))
	case len(f.Run) > 0:
		p.Linef("to continue there:\n  cd %s && %s", cli.ShellQuote(a.RelativePath(res.SessionDir)), cli.CommandLine(f.Run))
	}
}

// withFiles returns the checkpoint to fork. If the session was only kept, its head has no files. withFiles then adopts
// the session with the present files of its directory, and the fork gets those.
func (a *app) withFiles(ctx context.Context, d *cli.Workspace, c *segno.Checkpoint) (*segno.Checkpoint, error) {
	head, err := d.Store.Head(ctx, c.Thread)
	if err != nil || c.Workspace != nil || head.Head != c.ID || c.Label != keptLabel || a.DryRun || !cli.IsBelow(d.Rec.Path, head.Link.Dir) {
		return c, err
	}
	_, err = d.Timeline.AdoptSession(ctx, timeline.Adoption{Agent: head.Link.Agent,
		Source: segno.Source{Session: head.Link.Session, Dir: head.Link.Dir}})
	if err != nil {
		return nil, err
	}
	h, err := history.Read(ctx, d.Store, c.Thread)
	if err != nil {
		return nil, err
	}
	return h.Find("@")
}

// keptLabel is the label of a turn that 'segno sessions keep' recorded, without files.
const keptLabel = "kept"

// dryFork prints the fork that the command would make.
func (a *app) dryFork(d *cli.Workspace, c *segno.Checkpoint, dir string) error {
	text := "would fork the conversation of " + cli.Label(c) + ", on the same files"
	if dir != "" {
		var err error
		if dir, err = moves.ForkDir(d.Rec.Path, dir); err != nil {
			return err
		}
		text = moves.ForkText(c, d.Rec.Path, dir)
	}
	res := forkResult{Dir: dir, SessionDir: dir, From: c.ID, Command: []string{}, LeftOut: []string{}, DirBytes: segno.PathBytes(dir)}
	return a.Print(res, func(p *cli.Printer) { p.Linef("%s", text) })
}
