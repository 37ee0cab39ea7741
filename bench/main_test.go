package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func named(names ...string) (all []section) {
	for _, n := range names {
		all = append(all, section{name: n})
	}
	return all
}

func TestChooseTakesSectionsInAndLeavesThemOut(t *testing.T) {
	all := named("go/first", "go/move", "step", "saver", "flood")
	for _, x := range []struct{ run, want string }{
		{"", "go/first go/move step saver flood"},
		{"step", "step"},
		{"step,flood", "step flood"},
		{"!saver,!flood", "go/first go/move step"},
		{"go/,!first", "go/move"},
		{"^s", "step saver"},
	} {
		chosen, err := choose(all, x.run)
		var got []string
		for _, s := range chosen {
			got = append(got, s.name)
		}
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("-run %q: %v, %v; want %s", x.run, got, err, x.want)
		}
	}
	for _, run := range []string{"(", "nosuch", "!."} {
		if _, err := choose(all, run); err == nil {
			t.Errorf("-run %q is accepted", run)
		}
	}
}

func TestFailedSectionKeepsTheResultsOfTheOthers(t *testing.T) {
	b := &bench{talk: io.Discard}
	add := func(what string, err error) func(context.Context, *bench) error {
		return func(_ context.Context, b *bench) error {
			b.add("", what, sample{time.Millisecond})
			return err
		}
	}
	broken := errors.New("no server")
	err := b.runAll(t.Context(), []section{{"one", add("before", nil)}, {"two", add("half", broken)}, {"three", add("after", nil)}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "two: no server") {
		t.Errorf("the run ended with %v", err)
	}
	var table bytes.Buffer
	if err := b.report.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before", "half", "after", "two failed: no server"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.runAll(ctx, []section{{"four", func(context.Context, *bench) error { t.Error("it ran"); return nil }}}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run ended with %v", err)
	}
}
