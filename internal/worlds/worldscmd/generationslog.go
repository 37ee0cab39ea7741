package worldscmd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
)

func (a *app) generationsStatus() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "status [NAME]", Short: "how far experiments are, and what failed", Args: cobra.MaximumNArgs(1),
		Example: "  segno generations status\n  segno generations status village --json",
		RunE:    func(c *cobra.Command, args []string) error { return a.runGenerationsStatus(c.Context(), out, args) },
	}
	cli.OutFlag(c, &out)
	return c
}

// generationsItem is one element of generations status --json.
type generationsItem struct {
	generation.Status
	Newest *generation.Pointer `json:"checkpoint,omitempty"`
}

// experimentsIn returns the directory of runs and the names of the experiments that the arguments mean.
func (a *app) experimentsIn(out string, args []string) (dir string, names []string, err error) {
	wd, err := a.WorkDir()
	if err != nil {
		return "", nil, err
	}
	dir = cli.Absolute(wd, out)
	if names, err = generation.Experiments(dir); err != nil {
		return "", nil, err
	}
	if len(args) > 0 && !slices.Contains(names, args[0]) {
		return "", nil, segno.Errorf(segno.KindNotFound, "find experiment", args[0], "the directory of the runs has none of this name").
			WithHint("run 'segno generations status', or give the directory with --out")
	}
	if len(args) > 0 {
		names = args[:1]
	}
	return dir, names, nil
}

func (a *app) runGenerationsStatus(ctx context.Context, out string, args []string) error {
	dir, names, err := a.experimentsIn(out, args)
	if err != nil {
		return err
	}
	items := []generationsItem{}
	var damaged error // a damaged experiment must not hide the others
	for _, name := range names {
		s, newest, err := generation.ReadStatus(ctx, dir, name)
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		items = append(items, generationsItem{s, newest})
	}
	return errors.Join(damaged, a.Print(items, func(p *cli.Printer) {
		if len(names) == 0 {
			p.Linef("no experiments in %s", cli.QuotePath(dir))
		}
		for _, s := range items {
			writeExperiment(p, s)
		}
	}))
}

func writeExperiment(p *cli.Printer, s generationsItem) {
	p.Linef("%s  %s  generation %d of %d, %s in the world", cli.Pad(cli.Inline(s.Experiment), 10), cli.Inline(string(s.State)), s.Generation, s.Generations, time.Duration(s.SimTime))
	p.Linef("  agents      %s", cli.Inline(strings.Join(s.Agents, ", ")))
	if text := outcomesText(s.Outcomes); text != "" {
		p.Linef("  outcomes    %s", text)
	}
	switch {
	case s.Run == "": // no generation has begun
	case s.WhyNot == "":
		p.Linef("  reproducible")
	default:
		p.Linef("  not reproducible: %s", cli.Inline(s.WhyNot))
	}
	if n := s.Newest; n != nil {
		p.Linef("  checkpoint  %s  %s", cli.Inline(path.Base(n.Checkpoint)), n.Written.Local().Format(time.DateTime))
	}
	if s.Retries > 0 {
		p.Linef("  %s", p.Warn(fmt.Sprintf("%s of generations that failed", cli.Plural(s.Retries, "retry"))))
	}
	if s.SessionsOmitted > 0 {
		p.Linef("  %s", p.Warn(fmt.Sprintf("a secret cost %s a conversation", cli.Plural(s.SessionsOmitted, "checkpoint"))))
	}
	if n := len(s.FilesOmitted); n > 0 {
		const most = 3
		text := strings.Join(s.FilesOmitted[:min(n, most)], ", ")
		if n > most {
			text += fmt.Sprintf(" and %d more", n-most)
		}
		p.Linef("  %s", p.Warn("the newest archive is without "+cli.Inline(text)+", because of a secret"))
	}
	if s.CheckpointFailures > 0 {
		p.Linef("  %s", p.Warn(fmt.Sprintf("%s failed: %s", cli.Plural(s.CheckpointFailures, "checkpoint"), cli.Inline(s.LastFailure))))
	}
	if s.Error != "" {
		p.Linef("  %s", p.Warn(cli.Inline(s.Error)))
	}
}

func (a *app) generationsLog() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "log NAME", Short: "the chain of generations and checkpoints as a graph", Args: cobra.ExactArgs(1),
		Long: `Prints the checkpoints of an experiment, newest first. A line of checkpoints leads from each to the one
that it continued; a checkpoint from which two runs continued is a fork. Failed runs are marked.`,
		Example: "  segno generations log village",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, _, err := a.experimentsIn(out, args)
			if err != nil {
				return err
			}
			l, err := generation.ReadLog(dir, args[0])
			if err != nil {
				return err
			}
			return a.Print(l, func(p *cli.Printer) { writeGenerationsLog(p, l) })
		},
	}
	cli.OutFlag(c, &out)
	return c
}

// writeGenerationsLog draws the checkpoints. Each open line of descent has a column.
func writeGenerationsLog(p *cli.Printer, l generation.Log) {
	var columns []string // for each column, the digest of its next checkpoint
	for _, c := range slices.Backward(l.Checkpoints) {
		at := slices.Index(columns, c.Digest)
		if at < 0 {
			at = len(columns)
			columns = append(columns, c.Digest)
		}
		marks := make([]string, len(columns))
		for i, digest := range columns {
			marks[i] = "|"
			if digest == c.Digest && c.Digest != "" || i == at {
				marks[i] = "*"
			}
		}
		text := fmt.Sprintf("%s  %s in the world, %s", path.Base(c.Path), c.SimTime+" s", c.Consistency)
		if strings.Contains(c.Run, ".") {
			text += "  " + c.Run[strings.IndexByte(c.Run, '.')+1:]
		}
		if c.Base != "" {
			text += "  delta of " + c.Base
		}
		if c.Error != "" {
			text = path.Base(c.Path) + "  " + c.Error
		}
		if c.Omitted > 0 {
			text += "  " + fmt.Sprintf("without %s", cli.Plural(c.Omitted, "conversation"))
		}
		if c.OmittedFiles > 0 {
			text += "  " + fmt.Sprintf("without %s", cli.Plural(c.OmittedFiles, "file"))
		}
		p.Linef("%s  %s", strings.Join(marks, " "), p.Drawn(cli.Inline(text)))
		columns[at] = c.Parent
		columns = slices.DeleteFunc(columns, func(d string) bool { return d == c.Digest || d == "" })
	}
	for _, r := range l.Rows {
		p.Linef("%s  %s  %s  %.3fs  %s", cli.Inline(r.Run), cli.Inline(string(r.Status)), cli.Pad(cli.Inline(r.Agent), 10), r.Seconds, cli.Inline(r.TemplateIn))
	}
}
