package worldscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

type wakeFlags struct {
	archivefile.ArchiveFlags
	out, experiment, to string
	trust               bool
}

func (a *app) wake() *cobra.Command {
	var flags wakeFlags
	c := &cobra.Command{
		Use: "wake RUN | THREAD | FILE", Short: "continue what 'segno generations pause' stopped", Args: cobra.ExactArgs(1),
		Long: `Continues agents that 'segno generations pause' stopped: the workspace and the home of each agent are as they
were, its directory for temporary files is empty, and its session is resumed.

RUN is an experiment, which wake runs as 'segno generations run' does. Of a THREAD, wake restores the
files if they changed since, prints the command that continues the conversation, and on a terminal
runs it. FILE is the archive of a checkpoint, from which agents continue elsewhere: that of an
experiment with --experiment and the file of the experiment, that of one agent with --to, in a new
directory that has workspace, home and run. The checkpoints of an experiment are not encrypted, and have
their bases beside them.

No archive has the logins of agents. Each agent gets that of the user on this machine, unless its
own expires later.`,
		Example: "  segno generations wake village\n  segno generations wake away.ckpt --to ~/agent --trust-session\n  segno generations wake gen003-t005400.ckpt --experiment village.toml --trust-session",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runWake(c.Context(), args[0], flags)
		},
	}
	cli.OutFlag(c, &flags.out)
	flags.Add(c)
	a.WriteFlags(c)
	c.Flags().StringVar(&flags.to, "to", "", "of an archive of one agent: the new directory `DIR` of the agent")
	c.Flags().StringVar(&flags.experiment, "experiment", "", "the `FILE` of the experiment")
	c.Flags().BoolVar(&flags.trust, "trust-session", false, "continue from an archive of another machine")
	return c
}

func (a *app) runWake(ctx context.Context, called string, flags wakeFlags) error {
	wd, err := a.WorkDir()
	if err != nil {
		return err
	}
	info, err := os.Stat(cli.Absolute(wd, called))
	isFile := err == nil && info.Mode().IsRegular()
	if given := flags.Given(); given != "" && (!isFile || flags.experiment != "") {
		return cli.Usage(fmt.Errorf("%s is for the archive of one agent, with --to", given))
	}
	if isFile {
		return a.wakeArchive(ctx, called, flags)
	}
	if flags.to != "" {
		return cli.Usage(errors.New("--to is for archives, and there is no such file"))
	}
	if dir, name, found := generation.Find(wd, flags.out, called); found {
		return a.wakeRun(ctx, dir, name, flags)
	}
	return explainNone(a.wakeThread(ctx, called), called)
}

// wakeRun continues an experiment that was paused here.
func (a *app) wakeRun(ctx context.Context, dir, name string, flags wakeFlags) error {
	s, err := generation.Wake(ctx, dir, name)
	if err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	compress := archivefile.CompressZstd
	if s.Deflate {
		compress = archivefile.CompressDeflate
	}
	return a.runGenerations(ctx, cmp.Or(flags.experiment, s.File),
		generationsFlags{out: dir, every: s.Every, keep: s.Keep, retries: s.Retries, trust: flags.trust, compress: compress})
}

// wakeArchive continues an experiment or an agent from an archive.
func (a *app) wakeArchive(ctx context.Context, name string, flags wakeFlags) error {
	path, _, err := archivefile.ArchivePath(a.App, name)
	if err != nil {
		return err
	}
	switch {
	case (flags.experiment == "") == (flags.to == ""):
		return cli.Usage(errors.New("an archive needs --to DIR, or --experiment FILE if it is that of an experiment"))
	case flags.to != "":
		return a.wakeInto(ctx, path, flags)
	}
	err = a.runGenerations(ctx, flags.experiment, generationsFlags{out: flags.out, resumeFrom: filepath.Clean(path), every: defaultEvery, compress: archivefile.CompressZstd,
		keep: defaultKeep, retries: defaultRetries, trust: flags.trust})
	return archivefile.ExplainBadArchive(err)
}
