package insightcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/internal/bisect"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/workspace"
)

// ends are the flags that name the two ends of a bisect.
type ends struct{ good, bad string }

func (a *app) bisect() *cobra.Command {
	var at ends
	var jobs int
	addEnds := func(c *cobra.Command) *cobra.Command {
		c.Flags().StringVar(&at.good, "good", "", "this `CHECKPOINT` is good (default: the beginning of the line)")
		c.Flags().StringVar(&at.bad, "bad", "", "this `CHECKPOINT` is bad (default: the head)")
		cli.CompleteFlag(c, "good", a.CompleteCheckpoints(maxArgs))
		cli.CompleteFlag(c, "bad", a.CompleteCheckpoints(maxArgs))
		return c
	}
	run := addEnds(&cobra.Command{
		Use:   "run [-j N] COMMAND [ARG…]",
		Short: "find the checkpoint that made a command fail",
		Long: `Runs a command on checkpoints until it finds the first one at which the command fails. One
argument is a command line for sh; several are a program and its arguments. It begins
with both ends of the line: at the head the command must fail, at the beginning it must succeed.

    exit code 0         the checkpoint is good
    125                 it cannot be tested, and is skipped
    1 to 127            it is bad
    128 and above       something else is wrong, and the bisect stops

Changes that you made between turns are checkpoints like turns. The files of a turn are
tested as a whole.

The command runs in scratch copies of the workspace, in the same directory as here. Your
files and the thread stay as they are. Files are as in the checkpoint; what it does not
contain (.git, node_modules and other protected paths) is a copy of the present ones, without
attached databases. Files that the command makes are removed before the next test, except
below protected paths. If the command needs a file that the copies lack, it fails at
both ends, and bisect reports that.

After an interruption, the same command line continues.`,
		Example: "  segno bisect run 'go test ./...'\n  segno bisect run --good t4 -j 4 make check",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if jobs < 0 {
				return cli.Usage(errors.New("-j takes a number of commands"))
			}
			if jobs == 0 {
				jobs = max(1, runtime.NumCPU()/2)
			}
			return a.inBisect(func(ctx context.Context, b *bisecting, args []string) error { return b.run(ctx, at, jobs, args) })(c, args)
		},
	})
	run.Flags().IntVarP(&jobs, "jobs", "j", 0, "run `N` commands at once (default: one for two cores)")
	run.Flags().SetInterspersed(false)
	return cli.Noun("bisect", "find the checkpoint that broke something",
		`Finds the checkpoint that made a command fail: 'segno bisect run' tests with a command. With
'segno bisect start' you test by hand, in a scratch copy of the workspace, and answer with
good, bad or skip. Your files and the thread stay as they are.`,
		run,
		addEnds(&cobra.Command{Use: "start", Short: "begin to test by hand", Args: cobra.NoArgs,
			Long: `Begins a bisect, and shows the directory with the files to test. Answer with 'segno bisect
good', 'bad' or 'skip', there or in the workspace.`,
			RunE: a.inBisect(func(ctx context.Context, b *bisecting, _ []string) error { return b.start(ctx, at) })}),
		a.answer(bisect.Good, "the checkpoint is good"),
		a.answer(bisect.Bad, "the checkpoint is bad"),
		a.answer(bisect.Skip, "the checkpoint cannot be tested"),
		&cobra.Command{Use: "status", Short: "show the answers so far", Args: cobra.NoArgs, Long: "Shows the bisect under way: its answers, and what is left.",
			RunE: a.inBisect(func(ctx context.Context, b *bisecting, _ []string) error {
				if b.ByHand != nil && b.InUse() == "" { // the process that prepared the test was killed, or the user removed the copy
					return b.proceed(ctx)
				}
				return b.status()
			})},
		&cobra.Command{Use: "reset", Short: "end the bisect and forget its answers", Args: cobra.NoArgs,
			Long: "Ends the bisect under way, if there is one, and removes its scratch copies.",
			RunE: a.inBisect(func(_ context.Context, b *bisecting, _ []string) error { return b.reset() })})
}

// maxArgs is the number of arguments that the shell completes.
const maxArgs = 100

// answer returns the verb for the user's verdict.
func (a *app) answer(v bisect.Verdict, short string) *cobra.Command {
	return &cobra.Command{Use: string(v) + " [CHECKPOINT…]", Short: short, ValidArgsFunction: a.CompleteCheckpoints(maxArgs),
		Long: "Records your verdict about checkpoints, by default the one in the scratch copy, and shows the next one to test.",
		RunE: a.inBisect(func(ctx context.Context, b *bisecting, args []string) error { return b.judge(ctx, v, args) })}
}

