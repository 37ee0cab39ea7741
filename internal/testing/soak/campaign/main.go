// Command campaign runs the large suites whole, as the campaigns of the list in list.go. make soak starts it.
//
// A campaign is a list of tests. Each test runs in a separate process, and tests that package soak can divide run in
// several parts. The state of a campaign is written after each part, so an interrupted campaign continues with the
// missing parts. A part that fails keeps its output. docs/soak.md has the result of each campaign, and docs/soak the states.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the values of the command's flags.
type options struct {
	names  string
	budget time.Duration
	seed   uint64
	keep   bool
	retry  bool
	list   bool
}

func main() {
	var o options
	flag.StringVar(&o.names, "campaign", "", "the `names` of the campaigns to run, separated by commas; all without it")
	flag.DurationVar(&o.budget, "for", 0, "start no part after this time")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of campaigns that begin; 0 draws one")
	flag.BoolVar(&o.keep, "keep", false, "keep also the results of parts that tested other sources")
	flag.BoolVar(&o.retry, "retry", false, "run the parts that failed again; they stay findings")
	flag.BoolVar(&o.list, "list", false, "list the campaigns and run none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs the campaigns in their order, and returns the exit code: 1 if a campaign has findings, 130 if a signal stopped it.
func run(ctx context.Context, o options) (code int, err error) {
	chosen, err := choose(o.names)
	if err != nil {
		return 0, err
	}
	if o.list {
		for _, c := range chosen {
			fmt.Printf("%-12s %s\n", c.name, c.about)
		}
		return 0, nil
	}
	s, err := openSource(ctx)
	if err != nil {
		return 0, err
	}
	r := &runner{source: s, all: campaigns(), dir: filepath.Join(s.root, "build", "soak"), states: filepath.Join(s.root, filepath.FromSlash(stateDir)), options: o, out: os.Stdout}
	if o.budget > 0 {
		r.deadline = time.Now().Add(o.budget)
	}
	for _, c := range chosen {
		st, err := r.campaign(ctx, c)
		switch {
		case ctx.Err() != nil:
			return 130, nil
		case err != nil:
			return 0, fmt.Errorf("%s: %w", c.name, err)
		case st.found() > 0:
			code = 1
		}
	}
	return code, nil
}

// choose returns the campaigns of a comma-separated list of names, or all.
func choose(names string) ([]campaign, error) {
	all := campaigns()
	if names == "" {
		return all, nil
	}
	var chosen []campaign
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(c campaign) bool { return c.name == name })
		if i < 0 {
			known := ""
			for _, c := range all {
				known += " " + c.name
			}
			return nil, fmt.Errorf("unknown campaign %q; the campaigns are%s", name, known)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// newSeed returns the seed for a new campaign.
func (o options) newSeed() uint64 { return cmp.Or(o.seed, 1+rand.Uint64N(999_999_999)) }
