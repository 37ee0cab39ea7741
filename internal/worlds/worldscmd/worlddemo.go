package worldscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/worlds"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/world"
)

type worldDemo struct {
	*app
	agents, ticks int
	seed          uint64
	pace          time.Duration
	every         int    // ticks between checkpoints, or 0
	resume        string // a checkpoint, or ""

	world   segno.World
	player  world.Player
	story   world.Story
	names   []string
	store   *local.Store   // nil without checkpoints
	thread  segno.ThreadID // the thread of the checkpoints, "" before the first one
	printed error          // the first error of a write
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
		RunE: func(c *cobra.Command, args []string) error {
			if d.resume != "" && (c.Flags().Changed("seed") || c.Flags().Changed("agents")) {
				return cli.Usage(errors.New("--resume takes the agents and the seed from the checkpoint"))
			}
			return d.run(c.Context(), args[0])
		},
	}
	f := c.Flags()
	f.IntVar(&d.agents, "agents", 3, "how many agents play, 1 to 8: `N`")
	f.IntVar(&d.ticks, "ticks", 40, "how long it lasts: `N` ticks")
	f.Uint64Var(&d.seed, "seed", 1, "the `SEED` of everything random")
	f.DurationVar(&d.pace, "pace", 0, "wait this `DURATION` after each tick")
	f.IntVar(&d.every, "checkpoint-every", 0, "make a checkpoint after every `N` ticks and at the end; 0 makes none")
	f.StringVar(&d.resume, "resume", "", "go on from a `CHECKPOINT` of a world, named by its id, with its agents and seed")
	return c
}

// worldEvent is one line of world demo --json.
type worldEvent struct {
	Time   segno.SimTime   `json:"time"` // in the world, in seconds
	Kind   string          `json:"kind"` // action, story, checkpoint, end
	Agent  string          `json:"agent,omitempty"`
	Action json.RawMessage `json:"action,omitempty"`
	Error  string          `json:"error,omitempty"` // why the action was refused
	Text   string          `json:"text,omitempty"`
	Hash   segno.Hash      `json:"hash,omitzero"` // of the document

	Checkpoint segno.CommitID `json:"checkpoint,omitempty"`
	Thread     segno.ThreadID `json:"thread,omitempty"`
}

func (d *worldDemo) run(ctx context.Context, name string) error {
	b, err := worlds.Find(name)
	if err != nil {
		return err
	}
	if d.agents < 1 || d.agents > len(demoNames) || d.ticks < 1 || d.pace < 0 || d.every < 0 {
		return cli.Usage(fmt.Errorf("world demo needs 1 to %d agents, at least one tick, and no negative number", len(demoNames)))
	}
	d.world, d.player, d.story, d.names = b.New(d.seed), b.Player(), b.Story(), demoNames[:d.agents]
	if d.every > 0 || d.resume != "" {
		if d.store, err = d.OpenOrMakeStore(ctx); err != nil {
			return err
		}
		defer d.store.Close()
	}
	if err := d.begin(ctx); err != nil {
		return err
	}
	if err := d.play(ctx); err != nil {
		return err
	}
	s, err := d.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	d.print(worldEvent{Time: s.Time, Kind: "end", Hash: segno.HashOf(s.Document)}, "")
	return cli.WrapWriteError(d.printed)
}

func (d *worldDemo) play(ctx context.Context) error {
	for n := 1; n <= d.ticks; n++ {
		if err := d.tick(ctx); err != nil {
			return err
		}
		if d.every > 0 && (n%d.every == 0 || n == d.ticks) {
			if err := d.checkpoint(ctx); err != nil {
				return err
			}
		}
		if err := wait(ctx, d.pace); err != nil {
			return err
		}
	}
	return nil
}

// begin lets the agents join the world, or loads the checkpoint.
func (d *worldDemo) begin(ctx context.Context) error {
	if d.resume == "" {
		for _, agent := range d.names {
			if err := d.world.Join(ctx, agent, agent); err != nil {
				return err
			}
		}
		return d.tell(ctx)
	}
	line, err := d.store.Load(ctx, segno.CommitID(d.resume), segno.Window{Last: 1})
	if segno.KindOf(err) == segno.KindNotFound {
		return segno.NewError(segno.KindNotFound, "find checkpoint", d.resume, nil).WithHint("give the whole id, as 'segno world demo --checkpoint-every' prints it")
	}
	if err != nil {
		return err
	}
	d.thread = line.Commits[0].Thread
	if err := d.store.SessionTimeline().LoadWorld(ctx, segno.CommitID(d.resume), d.world); err != nil {
		return err
	}
	d.names = nil
	for _, agent := range demoNames { // the agents in the checkpoint
		if _, err := d.world.Observe(ctx, agent); err == nil {
			d.names = append(d.names, agent)
		}
	}
	s, err := d.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	_, err = d.story(s.Document) // skips the lines from before the checkpoint
	return err
}

func (d *worldDemo) tick(ctx context.Context) error {
	before, err := d.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	err = world.Play(ctx, d.world, d.names, d.player, func(name string, action json.RawMessage, err error) {
		e := worldEvent{Time: before.Time, Kind: "action", Agent: name, Action: action}
		if err != nil {
			e.Error = err.Error()
		}
		d.print(e, "")
	})
	if err != nil {
		return err
	}
	return d.tell(ctx)
}

// checkpoint saves the world to its thread.
func (d *worldDemo) checkpoint(ctx context.Context) error {
	title := "world " + d.world.Info().Name
	cp, err := d.store.SessionTimeline().SaveWorld(ctx, timeline.WorldSave{Thread: d.thread, Title: title, World: d.world, Label: title})
	if err != nil {
		return err
	}
	d.thread = cp.Thread
	s, err := d.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	d.print(worldEvent{Time: s.Time, Kind: "checkpoint", Checkpoint: cp.ID, Thread: cp.Thread}, "checkpoint "+string(cp.ID))
	return nil
}

// tell prints what happened since the last call.
func (d *worldDemo) tell(ctx context.Context) error {
	s, err := d.world.Snapshot(ctx)
	if err != nil {
		return err
	}
	lines, err := d.story(s.Document)
	if err != nil {
		return err
	}
	for _, line := range lines {
		d.print(worldEvent{Time: s.Time, Kind: "story", Text: line}, line)
	}
	return cli.WrapWriteError(d.printed)
}

// print prints an event: one JSON object, or a text unless it is empty. It keeps the first error.
func (d *worldDemo) print(e worldEvent, text string) {
	switch {
	case d.printed != nil:
	case d.JSON:
		d.printed = cli.Encoder(d.Stdout).Encode(e)
	case text != "":
		p := d.Printer(d.Stdout)
		p.Linef("%s", cli.Clean(text))
		d.printed = p.Err
	}
}

// wait returns after d, or earlier if ctx ends.
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
