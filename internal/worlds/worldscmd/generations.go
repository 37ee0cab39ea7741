package worldscmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack/archivefile"
	"github.com/dalsegno/segno/internal/worlds"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/world"
	"github.com/dalsegno/segno/world/httpworld"
)

func (a *app) generations() *cobra.Command {
	return cli.Noun("generations", "run generations of agents in a world, with checkpoints", "",
		a.generationsRun(), a.generationsStatus(), a.generationsLog(), a.generationsPlot(), a.generationsCompare(),
		a.pause(), a.wake(), a.generationsTurn(), a.generationsACP())
}

type generationsFlags struct {
	out, resumeFrom string
	every           time.Duration // unless CHECKPOINT_EVERY is set
	keep, retries   int
	noAutoResume    bool
	trust           bool
	compress        string
}

// The settings of an experiment that no flag changes.
const (
	defaultEvery   = 15 * time.Minute
	defaultKeep    = 8
	defaultRetries = 3
)

func (a *app) generationsRun() *cobra.Command {
	f := generationsFlags{every: defaultEvery}
	c := &cobra.Command{
		Use: "run FILE", Short: "run an experiment, or continue it", Args: cobra.ExactArgs(1),
		Long: `Runs the generations of an experiment: agents live in a world, and each generation begins with the
files that the one before it left. Checkpoints are made every CHECKPOINT_EVERY seconds (default 900; 0
makes none), at the end of a generation, and after Ctrl-C or SIGTERM.

A generation that fails is retried from its newest checkpoint that verifies. The same command continues an
experiment that was stopped or killed. If checkpoints failed, the command ends with an error
after the last generation. docs/generations.md describes the file and the directories.`,
		Example: "  segno generations run experiments/village.toml\n" +
			"  CHECKPOINT_EVERY=60 segno generations run experiments/village.toml\n" +
			"  segno generations run experiments/village.toml --resume-from runs/village-g003/checkpoints/gen003-t005400.ckpt",
		RunE: func(c *cobra.Command, args []string) error { return a.runGenerations(c.Context(), args[0], f) },
	}
	cli.OutFlag(c, &f.out)
	c.Flags().StringVar(&f.resumeFrom, "resume-from", "", "begin with the checkpoint in `FILE`; later runs are set aside")
	c.Flags().IntVar(&f.keep, "keep", defaultKeep, "keep the newest `N` checkpoints, and the last one of each generation")
	c.Flags().IntVar(&f.retries, "retries", defaultRetries, "retry failed generations `N` times in all")
	c.Flags().BoolVar(&f.noAutoResume, "no-auto-resume", false, "begin a generation that failed from its template")
	c.Flags().BoolVar(&f.trust, "trust-session", false, "resume from a checkpoint of another machine")
	archivefile.CompressFlag(c, &f.compress)
	return c
}

// checkpointEvery reads CHECKPOINT_EVERY, in seconds. It returns every if it is not set.
func (a *app) checkpointEvery(every time.Duration) (time.Duration, error) {
	text := a.Getenv("CHECKPOINT_EVERY")
	if text == "" {
		return every, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= 1e9) {
		return 0, cli.Usage(fmt.Errorf("CHECKPOINT_EVERY %q is not a number of seconds", text))
	}
	every = time.Duration(seconds * float64(time.Second))
	if seconds > 0 {
		every = max(every, 1) // 0 would turn checkpoints off
	}
	return every, nil
}

func (a *app) runGenerations(ctx context.Context, file string, f generationsFlags) error {
	wd, err := a.WorkDir()
	if err != nil {
		return err
	}
	if f.keep < 1 || f.retries < 0 {
		return cli.Usage(fmt.Errorf("--keep needs at least 1, and --retries no negative number"))
	}
	if err := archivefile.CheckCompress(f.compress); err != nil {
		return err
	}
	every, err := a.checkpointEvery(f.every)
	if err != nil {
		return err
	}
	e, err := generation.ReadExperiment(cli.Absolute(wd, file))
	if err != nil {
		return err
	}
	store, err := a.OpenOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	c := generation.Config{Experiment: e, Store: store.Store, Every: every, Keep: f.keep, Retries: f.retries, NoAutoResume: f.noAutoResume, Trust: f.trust}
	if f.resumeFrom != "" {
		c.ResumeFrom = cli.Absolute(wd, f.resumeFrom)
	}
	if c.Out, err = cli.RealPath(cli.Absolute(wd, f.out)); err != nil {
		return err
	}
	if err := a.completeGenerations(ctx, &c, store, f.compress); err != nil {
		return err
	}
	if cli.Terminal(a.Stdin) && cli.Terminal(a.Stdout) && !a.JSON && a.Getenv("TERM") != "dumb" {
		return a.showGenerations(ctx, c)
	}
	p := &eventWriter{app: a, turns: c.Story == nil}
	c.Report = p.write
	err = generation.New(c).Run(ctx)
	return cmp.Or(err, cli.WrapWriteError(p.err))
}

