package cli

import (
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/internal/worlds"
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

func worldNames() (names []string) {
	for _, b := range worlds.All() {
		names = append(names, b.Name)
	}
	return names
}
