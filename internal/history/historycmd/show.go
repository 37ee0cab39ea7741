package historycmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/history/turns"
)

func (a *app) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show [CHECKPOINT | REVISION]",
		Short: "show the prompt, tool calls and changed files of a turn",
		Long: `Shows a checkpoint: the prompt, the tools that were called, the files that changed, and
the tokens that the agent recorded.
Without an argument, it shows the head of the thread. A name such as t3.2 after a call is the
point at its end, for 'segno restore', 'segno diff' and 'segno cat'. With a revision of git, such as
HEAD, it shows the checkpoint that the commit's trailer names; see 'segno git-trailer'.`,
		Example:           "  segno show t3\n  segno show @- --json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE:              a.InWorkspace(a.runShow),
	}
}

func (a *app) runShow(ctx context.Context, d *cli.Workspace, args []string) error {
	h, c, err := a.CheckpointOrRevision(ctx, d, append(args, "@")[0])
	if err != nil {
		return err
	}
	s, err := h.ReadDetails(ctx, &turns.Source{Store: d.Store, Transcripts: d.Store.Transcripts()}, c)
	if err != nil {
		return err
	}
	changes, err := changesOf(ctx, d, h, c)
	if err != nil {
		return err
	}
	s.Changes = append(s.Changes, changes...)
	if s.UnreadDatabases, err = cli.UnreadDatabases(ctx, d, c); err != nil {
		return err
	}
	used, err := a.readUsage(ctx, d.Store, h, []segno.Checkpoint{*c})
	if err != nil {
		return err
	}
	s.Usage = history.NewUsage(used[c.ID], nil)
	points, err := d.Timeline.Points(ctx, c)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	s.Points = history.Points(points)
	place := d.Store.Place()
	s.FindOutside(c, place.UserHome, place.Homes["claude"])
	return a.PrintLong(s, func(p *cli.Printer) { a.writeShown(p, c, s) })
}

// changesOf returns the files that differ between a checkpoint and its parent. It returns no
// changes if the files of one of them are not recorded.
func changesOf(ctx context.Context, d *cli.Workspace, h *history.History, c *segno.Checkpoint) ([]history.Change, error) {
	parent := h.ParentWithFiles(c)
	if c.Tree().IsZero() || parent.Tree().IsZero() {
		return nil, nil
	}
	diff, err := d.Timeline.Workspace.Diff(ctx, parent.Tree(), c.Tree())
	if err != nil {
		return nil, err
	}
	databases, err := d.Timeline.Databases(ctx, parent.Workspace, c.Workspace)
	if err != nil {
		return nil, err
	}
	changes, err := moves.Changes(ctx, d.Timeline, append(databases, diff...), true)
	if err != nil {
		return nil, err
	}
	unnamed, err := d.Timeline.Unnamed(ctx, c, diff)
	history.MarkUnnamed(changes, unnamed)
	return changes, err
}

func (a *app) writeShown(p *cli.Printer, c *segno.Checkpoint, s history.Details) {
	names := ""
	for _, pin := range s.Pins {
		names += "  [" + cli.Inline(pin) + "]"
	}
	p.Linef("%s  %s  %s%s", p.Bold(cli.Inline(cli.Label(c))), cli.Inline(string(c.Kind)), cli.Inline(string(c.ID)), names)
	p.Linef("%s", p.Dim(fmt.Sprintf("%s  %s  session %s", a.When(c.Time), cli.Inline(c.Agent), cli.Inline(string(s.Session)))))
	writeUsage(p, s.Usage)
	if s.Prompt != "" {
		p.Linef("\n%s", indent(cli.CleanLines(s.Prompt)))
	}
	for _, n := range s.Notes {
		const most = 400
		p.Linef("\n%s", p.Warn(indent(cli.CleanLines(cli.Fit(n, most)))))
	}
	for i, k := range s.Calls {
		if i == 0 {
			p.Linef("")
		}
		p.Linef("  %s %s%s", p.Bold(cli.Pad(cli.Fit(cli.Inline(k.Tool), maxToolName), 6)), cli.Inline(k.Subject(maxSubject)), p.Dim(callOutcome(&k)+pointOf(s, i)))
	}
	if s.Message != "" {
		p.Linef("\n%s", indent(cli.CleanLines(s.Message)))
	}
	if len(s.Changes)+len(s.Unread)+len(s.UnreadDatabases) > 0 {
		p.Linef("")
	}
	isUnread := func(name string) bool {
		return slices.ContainsFunc(s.UnreadDatabases, func(u history.UnreadDatabase) bool { return u.Name == name })
	}
	p.Changes(slices.DeleteFunc(slices.Clone(s.Changes), func(x history.Change) bool { return x.Unread != "" && isUnread(x.Path) }))
	p.UnreadDatabases(s.UnreadDatabases)
	for _, u := range s.Unread {
		p.Linef("  %s %s", p.Warn("not saved:"), shortPath(u))
	}
	writeFilesNote(p, c)
	for i, path := range s.Outside {
		if i == 0 {
			p.Linef("\n%s", p.Warn("outside the workspace, not recorded:"))
		}
		p.Linef("  %s", cli.Inline(path))
	}
}

func writeUsage(p *cli.Printer, u *history.Usage) {
	if u != nil {
		p.Linef("%s", p.Dim(cli.Inline("tokens: "+u.String()+"  "+strings.Join(u.Models, ", "))))
	}
}

// writeFilesNote notes that a turn was recorded without files, because segno did not see it happen.
func writeFilesNote(p *cli.Printer, c *segno.Checkpoint) {
	if c.Kind == segno.CheckpointTurn && c.Session != nil && c.Tree().IsZero() {
		p.Linef("\n%s", p.Dim("files not recorded"))
	}
}

// pointOf names the point at the end of call i, if files were saved there.
func pointOf(s history.Details, i int) string {
	switch {
	case i >= len(s.Points):
		return ""
	case s.Points[i].Exact:
		return "  " + s.Points[i].Name
	}
	return "  " + s.Points[i].Name + ", not exact"
}

// callOutcome describes the end of a call: its exit status and how long it took.
func callOutcome(k *turns.Call) (s string) {
	if k.Exit != nil && *k.Exit != 0 {
		s += fmt.Sprintf("  exit %d", *k.Exit)
	} else if k.Failed {
		s += "  failed"
	}
	if k.DurationMS != nil {
		s += fmt.Sprintf("  %.0f ms", *k.DurationMS)
	}
	if !k.Done {
		s += "  no result seen"
	}
	return s
}

// The number of columns for the name of a tool, and for the subject of a call.
const maxToolName, maxSubject = 60, 100

func indent(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }
