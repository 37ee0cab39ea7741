package worldscmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/chat/tui"
	"github.com/dalsegno/segno/internal/cli"
)

// eventWriter prints the events of an experiment, as lines of text or of JSON.
type eventWriter struct {
	*app
	turns bool  // also prints how turns ended; set for a world that has no story
	err   error // the first error of a write
}

func (w *eventWriter) write(e generation.Event) {
	switch {
	case w.err != nil:
	case w.JSON:
		w.err = cli.Encoder(w.Stdout).Encode(e)
	default:
		p := w.Printer(w.Stdout)
		text := generationEvent(p, e)
		if e.Kind == generation.EventTurnEnd && w.turns {
			text = fmt.Sprintf("  %s: %s", e.Agent, cli.Clean(e.Text))
		}
		if text != "" {
			p.Linef("%s", text)
		}
		w.err = p.Err
	}
}

// maxSummary is the number of events that are printed after the view closes.
const maxSummary = 20

// showGenerations runs an experiment on the whole terminal. After the view closes, it prints how the run ended and what
// failed.
func (a *app) showGenerations(ctx context.Context, c generation.Config) error {
	plain := &cli.Printer{}
	var summary []generation.Event
	run := func(ctx context.Context, report func(generation.Event)) error {
		c.Report = func(e generation.Event) {
			if isOutcome(e) {
				summary = append(summary, e)
				summary = summary[max(0, len(summary)-maxSummary):]
			}
			report(e)
		}
		return generation.New(c).Run(ctx)
	}
	a.Bar.Stop()
	err := tui.ShowExperiment(ctx, tui.ExperimentOptions{Experiment: c.Experiment, Run: run, Describe: func(e generation.Event) string { return generationEvent(plain, e) },
		In: a.Stdin, Out: a.Stdout, Environ: a.Environ(), Colour: a.Paint(a.Stdout).On, Now: c.Now})
	w := &eventWriter{app: a}
	for _, e := range summary {
		w.write(e)
	}
	return cmp.Or(err, cli.WrapWriteError(w.err))
}

// isOutcome reports whether an event is worth reading after the run.
func isOutcome(e generation.Event) bool {
	return e.Error != "" || e.Kind == generation.EventEnd || e.Kind == generation.EventStopped || e.Kind == generation.EventDone
}

// generationEvent describes an event in one line.
func generationEvent(p *cli.Printer, e generation.Event) string {
	at := fmt.Sprintf("generation %d, tick %d", e.Generation, e.Tick)
	if e.Tick == 0 && e.Kind != generation.EventBegin { // a realtime world has no ticks
		at = fmt.Sprintf("generation %d", e.Generation)
	}
	switch e.Kind {
	case generation.EventBegin:
		return fmt.Sprintf("%s: begins with %s", at, cmp.Or(cli.Clean(e.Path), "empty workspaces"))
	case generation.EventTick:
		text := fmt.Sprintf("%s: %s in the world", at, time.Duration(e.SimTime))
		if e.Next > 0 {
			text += fmt.Sprintf(", next checkpoint in %s", time.Duration(e.Next*float64(time.Second)).Round(time.Second))
		}
		return p.Dim(text)
	case generation.EventTurn, generation.EventTurnEnd:
		return "" // the view of the agents shows these events
	case generation.EventStory:
		return "  " + cli.Clean(e.Text)
	case generation.EventCheckpoint:
		return fmt.Sprintf("%s: checkpoint %s", at, cli.Clean(e.Path))
	case generation.EventEnd:
		return at + ": complete"
	case generation.EventStopped:
		return fmt.Sprintf("generation %d: stopped", e.Generation)
	case generation.EventDone:
		return "all generations are complete"
	case generation.EventFailed:
		if e.Path != "" {
			return fmt.Sprintf("generation %d: %s in %s", e.Generation, cli.Clean(e.Text), cli.Clean(e.Path))
		}
		return p.Warn(fmt.Sprintf("generation %d: failed: %s", e.Generation, cli.Clean(e.Error)))
	}
	if warning := generationWarning(at, e); warning != "" {
		return p.Warn(warning)
	}
	return cli.Clean(e.Text)
}

// generationWarning describes a problem that does not end the generation, or returns "" for another event.
func generationWarning(at string, e generation.Event) string {
	switch e.Kind {
	case generation.EventOmitted:
		return fmt.Sprintf("%s: %s: the checkpoint goes without %s", at, cli.Clean(e.Error), cli.Clean(e.Text))
	case generation.EventFileOmitted:
		return fmt.Sprintf("%s: %s: checkpoints go without %s from now on; the store has it", at, cli.Clean(e.Error), cli.Clean(e.Text))
	case generation.EventNoCheckpoint:
		return fmt.Sprintf("%s: no checkpoint: %s", at, cli.Clean(e.Error))
	case generation.EventNoStory:
		return fmt.Sprintf("%s: the story is not kept in %s any more: %s", at, cli.Clean(e.Path), cli.Clean(e.Error))
	case generation.EventNoOutcomes:
		return fmt.Sprintf("%s: the outcomes of the world are not known: %s", at, cli.Clean(e.Error))
	case generation.EventBadCheckpoint:
		return fmt.Sprintf("%s is not used: %s", cli.Clean(e.Path), cli.Clean(e.Error))
	case generation.EventIncomplete:
		return fmt.Sprintf("generation %d: %s has only the files of its archive: %s", e.Generation, e.Agent, cli.Clean(e.Error))
	}
	return ""
}
