package worldscmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
)

type pauseFlags struct {
	out, output string
	grace, wait time.Duration
}

func (a *app) pause() *cobra.Command {
	var flags pauseFlags
	c := &cobra.Command{
		Use: "pause RUN | THREAD", Short: "stop agents that segno started, with a checkpoint", Args: cobra.ExactArgs(1),
		Long: `Stops agents that segno started, and leaves a checkpoint from which 'segno generations wake' continues them.

RUN is an experiment of 'segno generations', by its name, the name of one of its runs, or a
directory. The agents get the time of --grace to finish their turns, and are then stopped within
them. THREAD is a thread whose agent 'segno acp' or 'segno chat' runs: the process of segno ends
as if its client had gone, records the turn, and ends the agent and all that the agent
started. With -o the checkpoint of a thread is also written to an archive. That of a run has one in any case.`,
		Example: "  segno generations pause village\n  segno generations pause village --grace 0s\n  segno generations pause bpyxf3 -o ../away.ckpt",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPause(c.Context(), args[0], flags)
		},
	}
	cli.OutFlag(c, &flags.out)
	c.Flags().StringVarP(&flags.output, "output", "o", "", "also write the checkpoint of a thread to this `FILE`")
	c.Flags().DurationVar(&flags.grace, "grace", 10*time.Second, "let turns go on for this `DURATION`")
	c.Flags().DurationVar(&flags.wait, "wait", time.Minute, "kill what has not ended this `DURATION` after that")
	return c
}

func (a *app) runPause(ctx context.Context, called string, flags pauseFlags) error {
	wd, err := a.WorkDir()
	if err != nil {
		return err
	}
	if flags.grace < 0 || flags.wait < 0 {
		return cli.Usage(errors.New("--grace and --wait need durations that are not negative"))
	}
	if dir, name, found := generation.Find(wd, flags.out, called); found {
		if flags.output != "" {
			return cli.Usage(errors.New("-o is for threads; a run has an archive of its checkpoint in any case"))
		}
		return a.pauseRun(ctx, dir, name, flags)
	}
	return explainNone(a.pauseThread(ctx, called, flags), called)
}

// explainNone returns the error for an argument that is neither a run nor a thread.
func explainNone(err error, called string) error {
	if segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	return segno.Errorf(segno.KindNotFound, "find thread", called, "it is neither an experiment nor a thread here").
		WithHint("see 'segno generations status' and 'segno threads'")
}

type pauseRunResult struct {
	Experiment string `json:"experiment"`
	Generation int    `json:"generation"`
	Ticks      int    `json:"ticks"`
	Run        string `json:"run_id"`
	Checkpoint string `json:"checkpoint,omitempty"` // the path of its archive; "" before the first checkpoint
	Digest     string `json:"state_digest,omitempty"`
}

func (a *app) pauseRun(ctx context.Context, dir, name string, flags pauseFlags) error {
	s, pointer, err := generation.Pause(ctx, dir, name, generation.PauseOptions{Grace: flags.grace, Wait: flags.wait})
	if err != nil {
		return err
	}
	res := pauseRunResult{Experiment: name, Generation: s.Generation, Ticks: s.Ticks, Run: s.Attempt}
	if pointer != nil {
		res.Checkpoint, res.Digest = filepath.Join(dir, name, filepath.FromSlash(pointer.Checkpoint)), pointer.Digest
	}
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("paused %s in generation %d, tick %d", name, s.Generation, s.Ticks)
		if pointer != nil {
			p.Linef("checkpoint %s", cli.QuotePath(a.RelativePath(res.Checkpoint)))
		}
		p.Linef("to continue:\n  segno generations wake %s", a.wakeArgument(dir, name))
	})
}

// wakeArgument returns the argument with which wake finds the experiment from the current
// directory.
func (a *app) wakeArgument(dir, name string) string {
	if wd, err := a.WorkDir(); err == nil {
		if there, err := os.Stat(filepath.Join(wd, "runs")); err == nil {
			if here, err := os.Stat(dir); err == nil && os.SameFile(there, here) {
				return name
			}
		}
	}
	return cli.ShellQuote(a.RelativePath(filepath.Join(dir, name)))
}
