package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

func (a *app) pin() *cobra.Command {
	return &cobra.Command{
		Use: "pin CHECKPOINT [NAME]", Short: "name a checkpoint and keep it for ever",
		Example: `  segno pin t37 green-build`,
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error {
			name := "pinned"
			if len(args) == 2 {
				name = strings.TrimSpace(args[1])
			}
			if name == "" || turnName.MatchString(name) || strings.HasPrefix(name, "@") || strings.HasSuffix(name, "-") || name == "latest" {
				return usage(errors.New("a pin needs a name that means nothing else: not t1, latest, @… or …-"))
			}
			return a.runPin(c.Context(), args[0], name)
		},
	}
}

func (a *app) unpin() *cobra.Command {
	return &cobra.Command{
		Use: "unpin CHECKPOINT", Short: "take a pin off", Args: cobra.ExactArgs(1),
		Example: "  segno unpin green-build", ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error { return a.runPin(c.Context(), args[0], "") },
	}
}

func (a *app) runPin(ctx context.Context, which, name string) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	h, c, err := a.checkpointNamed(ctx, d, which)
	if err != nil {
		return err
	}
	if name == "" && h.pins[c.ID] == "" {
		return &segno.Error{Op: "unpin", Name: which, Kind: segno.KindNotFound, Err: errors.New("it has no pin")}
	}
	for id, pin := range h.pins {
		if other := h.byID[id]; pin == name && name != "" && other != nil && id != c.ID {
			return &segno.Error{Op: "pin", Name: name, Kind: segno.KindConflict, Err: errors.New(label(other) + " has that name"),
				Hint: "run 'segno unpin " + shellQuote(name) + "' first"}
		}
	}
	if err := d.mover().Pin(ctx, c.ID, label(c), name); err != nil {
		return err
	}
	return a.print(map[string]any{"checkpoint": c.ID, "pin": name}, func(w io.Writer) error {
		verb := "pinned " + label(c) + " as " + inline(name)
		if was := h.pins[c.ID]; was != "" && was != name && name != "" {
			verb += "; it is no longer called " + inline(was)
		}
		if name == "" {
			verb = "unpinned " + label(c)
		}
		_, err := fmt.Fprintln(w, verb)
		return err
	})
}
