package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/timeline"
)

// PatchFlag adds the flag of moves that the user can make in parts.
func PatchFlag(c *cobra.Command, patch *bool) {
	c.Flags().BoolVarP(patch, "patch", "p", false, "ask about each hunk, and change only the chosen ones; the conversation stays")
}

// checkPatch refuses a move in parts if the user cannot be asked about them.
func (a *App) checkPatch(ask timeline.MoveRequest) error {
	verb := string(ask.Verb)
	switch {
	case ask.Parts == nil:
	case a.Yes:
		return Usage(fmt.Errorf("%s: --patch asks about each hunk, so -y contradicts it", verb))
	case !a.DryRun && !Terminal(a.Stdin):
		return segno.Errorf(segno.KindRefused, verb, "", "--patch asks on a terminal, and there is none").
			WithHint("name paths instead of choosing hunks")
	}
	return nil
}

// partHelp explains the answers, which are those of 'git checkout -p'.
const partHelp = `y - do this
n - leave this as it is
q - leave this and all that follows as it is
a - do this and all that follows in the file
d - leave this and all that follows in the file as it is
? - print this help
`

// chooser asks the user about the parts of a plan.
type chooser struct {
	*App
	in   *bufio.Reader
	read patch.Reader
	verb segno.Verb
	quit bool
}

// chooseParts asks about each part of a plan. The result is for [timeline.MoveRequest].Parts.
func (a *App) chooseParts(ctx context.Context, d *Workspace, plan *timeline.Plan) (map[string][]int, error) {
	c := &chooser{App: a, in: bufio.NewReader(a.Stdin), read: patch.FromStore(d.Store.Objects()), verb: plan.Verb}
	chosen := map[string][]int{}
	for _, step := range plan.Steps {
		parts, err := d.Timeline.Parts(ctx, plan, step)
		if err != nil {
			return nil, err
		}
		which, err := c.askStep(ctx, step, parts)
		if err != nil {
			return nil, err
		}
		if len(which) > 0 {
			chosen[step.Path] = which
		}
		if c.quit {
			break
		}
	}
	if len(chosen) == 0 {
		return nil, segno.Errorf(segno.KindRefused, string(plan.Verb), "", "nothing was chosen: nothing was done")
	}
	return chosen, nil
}

// askStep asks about the parts of one step, and returns the indexes of the chosen ones.
func (c *chooser) askStep(ctx context.Context, step segno.Change, parts []timeline.Part) (which []int, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	p := c.Printer(c.Stderr)
	text := c.MoveText(p)
	text.Changes(history.Signed([]segno.Change{step}))
	p.Lines(text.Lines())
	all := false
	for i, part := range parts {
		answer := "y"
		if !all {
			if err := c.show(ctx, step, part); err != nil {
				return nil, err
			}
			if answer, err = c.ask(fmt.Sprintf("(%d/%d) %s [y,n,q,a,d,?]? ", i+1, len(parts), c.partName(step, part))); err != nil {
				return nil, err
			}
		}
		switch answer {
		case "y":
			which = append(which, i)
		case "a":
			all = true
			which = append(which, i)
		case "q":
			c.quit = true
			return which, p.Err
		case "d":
			return which, p.Err
		}
	}
	return which, p.Err
}

// show prints a hunk, or the difference of a whole step.
func (c *chooser) show(ctx context.Context, step segno.Change, part timeline.Part) error {
	const most = 40 // lines of a whole step
	p := c.Printer(c.Stderr)
	text := c.MoveText(p)
	if part.Text != "" {
		text.Patch(part.Text, 0)
	} else if max(step.From.Size, step.To.Size) <= maxShownBytes {
		whole, err := patch.Of(ctx, c.read, step, false)
		if err != nil {
			return err
		}
		text.Patch(whole.String(), most)
	}
	p.Lines(text.Lines())
	return p.Err
}

// maxShownBytes is the size of a file above which a question about it shows no difference.
const maxShownBytes = 1 << 20

// partName describes a part in a question.
func (c *chooser) partName(step segno.Change, part timeline.Part) string {
	path := segno.QuotePath(step.Path)
	switch {
	case strings.HasPrefix(part.Text, "@@"):
		return string(c.verb) + " this hunk"
	case part.Text != "":
		return string(c.verb) + " this change of " + path
	case step.From.Type == segno.EntityNone:
		return "bring back " + path
	case step.To.Type == segno.EntityNone:
		return "delete " + path
	}
	return "change " + path
}

// ask asks until the answer is one of the letters. The end of the input is "q".
func (c *chooser) ask(question string) (string, error) {
	for {
		fmt.Fprint(c.Stderr, question)
		line, err := c.in.ReadString('\n')
		if err != nil && err != io.EOF {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		answer := strings.ToLower(strings.TrimSpace(line))
		if answer == "" && err == io.EOF {
			return "q", nil
		}
		if len(answer) == 1 && strings.Contains("ynqad", answer) {
			return answer, nil
		}
		fmt.Fprint(c.Stderr, partHelp)
	}
}