// completeGenerations sets the fields that depend on this installation.
func (a *app) completeGenerations(ctx context.Context, c *generation.Config, store *local.Store, compress string) (err error) {
	place := store.Place()
	records := place.Archives()
	if c.Write, err = archivefile.WriteOptions(a.App, ctx, records, archivefile.PackFlags{Compress: compress}); err != nil {
		return err
	}
	c.Temp, c.FS, c.Now = records.Dir(), place.FS, place.Now
	c.Ours = func(digest string) bool {
		is, err := archivefile.WroteHere(a.App, digest)
		return err == nil && is
	}
	c.Open = func(ctx context.Context, dir string) (*timeline.Timeline, error) {
		rec, err := store.Register(ctx, dir)
		if err != nil {
			return nil, err
		}
		return store.Timeline(rec, nil)
	}
	c.OpenHome = func(ctx context.Context, dir string, exclude []string) (*timeline.Timeline, error) {
		rec, err := store.Register(ctx, dir)
		if err != nil {
			return nil, err
		}
		return store.TimelineWithout(rec, exclude)
	}
	exe, err := a.Executable()
	if err != nil {
		return segno.NewError(segno.KindIO, "find executable", "", err)
	}
	c.Kinds = generation.Programs(place.UserHome, a.Getenv)
	name := cmp.Or(c.Experiment.WorldDir(), c.Experiment.World)
	for _, agent := range c.Experiment.Agents {
		if _, err := playerOf(ctx, name, ""); err != nil && agent.IsOffline() {
			return err
		}
	}
	maps.Copy(c.Kinds, generation.Own(a.Getenv, []string{exe, "generations", "turn", "--world=" + name}, []string{exe, "generations", "acp"}))
	return setWorld(c, exe)
}

// setWorld sets the command that starts the world of an experiment.
func setWorld(c *generation.Config, exe string) error {
	e := c.Experiment
	env := []string{"WORLD_SEED=" + strconv.FormatUint(e.Seed, 10)}
	if dir := e.WorldDir(); dir != "" {
		c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
			return httpworld.Start(ctx, dir, httpworld.Options{Resume: s.Document, ResumePath: s.Path, Port: s.Port, Env: env, Log: s.Log, Hold: s.Hold})
		}
		return nil
	}
	b, err := worlds.Find(e.World)
	if err != nil {
		return err
	}
	config := httpworld.Config{Name: b.Name}
	config.Runtime.Mode, config.Runtime.Tick = "stepped", b.New(e.Seed).Info().Tick.Seconds()
	config.Run.Command = []string{exe, "world", "serve", b.Name}
	c.Story = b.Story
	c.Start = func(ctx context.Context, s generation.WorldStart) (generation.World, error) {
		return httpworld.StartConfig(ctx, "/", config, httpworld.Options{Resume: s.Document, ResumePath: s.Path, Port: s.Port, Env: env, Log: s.Log, Hold: s.Hold})
	}
	return nil
}

// worldServe is the command of a process that runs one of segno's own worlds.
func (a *app) worldServe() *cobra.Command {
	return &cobra.Command{
		Use: "serve WORLD", Short: "serve a world to agents, as the command of a world.toml", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			b, err := worlds.Find(args[0])
			if err != nil {
				return err
			}
			seed, err := strconv.ParseUint(cmp.Or(a.Getenv("WORLD_SEED"), "1"), 10, 64)
			if err != nil {
				return cli.Usage(fmt.Errorf("WORLD_SEED is not a number"))
			}
			return httpworld.Serve(c.Context(), b.New(seed), a.Getenv)
		},
	}
}

// playerOf returns the player of one of segno's own worlds, or of a world in a directory. The path of a directory must
// be absolute.
func playerOf(ctx context.Context, name, workspace string) (world.Player, error) {
	if filepath.IsAbs(name) {
		return httpworld.Player(ctx, name, workspace)
	}
	b, err := worlds.Find(name)
	if err != nil {
		return nil, err
	}
	return b.Player(), nil
}