// bisecting is a verb at work on the bisect of a workspace.
type bisecting struct {
	*app
	*bisect.Session
	d     *cli.Workspace
	isNew bool // this process began the bisect

	history *history.History
	states  []bisect.Candidate
	search  *bisect.Search
	tests   []testItem
	output  map[int]string // the end of the command's output, of states that it found bad
}

// inBisect returns the function of a verb of bisect. It also works in the scratch copy, and removes what a killed process left.
func (a *app) inBisect(run func(ctx context.Context, b *bisecting, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		place, dir, err := a.PlaceAndDir()
		if err != nil {
			return err
		}
		if root := bisect.WorkspaceAt(place.BisectsDir(), dir); root != "" {
			a.Directory = root
		}
		return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
			s, err := bisect.Open(ctx, place.FileSystem(), place.BisectsDir(), d.Rec.ID)
			if err != nil {
				return err
			}
			defer s.Close()
			b := &bisecting{app: a, Session: s, d: d, output: map[int]string{}}
			if s.IsDamaged() && c.Name() != "reset" {
				return segno.Errorf(segno.KindCorrupt, "bisect", d.Rec.Path, "the state of the bisect is damaged").WithHint("run 'segno bisect reset'")
			}
			if err := s.RemoveScratch(s.InUse()); err != nil {
				return err
			}
			if s.Exists && c.Name() != "reset" {
				if err := b.load(ctx); err != nil {
					return err
				}
			}
			return run(ctx, b, args)
		})(c, args)
	}
}

// load reads the states of the bisect under way.
func (b *bisecting) load(ctx context.Context) (err error) {
	if b.history, err = history.Read(ctx, b.d.Store, b.Thread); err != nil {
		return segno.NewError(segno.KindOf(err), "bisect", string(b.Thread), err).WithHint("run 'segno bisect reset'")
	}
	if b.states = bisect.Candidates(b.history, b.Good, b.Bad); len(b.states) < 2 {
		return segno.Errorf(segno.KindNotFound, "bisect", string(b.Bad), "the checkpoints of the bisect no longer exist").WithHint("run 'segno bisect reset'")
	}
	b.search = b.Session.Search(b.states)
	for _, x := range b.Answers {
		if i := bisect.Index(b.states, x.Checkpoint); i >= 0 {
			b.addTest(i, x.Verdict, x.Code, "", 0)
		}
	}
	return nil
}

// begin begins a bisect between two ends.
func (b *bisecting) begin(ctx context.Context, at ends) error {
	if at.bad == "" {
		at.bad = "@"
	}
	h, bad, err := b.CheckpointNamed(ctx, b.d, at.bad)
	if err != nil {
		return err
	}
	var good segno.CommitID
	if at.good != "" {
		c, err := h.Find(at.good)
		if err != nil {
			return err
		}
		good = c.ID
	}
	states := bisect.Candidates(h, good, bad.ID)
	switch {
	case len(states) == 0 && good != "":
		return segno.Errorf(segno.KindInvalid, "bisect", at.good, "the good checkpoint is not before the bad one on its line").WithHint("run 'segno log'")
	case len(states) < 2:
		return segno.Errorf(segno.KindRefused, "bisect", at.bad, "no checkpoint before it has other files").WithHint("run 'segno log' and name the ends with --good and --bad")
	}
	b.State = bisect.State{Root: b.d.Rec.Path, Thread: h.Head.Thread, Good: states[0].Checkpoint.ID, Bad: bad.ID}
	if err := b.Save(); err != nil {
		return err
	}
	return b.load(ctx)
}

// scratch makes a scratch copy, or opens an existing one.
func (b *bisecting) scratch(ctx context.Context, existing string) (*workspace.Scratch, error) {
	return b.d.Store.Scratch(ctx, b.d.Rec, existing, workspace.ScratchOptions{Index: b.IndexFile, Announce: b.Announce})
}

// allow refuses to write files that another machine brought and that the user has not trusted.
func (b *bisecting) allow(ctx context.Context, x *segno.Checkpoint) error {
	return b.d.Timeline.CheckFiles(ctx, "bisect", x)
}

// firstScratch makes a scratch copy and describes it.
func (b *bisecting) firstScratch(ctx context.Context) (*workspace.Scratch, error) {
	s, err := b.scratch(ctx, "")
	if err == nil && !b.JSON {
		b.Notef("%s", describeScratch(s))
	}
	return s, err
}

// describeScratch describes in one line what a scratch copy has that checkpoints do not contain.
func describeScratch(s *workspace.Scratch) string {
	text := "testing in scratch copies in " + cli.QuotePath(filepath.Dir(s.Root()))
	if len(s.Protected) > 0 {
		text += "; as at present: " + listed(s.Protected)
	}
	if len(s.LeftOut) > 0 {
		text += "; not there: " + listed(s.LeftOut)
	}
	return text
}

