// Command bench measures segno, its peers and the limits of the machine in one run, and
// prints ratios. README.md explains how to read them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if play, ok := role(os.Args[1:]); ok {
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run: its directory, its number of repetitions and its results.
type bench struct {
	dir    string // for temporary files, empty at first
	rounds int
	talk   io.Writer
	report report
}

// section is a part of the run. The user can select it by its name.
type section struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

func run(ctx context.Context, args []string, out, talk io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(talk)
	tree := flags.String("tree", "go", "measure on `TREE`: go (a copy of GOROOT), 100k (synthetic files) or all")
	rounds := flags.Int("n", 5, "take the median of `N` rounds")
	gigabytes := flags.Int("gigabytes", 1, "make a store of `N` GiB for the section care")
	megabytes := flags.Int("megabytes", 100, "copy a workspace of `N` MiB in the section transfer")
	sleepers := flags.Int("sleepers", 1000, "let `N` threads sleep in the section fleet")
	asJSON := flags.Bool("json", false, "print JSON instead of a table")
	dir := flags.String("dir", os.TempDir(), "make trees and stores below `DIR`")
	only := flags.String("run", "", "run only the sections that match one of `REGEXPS`, separated by commas; !REGEXP leaves sections out; see README.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	parts, err := sections(*tree, sizes{gigabytes: *gigabytes, megabytes: max(*megabytes, 1), sleepers: max(*sleepers, 1)})
	if err != nil {
		return err
	}
	if parts, err = choose(parts, *only); err != nil {
		return err
	}
	b := &bench{rounds: max(*rounds, 1), talk: talk}
	if b.dir, err = os.MkdirTemp(*dir, "segno-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.report.Machine, err = thisMachine(b.dir); err != nil {
		return err
	}
	err = b.runAll(ctx, parts)
	if *asJSON {
		return errors.Join(err, b.report.writeJSON(out))
	}
	return errors.Join(err, b.report.writeTable(out))
}

// choose returns the sections that match one of some patterns, or all sections if there are
// only patterns after a "!". It omits the sections that match a pattern after a "!".
func choose(all []section, patterns string) (chosen []section, err error) {
	var in, out []*regexp.Regexp
	for _, p := range strings.Split(patterns, ",") {
		p, leave := strings.CutPrefix(p, "!")
		re, err := regexp.Compile(p)
		switch {
		case err != nil:
			return nil, fmt.Errorf("-run %s: %w", p, err)
		case p == "":
		case leave:
			out = append(out, re)
		default:
			in = append(in, re)
		}
	}
	var names []string
	for _, s := range all {
		matches := func(re *regexp.Regexp) bool { return re.MatchString(s.name) }
		names = append(names, s.name)
		if (len(in) == 0 || slices.ContainsFunc(in, matches)) && !slices.ContainsFunc(out, matches) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-run %s: no section of these: %s", patterns, strings.Join(names, " "))
	}
	return chosen, nil
}

// runAll runs sections. A failed section does not end the run: the report names it, and has
// the results of the others and its own results before the failure.
func (b *bench) runAll(ctx context.Context, parts []section) (err error) {
	for _, s := range parts {
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		fmt.Fprintf(b.talk, "%s …\n", s.name)
		if failed := s.run(ctx, b); failed != nil {
			fmt.Fprintf(b.talk, "%s failed: %v\n", s.name, failed)
			b.report.Failed = append(b.report.Failed, failure{s.name, failed.Error()})
			err = errors.Join(err, fmt.Errorf("%s: %w", s.name, failed))
		}
	}
	return err
}

// sizes are the sizes of sections that the user can choose.
type sizes struct{ gigabytes, megabytes, sleepers int }

// sections returns the sections of a run on the chosen trees. The first section that needs a tree makes it.
func sections(which string, of sizes) ([]section, error) {
	var trees []*tree
	if which == "go" || which == "all" {
		trees = append(trees, &tree{Name: "go", fill: copyGoroot})
	}
	if which == "100k" || which == "all" {
		trees = append(trees, &tree{Name: "100k", fill: fillSynthetic})
	}
	if trees == nil {
		return nil, fmt.Errorf("-tree %s: it is go, 100k or all", which)
	}
	var all []section
	for _, t := range trees {
		on := func(f func(context.Context, *bench, *tree) error) func(context.Context, *bench) error {
			return func(ctx context.Context, b *bench) error {
				if err := b.make(t); err != nil {
					return fmt.Errorf("make tree: %w", err)
				}
				return f(ctx, b, t)
			}
		}
		all = append(all,
			section{t.Name + "/snapshot", on(snapshots)},
			section{t.Name + "/watch", on(watched)},
			section{t.Name + "/first", on(firstSnapshots)},
			section{t.Name + "/move", on(moves)},
			section{t.Name + "/bisect", on(bisects)},
			section{t.Name + "/turn", on(turns)},
			section{t.Name + "/prompt", on(prompts)},
			section{t.Name + "/fork", on(forks)},
			section{t.Name + "/materialise", on(materialises)})
	}
	return append(all, section{"step", steps}, section{"saver", savers}, section{"hook", hooks}, section{"cut", cuts},
		section{"discover", discoveries}, section{"search", searches}, section{"keep", keeps}, section{"web", webs},
		section{"message", messages}, section{"flood", floods}, section{"archive", archives}, section{"scanner", scanners},
		section{"generation", generations}, section{"blame", blames}, section{"care", care(max(of.gigabytes, 1))}, section{"fleet", fleets(of.sleepers)}, section{"transfer", transfers(of.megabytes)}), nil
}

// scratch returns a new directory below the run's own.
func (b *bench) scratch(name string) (string, error) {
	return os.MkdirTemp(b.dir, name+"-")
}

func (b *bench) make(t *tree) error {
	if t.Root != "" {
		return nil
	}
	t.Root = filepath.Join(b.dir, "tree-"+t.Name)
	if err := t.fill(t.Root); err != nil {
		return err
	}
	if err := t.count(); err != nil {
		return err
	}
	b.report.Trees = append(b.report.Trees, t)
	return nil
}
