package worldscmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/trend"
)

// plotWidth is the width in columns of a plot that is not printed to a terminal.
const plotWidth = 80

func (a *app) generationsPlot() *cobra.Command {
	var out, svg string
	c := &cobra.Command{
		Use: "plot NAME", Short: "draw the outcomes of the world over the generations", Args: cobra.ExactArgs(1),
		Long: `Draws each outcome that the world of an experiment declares over its generations: on the terminal, or as
SVG. A line joins the attempts that completed a generation. Those that failed, and those that you went back
from, have other marks.`,
		Example: "  segno generations plot commons\n  segno generations plot commons --svg commons.svg\n  segno generations plot commons --svg - | display",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, _, err := a.experimentsIn(out, args)
			if err != nil {
				return err
			}
			rows, err := generation.ReadRows(dir, args[0])
			if err != nil {
				return err
			}
			return a.printPlot(trend.NewPlot(args[0], rows), svg)
		},
	}
	cli.OutFlag(c, &out)
	c.Flags().StringVar(&svg, "svg", "", "write SVG to `FILE`, or with - to standard output")
	return c
}

// printPlot draws a plot on the terminal, or writes it as SVG to the file svg if that is not empty.
func (a *app) printPlot(p trend.Plot, svg string) error {
	switch svg {
	case "":
		return a.Print(p, func(w *cli.Printer) {
			if len(p.Panels) == 0 {
				w.Linef("%s has no outcomes yet", cli.Inline(p.Experiment))
				return
			}
			for _, line := range p.Text(cmp.Or(w.Width(), plotWidth)) {
				if line = w.Drawn(line); w.Ascii {
					line = strings.Map(withoutBraille, line)
				}
				w.Linef("%s", line)
			}
		})
	case "-":
		_, err := a.Stdout.Write(p.SVG())
		return cli.WrapWriteError(err)
	}
	wd, err := a.WorkDir()
	if err == nil {
		err = vfs.Replace(vfs.OS, cli.Absolute(wd, svg), p.SVG(), 0o644)
	}
	return err
}

// withoutBraille replaces the Braille characters of lines, which some terminals lack.
func withoutBraille(r rune) rune {
	if unicode.Is(unicode.Braille, r) {
		return '.'
	}
	return r
}

func (a *app) generationsCompare() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "compare A B", Short: "compare the outcomes of two experiments", Args: cobra.ExactArgs(2),
		Long: `Prints two experiments beside each other: how many attempts they needed, how long they took, and each
outcome of their worlds, of the last generation and as the mean of all complete ones.`,
		Example: "  segno generations compare commons commons-without-memory\n  segno generations compare village rush --json",
		RunE: func(_ *cobra.Command, args []string) error {
			both := make([]trend.Summary, len(args))
			for i := range args {
				dir, _, err := a.experimentsIn(out, args[i:i+1])
				if err != nil {
					return err
				}
				rows, err := generation.ReadRows(dir, args[i])
				if err != nil {
					return err
				}
				both[i] = trend.Summarize(args[i], rows)
			}
			return a.Print(both, func(p *cli.Printer) { writeComparison(p, both[0], both[1]) })
		},
	}
	cli.OutFlag(c, &out)
	return c
}

// comparison is a table that compares experiments A and B.
type comparison struct {
	rows [][4]string // label, A, B, and B - A
}

// number adds a row. nil means that a number is not known.
func (c *comparison) number(what string, a, b *float64, digits int) {
	text := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'f', digits, 64)
	}
	row := [4]string{what, text(a), text(b), ""}
	if a != nil && b != nil {
		difference := *b - *a
		if row[3] = text(&difference); difference > 0 {
			row[3] = "+" + row[3]
		}
	}
	c.rows = append(c.rows, row)
}

func (c *comparison) count(what string, a, b int) {
	x, y := float64(a), float64(b)
	c.number(what, &x, &y, 0)
}

func writeComparison(p *cli.Printer, a, b trend.Summary) {
	c := &comparison{rows: [][4]string{{"", cli.Inline(a.Experiment), cli.Inline(b.Experiment), "difference"}}}
	c.count("complete generations", a.Generations, b.Generations)
	for _, status := range []generation.RowStatus{generation.RowCompleted, generation.RowFailed, generation.RowSuperseded} {
		c.count("attempts, "+string(status), a.Attempts[status], b.Attempts[status])
	}
	c.number("seconds, all attempts", &a.Seconds, &b.Seconds, 3)
	c.number("seconds, completed", &a.CompletedSeconds, &b.CompletedSeconds, 3)
	x, y := time.Duration(a.SimTime).Seconds(), time.Duration(b.SimTime).Seconds()
	c.number("seconds in the world", &x, &y, 0)
	c.count("ticks", a.Ticks, b.Ticks)
	c.count("checkpoints", a.Checkpoints, b.Checkpoints)
	c.number("tokens in", tokens(a.TokensIn), tokens(b.TokensIn), 0)
	c.number("tokens out", tokens(a.TokensOut), tokens(b.TokensOut), 0)
	c.rows = append(c.rows, [4]string{"reproducible", reproducible(a), reproducible(b), ""})
	names := maps.Clone(a.Outcomes)
	maps.Copy(names, b.Outcomes)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a.Outcomes[name]
		y, inB := b.Outcomes[name]
		c.number(name+", last", known(x.Last, inA), known(y.Last, inB), 2)
		c.number(name+", mean", known(x.Mean, inA), known(y.Mean, inB), 2)
	}
	var widths [4]int
	for _, row := range c.rows {
		for i, text := range row {
			widths[i] = max(widths[i], cli.Visible(text))
		}
	}
	for _, row := range c.rows {
		line := fmt.Sprintf("%s  %*s  %*s  %*s", cli.Pad(row[0], widths[0]), widths[1], row[1], widths[2], row[2], widths[3], row[3])
		p.Linef("%s", strings.TrimRight(line, " "))
	}
	for _, s := range []trend.Summary{a, b} {
		if s.WhyNot != "" {
			p.Linef("%s is not reproducible: %s", cli.Inline(s.Experiment), cli.Inline(s.WhyNot))
		}
	}
}

func reproducible(s trend.Summary) string {
	switch {
	case s.Generations == 0:
		return "-"
	case s.WhyNot == "":
		return "yes"
	}
	return "no"
}

// known returns a pointer to v, or nil if it is not known.
func known(v float64, is bool) *float64 {
	if !is {
		return nil
	}
	return &v
}

func tokens(n *int64) *float64 {
	if n == nil {
		return nil
	}
	v := float64(*n)
	return &v
}

// outcomesText formats the outcomes of a world on one line.
func outcomesText(o map[string]float64) (text string) {
	for i, name := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", cli.Inline(name), strconv.FormatFloat(o[name], 'g', -1, 64))
	}
	return text
}