// listed names the first of several paths.
func listed(paths []string) string {
	const most = 4
	var names []string
	for _, p := range paths[:min(len(paths), most)] {
		names = append(names, cli.QuotePath(p))
	}
	if more := len(paths) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

func (b *bisecting) run(ctx context.Context, at ends, jobs int, args []string) error {
	below, err := filepath.Rel(b.d.Rec.Path, b.d.Dir)
	if err != nil || !filepath.IsLocal(below) {
		below = "."
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{below}, args...), "\x00")))
	command := hex.EncodeToString(sum[:])
	if b.isNew = b.canBegin(); b.isNew {
		err = b.begin(ctx, at)
	} else {
		err = b.canContinue(at, command)
	}
	if err == nil {
		b.Command, b.ByHand = command, nil
		err = errors.Join(b.Save(), b.RemoveScratch(""))
	}
	if err != nil {
		return err
	}
	b.search.TestEnds = true
	jobs = min(jobs, len(b.states))
	tester := &bisect.Tester{Args: args, Below: below, Env: b.Environ(), States: b.states, Hold: b.Hold(), Scratch: make([]*workspace.Scratch, jobs),
		Allow: b.allow,
		Open:  func(ctx context.Context) (*workspace.Scratch, error) { return b.scratch(ctx, "") }}
	runner := bisect.Runner{Search: b.search, Jobs: jobs, Test: tester.Test, Record: b.record}
	if tester.Scratch[0], err = b.firstScratch(ctx); err == nil {
		err = runner.Run(ctx)
	}
	var end *bisect.EndError
	switch {
	case err == nil:
		return b.finish(ctx)
	case b.isNew && errors.As(err, &end): // no answer is worth keeping
		return errors.Join(b.explain(err), b.Remove())
	}
	return errors.Join(b.explain(err), b.RemoveScratch(""))
}

// canBegin reports whether a bisect that is under way, if any, has nothing that the user would miss.
func (b *bisecting) canBegin() bool { return len(b.Answers) == 0 && b.ByHand == nil }

// canContinue returns an error unless a command line means the bisect under way. The command line that began it does, also with
// the names of its ends.
func (b *bisecting) canContinue(at ends, command string) error {
	for _, end := range []struct {
		name  string
		state int
	}{{at.good, 0}, {at.bad, len(b.states) - 1}} {
		if end.name == "" {
			continue
		}
		if c, err := b.history.Find(end.name); err != nil || bisect.Index(b.states, c.ID) != end.state {
			return underWay("it has its ends already")
		}
	}
	if b.Command != "" && b.Command != command {
		return underWay("its answers are those of another command")
	}
	if !b.JSON && len(b.Answers) > 0 {
		b.Notef("continuing after %s", cli.Plural(len(b.Answers), "answer"))
	}
	return nil
}

func underWay(why string) error {
	return segno.Errorf(segno.KindRefused, "bisect", "", "a bisect of this workspace is under way; %s", why).
		WithHint("run 'segno bisect status' to see it, 'segno bisect reset' to end it")
}

// record makes the result of a test durable and prints it.
func (b *bisecting) record(i int, r bisect.Result) error {
	answer := bisect.Answer{Checkpoint: b.states[i].Checkpoint.ID, Verdict: r.Verdict}
	if r.Code >= 0 {
		answer.Code = &r.Code
	}
	if err := b.Add(answer); err != nil {
		return err
	}
	if r.Verdict == bisect.Bad {
		b.output[i] = r.Output
	}
	b.addTest(i, r.Verdict, answer.Code, r.Why, r.Took)
	if !b.JSON {
		b.Notef("%s, %d left", b.tests[len(b.tests)-1].text(), b.search.Left())
	}
	return nil
}

// explain returns the error of a run in the words of a user.
func (b *bisecting) explain(err error) error {
	var end *bisect.EndError
	var abort *bisect.AbortError
	switch {
	case errors.As(err, &end):
		b.printOutput(end.Output)
		why, hint := "the command does not fail there", "name a checkpoint at which it fails with --bad"
		switch good, _ := b.search.Ends(); {
		case end.Verdict == bisect.Skip:
			why, hint = "the command cannot test this end", "name other ends with --good and --bad"
		case end.State == good:
			why, hint = "the command already fails there", "name a checkpoint at which it succeeds with --good"
		}
		if end.Why != "" {
			why += ": " + end.Why
		}
		if !b.isNew {
			hint = "run 'segno bisect reset', then " + hint
		}
		return segno.Errorf(segno.KindRefused, "bisect", b.name(end.State), "%s", why).WithHint(hint)
	case errors.As(err, &abort):
		b.printOutput(abort.Output)
		return segno.NewError(segno.KindIO, "bisect", b.name(abort.State), err).WithHint("the same command line continues; 'segno bisect reset' ends the bisect")
	case errors.Is(err, context.Canceled) && !b.JSON:
		b.Notef("the same command line continues; 'segno bisect reset' ends the bisect")
	}
	return err
}

