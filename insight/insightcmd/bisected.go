package insightcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/internal/bisect"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/timeline"
)

// bisected is the result of the verbs of bisect. A later release may add fields, but removes none.
type bisected struct {
	// State is "none" without a bisect, "searching", "found", or "hidden" if the user skipped checkpoints, or segno
	// did not record the files of some, and these hide the first bad one.
	State     string           `json:"state"`
	Good      *history.Item    `json:"good"`       // the newest checkpoint known or taken as good
	Bad       *history.Item    `json:"bad"`        // the oldest one known or taken as bad
	FirstBad  *history.Item    `json:"first_bad"`  // of "found"
	Name      string           `json:"name"`       // of FirstBad, in words
	Suspects  []history.Item   `json:"suspects"`   // the checkpoints one of which is the first bad one
	Left      int              `json:"left"`       // how many of them are not tested
	Changes   []history.Change `json:"changes"`    // of FirstBad
	Tests     []testItem       `json:"tests"`      // the answers in their order
	UnderTest string           `json:"under_test"` // by hand: the checkpoint whose files Dir has
	Dir       string           `json:"dir"`
	DirBytes  []byte           `json:"dir_bytes,omitempty"`
}

// testItem is one answer in a result.
type testItem struct {
	Checkpoint segno.CommitID `json:"checkpoint"`
	Name       string         `json:"name"`
	Verdict    bisect.Verdict `json:"verdict"`
	Code       *int           `json:"code"` // the exit code of the command, or null
	Why        string         `json:"why,omitempty"`
	MS         int64          `json:"ms,omitempty"`
}

func (b *bisecting) addTest(i int, v bisect.Verdict, code *int, why string, took time.Duration) {
	b.tests = append(b.tests, testItem{b.states[i].Checkpoint.ID, b.name(i), v, code, why, took.Milliseconds()})
}

// text describes the answer on one line.
func (t *testItem) text() string {
	s := cli.Pad(t.Name, 6) + " " + string(t.Verdict)
	if t.Code != nil && *t.Code != 0 {
		s += fmt.Sprintf(", exit %d", *t.Code)
	}
	if t.Why != "" {
		s += ": " + cli.Inline(t.Why)
	}
	if t.MS > 0 {
		s += fmt.Sprintf("  %.1f s", float64(t.MS)/1000)
	}
	return s
}

// name names a state: its turn, or the kind of its checkpoint.
func (b *bisecting) name(i int) string { return b.nameOf(b.states[i].Checkpoint) }

func (b *bisecting) nameOf(c *segno.Checkpoint) string {
	switch {
	case c.Kind == segno.CheckpointTurn:
		return cli.Label(c)
	case c.Kind == segno.CheckpointBase:
		return "t0"
	case c.Kind == segno.CheckpointExternal:
		return "changed by you " + b.when(c)
	}
	return string(c.Kind) + " " + cli.Label(c)
}

// when describes the place of a checkpoint between turns.
func (b *bisecting) when(c *segno.Checkpoint) string {
	next := ""
	for _, leaf := range []segno.CommitID{b.history.Head.Head, b.Bad} {
		turn := ""
		for _, x := range b.history.Line(leaf) {
			if x.ID == c.ID {
				next = turn
			}
			if x.Kind == segno.CheckpointTurn {
				turn = cli.Label(x)
			}
		}
	}
	if next != "" {
		return "before " + next
	}
	return fmt.Sprintf("after t%d", c.Turn)
}

// item describes the bisect.
func (b *bisecting) item(state string) bisected {
	r := bisected{State: state, Suspects: []history.Item{}, Changes: []history.Change{}, Tests: append([]testItem{}, b.tests...)}
	if b.search == nil {
		return r
	}
	itemOf := func(i int) *history.Item { x := b.history.Item(b.states[i].Checkpoint); return &x }
	good, bad := b.search.Ends()
	r.Good, r.Bad, r.Left = itemOf(good), itemOf(bad), b.search.Left()
	for i := good + 1; i <= bad; i++ {
		for _, c := range b.states[i].Unrecorded {
			r.Suspects = append(r.Suspects, b.history.Item(c))
		}
		r.Suspects = append(r.Suspects, *itemOf(i))
	}
	if state == "found" {
		r.FirstBad, r.Name = r.Bad, b.name(bad)
	}
	if b.ByHand != nil && state == "searching" {
		r.Dir, r.DirBytes = b.ByHand.Dir, segno.PathBytes(b.ByHand.Dir)
		if i := bisect.Index(b.states, b.ByHand.Checkpoint); i >= 0 {
			r.UnderTest = b.name(i)
		}
	}
	return r
}

