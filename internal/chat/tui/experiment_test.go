package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
)

// board is the view of an experiment without a terminal.
type board struct {
	*testing.T
	*experimentModel
	now     time.Time
	stopped bool
}

func newBoard(t *testing.T, ticks int, agents ...string) *board {
	b := &board{T: t, now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	e := &generation.Experiment{Name: "village", Generations: 3, Ticks: ticks}
	for _, name := range agents {
		e.Agents = append(e.Agents, generation.AgentSpec{Name: name})
	}
	b.experimentModel = newExperimentModel(ExperimentOptions{Experiment: e, Now: func() time.Time { return b.now },
		Describe: func(e generation.Event) string { return e.Text + e.Error }}, func() { b.stopped = true })
	b.next = func() tea.Msg { return nil }
	return b
}

// tell sends events, each a second after the previous one.
func (b *board) tell(events ...generation.Event) {
	for _, e := range events {
		e.Time = b.now
		b.Update(e)
		b.now = b.now.Add(time.Second)
	}
}

// rows returns the screen, and checks that it fits.
func (b *board) rows() []string {
	b.Helper()
	rows := strings.Split(b.View().Content, "\n")
	if len(rows) > b.height {
		b.Errorf("%d rows on a screen of %d", len(rows), b.height)
	}
	for _, row := range rows {
		if n := ansi.StringWidth(row); n > max(1, b.width) {
			b.Errorf("%d columns on a screen of %d: %q", n, b.width, row)
		}
	}
	return rows
}

// sees checks that the screen has texts in this order.
func (b *board) sees(texts ...string) {
	b.Helper()
	screen := strings.Join(b.rows(), "\n")
	rest, found := screen, false
	for _, text := range texts {
		if _, rest, found = strings.Cut(rest, text); !found {
			b.Errorf("%q is not to be seen in\n%s", text, screen)
			return
		}
	}
}

// run returns the events of the beginning of a run, with a turn of Ada in progress.
func run() []generation.Event {
	const day = segno.SimTime(24 * time.Hour)
	return []generation.Event{
		{Kind: generation.EventBegin, Generation: 2, Run: "village-g002", Next: 60},
		{Kind: generation.EventTurn, Agent: "Ada"}, {Kind: generation.EventTurn, Agent: "Bo"},
		{Kind: generation.EventTurnEnd, Agent: "Bo", Text: "sold 3 cups"}, {Kind: generation.EventTurnEnd, Agent: "Ada", Text: "pass"},
		{Kind: generation.EventStory, Text: "Bo sells 3 cups"},
		{Kind: generation.EventTick, Generation: 2, Tick: 4, SimTime: day, Next: 54},
		{Kind: generation.EventCheckpoint, Path: "/r/village-g002/checkpoints/gen002-t000004.ckpt", Text: "checkpoint"},
		{Kind: generation.EventTurn, Agent: "Ada"},
	}
}

func TestExperimentIsShown(t *testing.T) {
	b := newBoard(t, 12, "Ada", "Bo")
	b.sees(" village │ starting", "○ Ada  idle", "○ Bo   idle", "q stops with a checkpoint")
	b.tell(run()...)
	b.sees(" village │ running │ generation 2 of 3 │ tick 4 of 12 │ 24h0m0s in the world\n",
		" next checkpoint in 58s │ 1 made │ newest gen002-t000004.ckpt, 2s ago\n", " ● Ada  works 1s    pass\n", " ○ Bo   idle        sold 3 cups\n",
		"Bo sells 3 cups\ncheckpoint\n")
	b.now = b.now.Add(time.Hour)
	b.sees("next checkpoint after this tick", "works 1h0m1s")
	b.tell(generation.Event{Kind: generation.EventNoCheckpoint, Error: "the disk is full"}, generation.Event{Kind: generation.EventOmitted, Error: "a secret"},
		generation.Event{Kind: generation.EventFailed, Error: "the world ended"}, generation.Event{Kind: generation.EventFailed, Text: "its directory is kept"})
	b.sees("│ failed │", " failed checkpoints: 1 │ without a conversation: 1 │ failed generations: 1\n", "○ Ada  idle", "the disk is full", "the world ended", "kept")
	b.tell(generation.Event{Kind: generation.EventBegin, Generation: 2})
	b.sees("running", "no checkpoints", "○ Ada  idle")
	b.tell(generation.Event{Kind: generation.EventDone})
	b.sees("complete")
}

// TestExperimentWithoutTicks shows a world that advances its time without segno.
func TestExperimentWithoutTicks(t *testing.T) {
	b := newBoard(t, 0, "Ada")
	b.tell(generation.Event{Kind: generation.EventBegin, Generation: 1, Next: 2}, generation.Event{Kind: generation.EventTurn, Agent: "Ada"},
		generation.Event{Kind: generation.EventCheckpoint, Path: "/r/gen001-t000002.ckpt", SimTime: segno.SimTime(time.Minute)})
	b.sees(" village │ running │ generation 1 of 3 │ 1m0s in the world\n", "next checkpoint in 1s", "● Ada")
	b.now = b.now.Add(time.Minute)
	b.sees("next checkpoint now")
}

func TestExperimentStops(t *testing.T) {
	for _, key := range []tea.Key{{Code: 'q', Text: "q"}, ctrlC} {
		b := newBoard(t, 12, "Ada")
		b.tell(run()...)
		if _, cmd := b.Update(tea.KeyPressMsg(key)); cmd != nil || !b.experimentModel.stopping || !b.stopped {
			t.Fatal("the first key does not stop the run, or it leaves the view")
		}
		b.sees("│ stopping │", "q again leaves")
		_, cmd := b.Update(tea.KeyPressMsg(key))
		if cmd == nil || cmd() != tea.Quit() {
			t.Error("the second key does not leave the view")
		}
	}
}

// TestExperimentOnAnyTerminal draws on terminals of all small sizes, with hostile text.
func TestExperimentOnAnyTerminal(t *testing.T) {
	names := make([]string, 30)
	for i := range names {
		names[i] = fmt.Sprintf("Agent-%030d", i)
	}
	const evil = "a\x1b[2Jb\x1b]0;title\x07\u202ec\nd\x9b1me\xff日本語"
	b := newBoard(t, 0, names...)
	b.tell(run()...)
	b.tell(generation.Event{Kind: generation.EventTurnEnd, Agent: names[0], Text: evil},
		generation.Event{Kind: generation.EventStory, Text: strings.Repeat(evil, 100)},
		generation.Event{Kind: generation.EventNoCheckpoint, Error: evil}, generation.Event{Kind: generation.EventCheckpoint, Path: "/x/" + evil, Text: evil})
	for width := 1; width < 90; width++ {
		for _, height := range []int{1, 2, 3, 4, 5, 6, 8, 13, 24, 50} {
			b.Update(tea.WindowSizeMsg{Width: width, Height: height})
			for _, row := range b.rows() {
				if i := strings.IndexFunc(row, isUnsafe); i >= 0 {
					t.Fatalf("%q on a screen of %d by %d", row, width, height)
				}
			}
		}
	}
	b.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	b.sees("village", `newest a\x1b[2Jb`, `a\x1b[2Jb\x1b]0;title\x07\u202ec⏎d`, "… and 22 more", `\x1b`)
	plain := b.View().Content
	b.style = stylesOf(true)
	if painted := b.View().Content; painted == plain || ansi.Strip(painted) != plain {
		t.Errorf("in colour it is\n%q\nand without\n%q", painted, plain)
	}
}

// TestShowExperiment runs a view with a pipe as its terminal. It returns the error of the run.
func TestShowExperiment(t *testing.T) {
	wrong := errors.New("the world is flat")
	in, keys := io.Pipe()
	defer keys.Close()
	begun := make(chan struct{})
	go func() {
		<-begun
		_, _ = keys.Write([]byte("q")) // without it, the run would not end
	}()
	var out strings.Builder
	e := &generation.Experiment{Name: "village", Generations: 1, Agents: []generation.AgentSpec{{Name: "Ada"}}}
	err := ShowExperiment(t.Context(), ExperimentOptions{Experiment: e, In: in, Out: &out, Environ: []string{"TERM=xterm"}, Now: time.Now,
		Describe: func(e generation.Event) string { return e.Text },
		Run: func(ctx context.Context, report func(generation.Event)) error {
			report(generation.Event{Kind: generation.EventStory, Text: "it is round"})
			close(begun)
			<-ctx.Done()
			for range 1000 { // a slow or ended view must not block the run
				report(generation.Event{Kind: generation.EventStory, Text: "it goes on"})
			}
			return wrong
		}})
	if !errors.Is(err, wrong) {
		t.Errorf("the error is %v", err)
	}
	if text := out.String(); !strings.Contains(text, "\x1b[?1049h") || !strings.HasSuffix(text[:strings.LastIndex(text, "l")+1], "l") || !strings.Contains(text, "\x1b[?1049l") {
		t.Errorf("the output is %q", text)
	}
}
