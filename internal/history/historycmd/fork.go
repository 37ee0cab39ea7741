package historycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	var number int
	c := &cobra.Command{
		Use:   "fork [CHECKPOINT] --to DIR",
		Short: "a new directory with the files of a checkpoint, and a session cut there",
		Long: `Makes a new directory with the files of a checkpoint (default: the head of the thread),
with untracked and ignored files and a separate .git, and a native session of the agent
that ends there. The source directory is only read.

With -n, it makes several forks side by side, for several attempts: DIR-1, DIR-2 and so on,
each with its own thread and session. Without --to, DIR is the name of the workspace with
the checkpoint. It makes none if one of the directories exists. Each fork is one operation,
so each can be undone alone.

With --chat it forks the conversation alone, also of a turn without files: a new thread with a
session that ends there, on the files as they are.`,
		Example:           "  segno fork t2 --to ../try-middleware\n  cd ../try-middleware && claude --resume …\n  segno fork t2 -n 5\n  segno fork t2 --chat",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch isSeveral := c.Flags().Changed("number"); {
			case isSeveral && (number < 1 || number > maxForks):
				return cli.Usage(fmt.Errorf("-n takes a number of forks from 1 to %d", maxForks))
			case chatOnly && (isSeveral || to != ""):
				return cli.Usage(errors.New("--chat makes no directory, so it excludes --to and -n"))
			case !isSeveral && to == "" && !chatOnly:
				return cli.Usage(errors.New("fork needs --to DIR, or --chat"))
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runFork(ctx, d, append(args, "@")[0], forkRequest{to, number, noNote, chatOnly})
			})(c, args)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the new directory `DIR`; it must not exist")
	c.Flags().IntVarP(&number, "number", "n", 0, "make `N` forks, in DIR-1 to DIR-N")
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

	chat  string // why no session continues the conversation, or ""
	files int
}

// forkRequest is what the user asks of fork. With a number, the result is an array.
type forkRequest struct {
	to     string
	number int
	noNote bool
	chat   bool // only the conversation
}

// maxForks is the largest number of forks that one command makes.
const maxForks = 100

// directories returns the absolute paths of the forks. If the user asked for several, it checks all of them.
func (f *forkRequest) directories(d *cli.Workspace, c *segno.Checkpoint) ([]string, error) {
	if f.chat {
		return []string{""}, nil
	}
	base := d.Rec.Path + "-" + cli.Label(c)
	if f.to != "" {
		base = cli.Absolute(d.Dir, f.to)
	}
	if f.number == 0 {
		return []string{base}, nil
	}
	var dirs []string
	for i := range f.number {
		dir, err := moves.ForkDir(d.Rec.Path, fmt.Sprintf("%s-%d", base, i+1))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// runFork makes the forks one after the other, because each holds the lock of the workspace, and copies files in parallel.
func (a *app) runFork(ctx context.Context, d *cli.Workspace, name string, ask forkRequest) error {
	_, c, err := a.CheckpointNamed(ctx, d, name)
	if err != nil {
		return err
	}
	if !ask.chat {
		if c, err = a.withFiles(ctx, d, c); err != nil {
			return err
		}
	}
	dirs, err := ask.directories(d, c)
	if err != nil {
		return err
	}
	made := []forkResult{}
	var failed error
	var unread []history.UnreadDatabase
	for _, dir := range dirs {
		var f forkResult
		if a.DryRun {
			f, failed = a.dryFork(ctx, d, c, dir)
		} else {
			f, failed = a.forkInto(ctx, d, c, dir, ask.noNote)
		}
		if failed != nil {
			break
		}
		made, unread = append(made, f), append(unread, f.UnreadDatabases...)
	}
	if failed != nil && len(made) == 0 {
		return failed
	}
	var result any = made
	if ask.number == 0 {
		result = made[0]
	}
	err = a.Print(result, func(p *cli.Printer) {
		for i := range made {
			a.writeFork(p, d, c, &made[i])
		}
	})
	if failed != nil {
		failed = segno.NewError(segno.KindOf(failed), "", "", fmt.Errorf("%d of %d forks are made: %w", len(made), len(dirs), failed)).
			WithHint("'segno op undo' undoes one of them")
	}
	return cli.WithUnread(cmp.Or(failed, err), unread)
}

// forkInto makes one fork.
func (a *app) forkInto(ctx context.Context, d *cli.Workspace, c *segno.Checkpoint, dir string, noNote bool) (forkResult, error) {
	f, err := d.Timeline.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: c.ID, Name: cli.Label(c), Dir: dir, NoNote: noNote})
	if err != nil {
		return forkResult{}, err
	}
	if c.Agent == chat.Name && c.Session == nil && len(f.Run) == 0 {
		f.Run = chat.Command(a.StoreToName(d.Store), f.Thread)
	}
	res := forkResult{Thread: f.Thread, Checkpoint: f.At.ID, Dir: f.Report.Root, SessionDir: f.Dir, Command: append([]string{}, f.Run...),
		From: c.ID, How: f.Report.How, Databases: f.Report.Databases, UnreadDatabases: history.UnreadDatabases(f.Report.Unsaved), LeftOut: append([]string{}, f.Report.LeftOut...),
		DirBytes: segno.PathBytes(f.Report.Root), LeftOutBytes: history.PathsBytes(f.Report.LeftOut), chat: f.Chat, files: f.Report.Files}
	if f.Link != nil {
		res.Session = f.Link.Session
	}
	return res, nil
}

func (a *app) writeFork(p *cli.Printer, d *cli.Workspace, c *segno.Checkpoint, res *forkResult) {
	switch isChat := res.How == "none" || res.Dir == ""; {
	case a.DryRun && isChat:
		p.Linef("would fork the conversation of %s, on the same files", cli.Label(c))
		return
	case a.DryRun:
		p.Linef("%s", moves.ForkText(c, d.Rec.Path, res.Dir))
		return
	case isChat:
		p.Linef("forked %s into thread %s, on the same files", cli.Label(c), cli.Short(res.Thread))
	default:
		p.Linef("forked %s into %s (%s, by %s)", cli.Label(c), cli.QuotePath(res.Dir), cli.Files(res.files), res.How)
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
	case res.chat != "":
		p.Linef("conversation: %s", cli.Inline(res.chat))
	case len(res.Command) > 0:
		line := cli.CommandLine(res.Command)
		if dir := a.RelativePath(res.SessionDir); dir != "." {
			line = "cd " + cli.ShellQuote(dir) + " && " + line
		}
		p.Linef("to continue there:\n  %s", line)
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

// dryFork returns the fork that the command would make.
func (a *app) dryFork(ctx context.Context, d *cli.Workspace, c *segno.Checkpoint, dir string) (forkResult, error) {
	var err error
	if dir != "" {
		if dir, err = moves.ForkDir(d.Rec.Path, dir); err == nil {
			err = d.Timeline.CheckFork(ctx, segno.VerbFork, c)
		}
	}
	return forkResult{Dir: dir, SessionDir: dir, From: c.ID, Command: []string{}, LeftOut: []string{}, DirBytes: segno.PathBytes(dir)}, err
}
