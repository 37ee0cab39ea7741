package historycmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
)

func (a *app) log() *cobra.Command {
	var limit int
	var usage bool
	c := &cobra.Command{
		Use:   "log [-- PATH…]",
		Short: "the thread as a graph, or the turns of a path",
		Long: `Shows every checkpoint of the thread, on all lines, newest first: the turn, its age, the
agent, the prompt, files modified, added and deleted, and shell calls. Of the steps of
segno's own agent it shows only the head and those where a turn was interrupted or waits;
--json shows all.

    @  the head of the thread      ○  a turn        ◆  pinned, or saved by hand
    ×  interrupted or incomplete   ·  changed, but not by a turn

With paths after --, it lists only the checkpoints that created, changed, deleted or renamed
one of them or a file below it, with the call that did it if the record shows that. A
shell command counts like a tool that edits files. A path may be a deleted one.`,
		Example: "  segno log\n  segno log -n 20 --json\n  segno log -- docs/guide.md",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			dash := c.ArgsLenAtDash()
			switch {
			case limit < 0:
				return cli.Usage(errors.New("-n takes a number of checkpoints"))
			case usage && len(args) > 0:
				return cli.Usage(errors.New("--usage is not for the log of a path"))
			case dash > 0 || dash < 0 && len(args) > 0:
				return cli.UnexpectedArg("log", args[0], "give paths after --: 'segno log -- "+cli.ShellQuote(args[0])+"'")
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, paths []string) error {
				if len(paths) > 0 {
					return a.runLogOfPaths(ctx, d, paths, limit)
				}
				return a.runLog(ctx, d, limit, usage)
			})(c, args)
		},
	}
	c.Flags().IntVarP(&limit, "limit", "n", 0, "show at most `N` checkpoints")
	c.Flags().BoolVar(&usage, "usage", false, "also show the tokens and the cost of each turn")
	return c
}

func (a *app) runLog(ctx context.Context, d *cli.Workspace, limit int, usage bool) error {
	h, err := a.History(ctx, d)
	if err != nil {
		return err
	}
	if err := h.FindRunning(ctx, d.Timeline); err != nil {
		return err
	}
	shown := h.All
	if !a.JSON {
		shown = h.WithoutInnerSteps()
	}
	if limit > 0 && limit < len(shown) {
		shown = shown[:limit]
	}
	items := make([]any, len(shown))
	for i := range shown {
		items[i] = h.Item(&shown[i])
	}
	if usage {
		used, err := a.readUsage(ctx, d.Store, h, shown)
		if err != nil {
			return err
		}
		h.Usage = map[segno.CommitID]*history.Usage{}
		for i := range shown {
			h.Usage[shown[i].ID] = history.NewUsage(used[shown[i].ID], nil)
			items[i] = itemWithUsage{h.Item(&shown[i]), h.Usage[shown[i].ID]}
		}
	}
	if err := a.PrintLong(items, func(p *cli.Printer) { a.drawLog(p, h, shown) }); err != nil {
		return err
	}
	a.hintOnce(d.Store, "web", "to see this in a browser: segno web")
	return nil
}

// itemWithUsage is an element of log --usage --json.
type itemWithUsage struct {
	history.Item
	Usage *history.Usage `json:"usage"`
}

// drawLog draws the graph: a row with the columns and a description for each checkpoint, and below it a row for columns
// that end there. Each row is cut to the width of the terminal, because a wrapped row would break the lines of the
// graph.
func (a *app) drawLog(p *cli.Printer, h *history.History, shown []segno.Checkpoint) {
	width := p.Width()
	if p.Ascii {
		width = max(0, width-len("...")+1) // drawn may replace "…" by "...", which is longer
	}
	var g graph
	for i := range shown {
		c := &shown[i]
		lanes, joint := g.row(c.ID, c.Parent, p.Glyph(h, c))
		room := 0
		if width > 0 {
			room = max(1, width-cli.Visible(lanes)-1)
		}
		p.Linef("%s", p.Drawn(lanes+" "+describeCheckpoint(h, c, a.Lead(p.Paint, cli.Label(c), c.Time), p.Paint, room)))
		if joint != "" {
			p.Linef("%s", p.Drawn(joint))
		}
	}
}

