package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/worlds"
	"github.com/dalsegno/segno/world"
)

func (a *app) world() *cobra.Command {
	c := &cobra.Command{
		Use: "world", Short: "simulated worlds for agents: list them, play one", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.worldList(), a.worldDemo())
	return c
}

func (a *app) worldList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "the worlds that segno has", Args: cobra.NoArgs,
		Long: `Lists the worlds that are part of segno. docs/worlds.md describes how to add a world in any
language.`,
		Example: "  segno world list",
		RunE:    func(*cobra.Command, []string) error { return a.runWorldList() },
	}
}

// worldItem is one element of world list --json.
type worldItem struct {
	Name   string  `json:"name"`
	Short  string  `json:"short"`
	Format string  `json:"format"`
	Tick   float64 `json:"tick"` // seconds
}

func (a *app) runWorldList() error {
	items := []worldItem{}
	for _, b := range worlds.All() {
		info := b.New(0).Info()
		items = append(items, worldItem{Name: b.Name, Short: b.Short, Format: info.Format, Tick: info.Tick.Seconds()})
	}
	return a.print(items, func(p *printer) {
		for _, w := range items {
			p.linef("%s %s", pad(w.Name, 10), p.dim(w.Short))
		}
	})
}

// worldDemo is one run of world demo.
type worldDemo struct {
	*app
	agents, ticks int
	seed          uint64
	pace          time.Duration
}

// demoNames are the agents of a demo, in order.
var demoNames = [...]string{"Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal"}

func (a *app) worldDemo() *cobra.Command {
	d := &worldDemo{app: a}
	c := &cobra.Command{
		Use: "demo WORLD", Short: "play a world in the terminal", Args: cobra.ExactArgs(1),
		Long: `Plays a world with agents that need no model and no key, and prints everything that happens.
The same seed plays the same course. With --json each line of the result is one JSON object: an action, a
line of the story, or at the end the name of the document of the world.`,
		Example: "  segno world demo company\n  segno world demo company --ticks 40 --seed 7 --agents 4\n  segno world demo grid --pace 200ms",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return worldNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return d.run(c.Context(), args[0]) },
	}
	f := c.Flags()
	f.IntVar(&d.agents, "agents", 3, "how many agents play, 1 to 8: `N`")
	f.IntVar(&d.ticks, "ticks", 40, "how long it lasts: `N` ticks")
	f.Uint64Var(&d.seed, "seed", 1, "the `SEED` of everything random")
	f.DurationVar(&d.pace, "pace", 0, "wait this `DURATION` after each tick")
	return c
}

func worldNames() (names []string) {
	for _, b := range worlds.All() {
		names = append(names, b.Name)
	}
	return names
}

// worldEvent is one line of world demo --json.
type worldEvent struct {
	Time   segno.SimTime   `json:"time"` // in the world, in seconds
	Kind   string          `json:"kind"` // action, story, end
	Agent  string          `json:"agent,omitempty"`
	Action json.RawMessage `json:"action,omitempty"`
	Error  string          `json:"error,omitempty"` // why the action was refused
	Text   string          `json:"text,omitempty"`
	Hash   segno.Hash      `json:"hash,omitzero"` // of the document
}

func (d *worldDemo) run(ctx context.Context, name string) error {
	b, err := worlds.Find(name)
	if err != nil {
		return err
	}
	if d.agents < 1 || d.agents > len(demoNames) || d.ticks < 1 || d.pace < 0 {
		return usage(segno.Errorf(segno.KindInvalid, "", "", "world demo needs 1 to %d agents, at least one tick and no negative pace", len(demoNames)))
	}
	w, names, story := b.New(d.seed), demoNames[:d.agents], b.Story()
	for _, agent := range names {
		if err := w.Join(ctx, agent, agent); err != nil {
			return err
		}
	}
	if err := d.tell(ctx, w, story); err != nil {
		return err
	}
	for range d.ticks {
		if err := d.tick(ctx, w, names, b.Player()); err != nil {
			return err
		}
		if err := d.tell(ctx, w, story); err != nil {
			return err
		}
		if err := wait(ctx, d.pace); err != nil {
			return err
		}
	}
	s, err := w.Snapshot(ctx)
	if err != nil {
		return err
	}
	return d.print(worldEvent{Time: s.Time, Kind: "end", Hash: segno.HashOf(s.Document)}, "")
}

// tick plays one tick. With --json it prints the actions.
func (d *worldDemo) tick(ctx context.Context, w segno.World, names []string, player world.Player) error {
	before, err := w.Snapshot(ctx)
	if err != nil {
		return err
	}
	var printErr error
	err = world.Play(ctx, w, names, player, func(name string, action json.RawMessage, err error) {
		e := worldEvent{Time: before.Time, Kind: "action", Agent: name, Action: action}
		if err != nil {
			e.Error = err.Error()
		}
		if printErr == nil {
			printErr = d.print(e, "")
		}
	})
	if err != nil {
		return err
	}
	return printErr
}

// tell prints what happened since the last call.
func (d *worldDemo) tell(ctx context.Context, w segno.World, story world.Story) error {
	s, err := w.Snapshot(ctx)
	if err != nil {
		return err
	}
	lines, err := story(s.Document)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if err := d.print(worldEvent{Time: s.Time, Kind: "story", Text: line}, line); err != nil {
			return err
		}
	}
	return nil
}

// print prints an event: one JSON object, or a text unless it is empty.
func (d *worldDemo) print(e worldEvent, text string) error {
	if d.json {
		return wrapWriteError(encoder(d.Stdout).Encode(e))
	}
	if text == "" {
		return nil
	}
	p := d.printer(d.Stdout)
	p.linef("%s", clean(text))
	return wrapWriteError(p.err)
}

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}
