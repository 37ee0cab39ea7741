package fleetcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/internal/cli"
)

type workerFlags struct {
	connectFlags
	slots    int
	drain    time.Duration
	logLevel string
	logJSON  bool
	check    bool
}

func (a *app) worker() *cobra.Command {
	f := &workerFlags{}
	c := &cobra.Command{
		Use: "worker AGENTS.toml", Short: "run the turns of a fleet's threads", Args: cobra.ExactArgs(1),
		Long: `Runs the turns of the threads in a store on PostgreSQL, with the agents of a file. Start as
many workers as you like, on as many machines as you like: a thread runs on one of them at a
time, and if a machine dies, another worker continues its turns from their last step.

SIGTERM or ctrl+c drains: the worker takes no new work and lets its turns continue for a
while (--drain). Then it cuts them after their last step, and another worker continues them. A
second signal ends it at once, which loses no more than kill -9 does.

The file has no secrets: it names variables or files with them. docs/fleet.md has all
settings; --check reads the file and starts nothing. Logs go to standard error and contain no
prompts and no answers.`,
		Example: `  segno worker --store postgres://localhost/fleet --bucket file:///srv/segno agents.toml
  segno worker --check agents.toml`,
		RunE: func(c *cobra.Command, args []string) error { return a.runWorker(c.Context(), f, args[0]) },
	}
	a.databaseFlags(c, &f.connectFlags)
	c.Flags().IntVar(&f.slots, "slots", 0, "how many turns run at once: `N`, instead of that of the file")
	c.Flags().DurationVar(&f.drain, "drain", 30*time.Second, "how long turns may continue after a signal: `TIME`")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "the `LEVEL` of the log: debug, info, warn or error")
	c.Flags().BoolVar(&f.logJSON, "log-json", false, "log lines of JSON")
	c.Flags().BoolVar(&f.check, "check", false, "check the file, and start nothing")
	cli.CompleteFlag(c, "log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// checkedItem is the result of 'segno worker --check'.
type checkedItem struct {
	SchemaVersion int      `json:"schema_version"`
	Agents        []string `json:"agents"`
	Slots         int      `json:"slots"`
}

func (a *app) runWorker(ctx context.Context, f *workerFlags, path string) error {
	log, err := a.logger(f)
	if err != nil {
		return err
	}
	if f.slots < 0 || f.slots > maxSlots {
		return cli.Usage(fmt.Errorf("--slots is 1 to %d", maxSlots))
	}
	dir, err := a.WorkDir()
	if err != nil {
		return err
	}
	file, err := readAgentsFile(cli.Absolute(dir, path))
	if err != nil {
		return err
	}
	if file.Worker.Cache != "" {
		file.Worker.Cache = cli.Absolute(filepath.Dir(cli.Absolute(dir, path)), file.Worker.Cache)
	}
	if f.slots > 0 {
		file.Worker.Slots = f.slots
	}
	b := &builder{file: file, models: a.models, getenv: a.Getenv}
	if f.check {
		if _, err := b.own(ctx); err != nil {
			return err
		}
		item := checkedItem{schemaVersion, file.names(), file.Worker.Slots}
		return a.Print(item, func(p *cli.Printer) {
			p.Linef("%s is right: agents %s, %s", cli.QuotePath(path), strings.Join(item.Agents, ", "), cli.Plural(item.Slots, "slot"))
		})
	}
	if len(file.Tenants) > 0 && f.tenant != "" {
		return cli.Usage(errors.New("--tenant excludes the tenants of the file"))
	}
	if a.useEnvironment(); a.StorePath == "" {
		return cli.Usage(errors.New("--store is missing: the URL of the PostgreSQL database; it may also be in SEGNO_FLEET"))
	}
	if _, err := b.own(ctx); err != nil { // before the database is used
		return err
	}
	open, err := openFleet(ctx, a.StorePath, a.BucketURL, f.tenant, log)
	if err != nil {
		return err
	}
	return errors.Join(a.work(ctx, f, open, b, log), open.close())
}

// work runs the worker until ctx ends and its turns have ended.
func (a *app) work(ctx context.Context, f *workerFlags, open *openedFleet, b *builder, log *slog.Logger) error {
	b.store = open.Store()
	agents, err := b.own(ctx)
	if err != nil {
		return err
	}
	w := open.Worker(agents)
	if w.Runners, err = b.runners(open.Fleet); err != nil {
		return err
	}
	settings := b.file.Worker
	w.Slots, w.Drain = settings.Slots, f.drain
	w.LeaseTime, w.MaxAttempts, w.Retry = time.Duration(settings.Lease), settings.MaxAttempts, time.Duration(settings.Retry)
	if len(b.file.Tenants) > 0 {
		w.Queues = map[string]int{"": settings.Slots}
		for _, t := range b.file.Tenants {
			w.Queues[t.Name] = t.Slots
		}
	}
	log.Info("the worker starts", "agents", b.file.names(), "slots", settings.Slots, "store", cli.RedactURL(a.StorePath))
	context.AfterFunc(ctx, func() { log.Info("the worker drains; a second signal ends it at once", "drain", f.drain.String()) })
	err = w.Run(ctx)
	log.Info("the worker has ended")
	return err
}

// logger returns the logger that the flags name.
func (a *app) logger(f *workerFlags) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil || strings.ContainsAny(f.logLevel, "+-") {
		return nil, cli.Usage(fmt.Errorf("unknown --log-level %q; known are debug, info, warn and error", f.logLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	if f.logJSON {
		return slog.New(slog.NewJSONHandler(a.Stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(a.Stderr, options)), nil
}