// printOutput prints the last lines of a command as a note.
func (b *bisecting) printOutput(text string) {
	text = cli.CleanLines(strings.TrimSpace(text))
	if b.JSON || text == "" {
		return
	}
	for _, line := range lastLines(text) {
		b.Notef("    %s", line)
	}
}

func (b *bisecting) start(ctx context.Context, at ends) error {
	if !b.canBegin() {
		return underWay("it has its ends already")
	}
	if err := b.begin(ctx, at); err != nil {
		return err
	}
	return b.proceed(ctx)
}

// judge records the user's verdict.
func (b *bisecting) judge(ctx context.Context, v bisect.Verdict, names []string) error {
	if !b.Exists {
		return segno.Errorf(segno.KindNotFound, "bisect", "", "no bisect is under way here").WithHint("run 'segno bisect run COMMAND' or 'segno bisect start'")
	}
	var ids []segno.CommitID
	for _, name := range names {
		c, err := b.history.Find(name)
		if err != nil {
			return err
		}
		ids = append(ids, c.ID)
	}
	if len(ids) == 0 {
		if b.ByHand == nil || b.ByHand.Checkpoint == "" {
			return segno.Errorf(segno.KindRefused, "bisect", "", "no checkpoint is being tested").WithHint("run 'segno bisect status', or name it: 'segno bisect " + string(v) + " CHECKPOINT'")
		}
		ids = append(ids, b.ByHand.Checkpoint)
	}
	for _, id := range ids {
		i := bisect.Index(b.states, id)
		if i < 0 {
			return segno.Errorf(segno.KindInvalid, "bisect", cli.Short(id), "the checkpoint is not between the ends of this bisect").WithHint("run 'segno bisect status'")
		}
		if err := b.search.Record(i, bisect.Result{Verdict: v}); err != nil {
			good, bad := b.search.Ends()
			return segno.Errorf(segno.KindInvalid, "bisect", b.name(i), "it cannot be %s: %s is taken as good, %s as bad", v, b.name(good), b.name(bad)).
				WithHint("run 'segno bisect reset' to begin again")
		}
		if b.ByHand != nil {
			b.ByHand.Checkpoint = ""
		}
		if err := b.Add(bisect.Answer{Checkpoint: b.states[i].Checkpoint.ID, Verdict: v}); err != nil {
			return err
		}
		b.addTest(i, v, nil, "", 0)
	}
	return b.proceed(ctx)
}

// proceed prepares the next test by hand, or prints the result.
func (b *bisecting) proceed(ctx context.Context) error {
	for {
		next, ok := b.search.Next(func(int) bool { return false })
		if !ok {
			return b.finish(ctx)
		}
		why, err := b.prepare(ctx, next)
		if err != nil {
			return err
		}
		if why == "" {
			return b.status()
		}
		r := bisect.Result{Verdict: bisect.Skip, Code: -1, Why: why}
		if err := b.search.Record(next, r); err != nil {
			return err
		}
		if err := b.record(next, r); err != nil {
			return err
		}
	}
}

// prepare gives the scratch copy the files of a state. It returns why the state cannot be tested, or "".
func (b *bisecting) prepare(ctx context.Context, i int) (why string, err error) {
	c := b.states[i].Checkpoint
	if b.states[i].Missing != "" {
		return b.states[i].Missing, nil
	}
	if err := b.allow(ctx, c); err != nil {
		return "", err
	}
	var s *workspace.Scratch
	if b.ByHand == nil || b.ByHand.Dir == "" {
		s, err = b.firstScratch(ctx)
	} else {
		s, err = b.scratch(ctx, b.ByHand.Dir)
	}
	if err != nil {
		return "", err
	}
	b.ByHand = &bisect.ByHand{Dir: s.Root()}
	missing, err := s.Reset(ctx, *c.Workspace)
	if err != nil {
		return "", err
	}
	if len(missing) > 0 {
		return bisect.WhyMissing(missing), nil
	}
	b.ByHand.Checkpoint = c.ID
	return "", b.Save()
}

func (b *bisecting) reset() error {
	existed := b.Exists
	if err := b.Remove(); err != nil {
		return err
	}
	return b.Print(b.item("none"), func(p *cli.Printer) {
		if existed {
			p.Linef("the bisect has ended")
		} else {
			p.Linef("no bisect is under way here")
		}
	})
}
