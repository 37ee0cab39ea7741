package insightcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

func (a *app) blame() *cobra.Command {
	var at, lines, commit string
	c := &cobra.Command{
		Use:   "blame FILE",
		Short: "show which turn brought each line of a file",
		Long: `Shows for each line of a file the turn that brought it, with the beginning of its prompt.
The states of the file decide, so a line that a shell command wrote has its turn, too. It
needs no git, and includes what was written since the last checkpoint.

    "prompt"                       the turn with this prompt
    "prompt", while a command ran  that turn, or you: no tool shows the change
    (not by a turn)                you, or any program
    (before the first checkpoint)  the line was there before

It follows renamed files. A line that undo, redo or restore brought back has the turn that
first brought it. --git-ai compares the answer with the note that git-ai attached to a
commit, in refs/notes/ai.`,
		Example:           "  segno blame src/limit.go\n  segno blame -L 10,20 src/limit.go\n  segno blame --at t3 src/limit.go",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFile,
		RunE: a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
			r, err := parseRange(lines)
			switch {
			case err != nil:
				return cli.Usage(err)
			case commit != "" && at+lines != "":
				return cli.Usage(errors.New("--git-ai excludes --at and -L"))
			case commit != "":
				return a.runCompare(ctx, d, args[0], commit)
			}
			return a.runBlame(ctx, d, args[0], at, r)
		}),
	}
	c.Flags().StringVar(&at, "at", "", "the file as it was at `CHECKPOINT`, not as it is now")
	c.Flags().StringVarP(&lines, "lines", "L", "", "only the lines `FROM,TO`; FROM,+N are N lines")
	c.Flags().StringVar(&commit, "git-ai", "", "where the note of git-ai for `COMMIT` disagrees about lines that the commit added; HEAD by default")
	c.Flags().Lookup("git-ai").NoOptDefVal = "HEAD"
	cli.CompleteFlag(c, "at", a.CompleteCheckpoints(2))
	return c
}

// completeFile lets the shell complete the names of files for the first argument.
func completeFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// lineRange is a range of lines, which count from 1. to is 0 for the end of the file.
type lineRange struct{ from, to int }

var rangePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([1-9]\d{0,8})?(,(\+?)([1-9]\d{0,8})?)?$`) })

func parseRange(text string) (lineRange, error) {
	m := rangePattern().FindStringSubmatch(text)
	if m == nil || text == "," {
		return lineRange{}, fmt.Errorf("-L takes a range of lines such as 10,20, not %q", text)
	}
	r := lineRange{from: 1}
	if m[1] != "" {
		r.from, _ = strconv.Atoi(m[1])
	}
	switch r.to, _ = strconv.Atoi(m[4]); {
	case m[3] != "" && r.to > 0:
		r.to += r.from - 1
	case m[2] == "" && text != "":
		r.to = r.from
	}
	if r.to != 0 && r.to < r.from {
		return r, fmt.Errorf("-L %s ends before it begins", text)
	}
	return r, nil
}

// setContent sets the content of the file, and the lines of a range of it.
func (f *blamed) setContent(content []byte, r lineRange) error {
	switch {
	case len(content) > maxFile:
		return errTooLarge(f.path)
	case patch.IsBinary(content):
		return segno.Errorf(segno.KindRefused, "blame", f.path, "it is a binary file").WithHint(logHint(f.path))
	}
	f.texts = blame.Texts(content)
	n := len(f.texts)
	if r.from > max(n, 1) {
		return segno.Errorf(segno.KindInvalid, "blame", f.path, "the file has only %s", cli.Plural(n, "line"))
	}
	if r.to == 0 || r.to > n {
		r.to = n
	}
	f.first, f.texts = r.from-1, f.texts[r.from-1:r.to]
	return nil
}

// blamed is a file with the origins of its lines.
type blamed struct {
	path    string
	thread  segno.ThreadID
	at      segno.CommitID // "" for the present
	first   int            // the number of lines before those that are shown
	texts   []string       // of the lines, without the newlines
	lines   []blame.Line
	running string // the prompt of the open turn
}

func (a *app) runBlame(ctx context.Context, d *cli.Workspace, arg, at string, r lineRange) error {
	paths, err := cli.NamedPaths(d, arg)
	if err != nil {
		return err
	}
	b := &blame.Blamer{Store: d.Store, Content: d.Content, Unnamed: d.Timeline.Unnamed}
	var f *blamed
	if at != "" {
		f, err = a.blameAt(ctx, d, b, at, paths, r)
	} else {
		f, err = a.blamePresent(ctx, d, b, paths, r)
	}
	b.Cache.Close()
	if err != nil {
		return err
	}
	return a.PrintLong(resultOf(f), func(p *cli.Printer) { a.drawBlame(p, f) })
}

// blameAt finds the origins of the lines of a file at a checkpoint.
func (a *app) blameAt(ctx context.Context, d *cli.Workspace, b *blame.Blamer, at string, paths []string, r lineRange) (*blamed, error) {
	_, c, err := a.CheckpointOrRevision(ctx, d, at)
	if err != nil {
		return nil, err
	}
	e, path, err := cli.FileAt(ctx, d, c, paths, workspace.LookupFile)
	if err != nil {
		return nil, err
	}
	if !e.HasContent() {
		return nil, errNotFile(path)
	}
	f := &blamed{path: path, thread: c.Thread, at: c.ID}
	content, err := d.Content(ctx, e.Hash)
	if err == nil {
		err = f.setContent(content, r)
	}
	if err != nil {
		return nil, err
	}
	b.Cache = blame.OpenCache(d.Store, d.Rec.ID, path)
	f.lines, err = b.Lines(ctx, blame.State{Checkpoint: c, Path: path, Hash: e.Hash}, f.first, len(f.texts))
	return f, err
}

// blamePresent finds the origins of the lines of a present file.
func (a *app) blamePresent(ctx context.Context, d *cli.Workspace, b *blame.Blamer, paths []string, r lineRange) (f *blamed, err error) {
	f = &blamed{}
	var content []byte
	for _, f.path = range paths {
		if content, err = readPresent(d.Rec.Path, f.path); segno.KindOf(err) != segno.KindNotFound {
			break
		}
	}
	if err == nil {
		err = f.setContent(content, r)
	}
	if err != nil {
		return nil, err
	}
	if f.thread, err = a.ThreadID(ctx, d); err != nil {
		return nil, err
	}
	head, err := d.Store.Head(ctx, f.thread)
	if err != nil {
		return nil, err
	}
	b.Cache = blame.OpenCache(d.Store, d.Rec.ID, f.path)
	by, running, err := a.openTurn(ctx, d)
	if err != nil {
		return nil, err
	}
	f.running = running
	f.lines, err = b.LinesSince(ctx, content, head.Head, f.path, by, f.first, len(f.texts))
	return f, err
}

// openTurn returns the author of changes since the last checkpoint: an open turn, with its prompt, or another author.
func (a *app) openTurn(ctx context.Context, d *cli.Workspace) (by blame.Author, prompt string, err error) {
	turns, err := d.Timeline.Spool.Turns(ctx)
	for _, t := range turns {
		if t.Workspace == d.Rec.ID && !t.InBackground() {
			return blame.Running, t.Prompt, nil
		}
	}
	return blame.Unsaved, "", err
}

// maxFile is the size of the largest file that blame reads.
const maxFile = 16 << 20

// readPresent reads a file of a workspace. It follows no symlink out of the workspace.
func readPresent(dir, path string) ([]byte, error) {
	failed := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return segno.NewError(segno.KindNotFound, "find file", path, nil).
				WithHint("use --at CHECKPOINT for a deleted file; " + logHint(path))
		}
		return segno.NewError(segno.KindIO, "read file", path, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failed(err)
	}
	defer root.Close()
	switch fi, err := root.Lstat(path); {
	case err != nil:
		return nil, failed(err)
	case !fi.Mode().IsRegular():
		return nil, errNotFile(path)
	case fi.Size() > maxFile:
		return nil, errTooLarge(path)
	}
	content, err := root.ReadFile(path)
	if err != nil {
		return nil, failed(err)
	}
	return content, nil
}

func errNotFile(path string) error {
	return segno.Errorf(segno.KindInvalid, "blame", path, "it is not a regular file").WithHint("name a file with lines")
}

func errTooLarge(path string) error {
	return segno.Errorf(segno.KindRefused, "blame", path, "it is larger than %s", cli.Size(maxFile)).WithHint(logHint(path))
}

func logHint(path string) string {
	return "'segno log -- " + cli.ShellQuote(path) + "' lists the turns that changed it"
}

// drawBlame prints a line for each line of the file, with the same columns in all.
func (a *app) drawBlame(p *cli.Printer, f *blamed) {
	subjects := map[*blame.Origin]string{}
	width := 0
	for _, l := range f.lines {
		if _, known := subjects[l.Origin]; !known {
			subjects[l.Origin] = p.Drawn(subject(l.Origin, f.running, f.thread))
			width = max(width, cli.Visible(subjects[l.Origin]))
		}
	}
	digits := len(strconv.Itoa(f.first + len(f.lines)))
	for i, text := range f.texts {
		o := f.lines[i].Origin
		lead := p.Dim(cli.Pad("-", leadWidth))
		if o.Author == blame.Turn {
			lead = a.Lead(p.Paint, cli.Label(o.Checkpoint), o.Checkpoint.Time)
		} else if o.Author == blame.External {
			lead = a.Lead(p.Paint, "-", o.Checkpoint.Time)
		}
		p.Linef("%s %s %s %s", lead, cli.Pad(subjects[o], width), p.Dim(fmt.Sprintf("%*d", digits, f.first+i+1)), printable.Patch(strings.TrimSuffix(text, "\r")))
	}
}

// leadWidth is the width of [cli.App.Lead].
const leadWidth = 11

// subject describes an origin.
func subject(o *blame.Origin, running string, thread segno.ThreadID) string {
	const most = 32 // columns of a prompt
	quote := func(prompt string) string { return cli.Quote(cli.Fit(timeline.Title(prompt), most)) }
	switch o.Author {
	case blame.Turn:
		text := quote(o.Checkpoint.Prompt)
		if o.Checkpoint.Thread != thread {
			text += " in thread " + cli.Short(o.Checkpoint.Thread)
		}
		if o.WhileCommand {
			text += ", while a command ran"
		}
		return text
	case blame.External:
		if o.Checkpoint.Kind != segno.CheckpointBase {
			return cli.Subject(o.Checkpoint)
		}
		return cli.NotByATurn
	case blame.Before:
		return "(before the first checkpoint)"
	case blame.Unsaved:
		return "(not by a turn, not saved yet)"
	case blame.Running:
		return "(since the open turn began: " + quote(running) + ")"
	}
	return "(not known)"
}