// describeCheckpoint describes a checkpoint on one line. If room is positive, the line has at most
// room columns. The prompt is shortened first, to keep the number of files.
func describeCheckpoint(h *history.History, c *segno.Checkpoint, lead string, p cli.Paint, room int) string {
	const least = 12 // columns of the prompt
	lead += " " + cli.Pad(cli.Inline(actor(c)), 7) + " "
	what, tail := cli.Subject(c), facts(h, c, p)
	if room <= 0 {
		return lead + what + tail
	}
	short := cli.Fit(what, max(least, room-cli.Visible(lead)-cli.Visible(tail)))
	if short != what && strings.HasSuffix(what, `"`) {
		short = cli.Fit(what, cli.Visible(short)-1) + `"`
	}
	return cli.Fit(lead+short+tail, room)
}

// actor names the author of a checkpoint's changes.
func actor(c *segno.Checkpoint) string {
	switch {
	case c.Kind == segno.CheckpointRestore, c.Kind == segno.CheckpointExternal && c.Label != "":
		return "segno" // a move changed the files
	case c.Kind == segno.CheckpointSave:
		return "you"
	case c.Kind == segno.CheckpointExternal:
		return "-" // the user, or any program
	}
	return c.Agent
}

// facts is the end of a checkpoint's line: files, shell calls, pins and warnings.
func facts(h *history.History, c *segno.Checkpoint, p cli.Paint) (text string) {
	if s := cli.Counts(c.Files); s != "" {
		text += "  " + p.Files(s)
	}
	if c.Shell > 0 {
		text += p.Dim(fmt.Sprintf("  sh:%d", c.Shell))
	}
	if used, ok := h.Usage[c.ID]; ok && (used != nil || c.Kind == segno.CheckpointTurn) {
		text += "  " + p.Dim(used.String())
	}
	for _, pin := range h.Pins[c.ID] {
		text += "  " + p.Bold("["+cli.Inline(pin)+"]")
	}
	unread, databases := history.Unread(c.Workspace)
	for _, note := range []struct {
		on   bool
		text string
	}{{h.Running[c.ID], "running in the background"}, {c.Interrupted, "interrupted"}, {len(unread) > 0, "partial"},
		{len(databases) > 0, "database not saved"}, {c.Shared, "shared"}} {
		if note.on {
			text += "  " + p.Warn(note.text)
		}
	}
	if note := coverage(h, c); note != "" {
		text += "  " + p.Warn(note)
	}
	return text
}

// coverage describes the files that a checkpoint no longer records, and those that it records
// although a rule protects them. It leaves out files for which the same is true in the parent.
func coverage(h *history.History, c *segno.Checkpoint) string {
	if n := c.Files.Protected; n > 0 {
		return cli.Files(n) + " no longer recorded"
	}
	if c.Workspace == nil {
		return ""
	}
	var before []string
	if up := h.ByID[c.Parent]; up != nil && up.Workspace != nil {
		before = up.Workspace.Held
	}
	held := slices.DeleteFunc(slices.Clone(c.Workspace.Held), func(p string) bool { return slices.Contains(before, p) })
	if len(held) == 0 {
		return ""
	}
	return "still recorded although a rule protects it: " + abbreviated(held)
}

// unreadNote describes the paths that a snapshot lacks. It names only the first ones.
func unreadNote(paths []string) string {
	text := "not saved: " + shortPath(paths[0])
	switch more := len(paths) - 1; {
	case more >= maxUnread-1:
		text += " and many more"
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " (it cannot be read, changes, or is beyond the limits of a snapshot)"
}

// maxUnread limits the list of paths that exceed the limits of a snapshot.
const maxUnread = 100

// shortPath quotes a path and leaves out the middle if it is long.
func shortPath(path string) string {
	const side = 60
	text := []rune(cli.QuotePath(path))
	if len(text) <= 2*side+1 {
		return string(text)
	}
	return string(text[:side]) + "…" + string(text[len(text)-side:])
}

// abbreviated names the first of several paths and counts the others.
func abbreviated(paths []string) string {
	switch first, more := cli.Clean(paths[0]), len(paths)-1; more {
	case 0:
		return first
	case segno.MaxHeld - 1:
		return first + " and many more"
	default:
		return fmt.Sprintf("%s and %d more", first, more)
	}
}