// status prints the bisect under way.
func (b *bisecting) status() error {
	if !b.Exists {
		return b.Print(b.item("none"), func(p *cli.Printer) { p.Linef("no bisect is under way here") })
	}
	r := b.item("searching")
	return b.Print(r, func(p *cli.Printer) {
		for i := range r.Tests {
			p.Linef("%s", r.Tests[i].text())
		}
		good, bad := b.search.Ends()
		p.Linef("%s is good, %s is bad, %d left", b.name(good), b.name(bad), r.Left)
		if r.UnderTest != "" {
			p.Linef("test %s in %s, then run 'segno bisect good', 'bad' or 'skip'", p.Bold(r.UnderTest), cli.ShellQuote(b.RelativePath(r.Dir)))
		}
	})
}

// finish prints the result and ends the bisect.
func (b *bisecting) finish(ctx context.Context) error {
	suspects, _ := b.search.Result()
	if len(suspects) > 1 || len(b.states[suspects[0]].Unrecorded) > 0 {
		r := b.item("hidden")
		err := b.Print(r, func(p *cli.Printer) {
			p.Linef("the first bad checkpoint is one of these, because those before the last could not be tested:")
			for _, i := range suspects {
				for _, c := range b.states[i].Unrecorded {
					p.Linef("  %s, whose files were not recorded", b.line(c))
				}
				p.Linef("  %s", b.line(b.states[i].Checkpoint))
			}
		})
		if err == nil {
			err = b.Remove()
		}
		if err == nil {
			err = cli.ErrSilent
		}
		return err
	}
	r, found := b.item("found"), suspects[0]
	diff, err := b.d.Timeline.Workspace.Diff(ctx, b.states[found-1].Checkpoint.Tree(), b.states[found].Checkpoint.Tree())
	if err != nil {
		return err
	}
	r.Changes = history.Signed(diff)
	if err := b.Remove(); err != nil {
		return err
	}
	patchOf := func(c segno.Change) (*patch.Patch, error) { return patch.Of(ctx, b.d.Content, c, false) }
	return b.PrintLong(r, func(p *cli.Printer) {
		c := b.states[found].Checkpoint
		p.Linef("first bad: %s", b.line(c))
		p.Linef("%s", p.Dim(fmt.Sprintf("%s  %s  %s; %s is good", b.When(c.Time), cli.Inline(string(c.Kind)), cli.Inline(string(c.ID)), b.name(found-1))))
		if prompt := strings.TrimSpace(c.Prompt); c.Kind == segno.CheckpointTurn && prompt != timeline.Title(prompt) {
			p.Linef("\n  %s", strings.ReplaceAll(cli.CleanLines(prompt), "\n", "\n  "))
		}
		p.Linef("")
		p.Changes(r.Changes)
		p.Linef("")
		p.Diff(diff, patchOf)
		if out := cli.CleanLines(strings.TrimSpace(b.output[found])); out != "" {
			p.List("\nthe end of the command's output there:", lastLines(out))
		}
	})
}

// line describes a checkpoint on one line.
func (b *bisecting) line(c *segno.Checkpoint) string {
	name := b.nameOf(c)
	if c.Kind == segno.CheckpointTurn {
		return name + " " + cli.Quote(timeline.Title(c.Prompt))
	}
	if c.Kind == segno.CheckpointExternal {
		return name + ", not by a turn (" + cli.Label(c) + ")"
	}
	if c.Label != "" {
		return name + " " + cli.Quote(c.Label)
	}
	return name
}

// lastLines returns the last lines of a text.
func lastLines(text string) []string {
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-cli.MaxLines):]
}
