package worldscmd

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/worlds"
	"github.com/dalsegno/segno/world/httpworld"
)

func (a *app) world() *cobra.Command {
	return cli.Noun("world", "worlds for agents and development databases", "", a.worldList(), a.worldDemo(), a.worldCheck(), a.worldServe(), a.worldAttach(), a.worldDetach())
}

func (a *app) worldList() *cobra.Command {
	return &cobra.Command{
		Use: "list [DIR]", Short: "the worlds that segno has, those in a directory, and attached databases", Args: cobra.MaximumNArgs(1),
		Long: `Lists the worlds that are part of segno, and with DIR also the worlds in its subdirectories, which
have a file world.toml. Databases that are attached to the workspace are listed, too. docs/worlds.md describes how to add a world in any language.`,
		Example: "  segno world list\n  segno world list experiments",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runWorldList(c.Context(), append(args, "")[0])
		},
	}
}

// worldItem is one element of world list --json.
type worldItem struct {
	Name   string  `json:"name"`
	Short  string  `json:"short"`
	Format string  `json:"format,omitempty"` // set for one of segno's own worlds
	Tick   float64 `json:"tick"`             // seconds; 0 if time moves continuously
	Dir    string  `json:"dir,omitempty"`
	Error  string  `json:"error,omitempty"` // the reason why its world.toml cannot be read
}

func (a *app) runWorldList(ctx context.Context, dir string) error {
	items := []worldItem{}
	for _, b := range worlds.All() {
		info := b.New(0).Info()
		items = append(items, worldItem{Name: b.Name, Short: b.Short, Format: info.Format, Tick: info.Tick.Seconds()})
	}
	if dir != "" {
		found, err := a.worldsBelow(dir)
		if err != nil {
			return err
		}
		items = append(items, found...)
	}
	attached, err := a.attachedHere(ctx)
	if err != nil {
		return err
	}
	for _, at := range attached {
		items = append(items, worldItem{Name: at.Name, Short: at.Describe(), Format: database.Format, Dir: filepath.Dir(at.Path)})
	}
	return a.Print(items, func(p *cli.Printer) {
		for _, w := range items {
			text := p.Dim(cli.Inline(w.Short))
			if w.Error != "" {
				text = p.Warn(cli.Clean(w.Error))
			}
			p.Linef("%s %s", cli.Pad(cli.Inline(w.Name), 10), text)
		}
	})
}

// worldsBelow returns the worlds in the subdirectories of a directory.
func (a *app) worldsBelow(dir string) (items []worldItem, err error) {
	wd, err := a.WorkDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(cli.Absolute(wd, dir))
	if err != nil {
		return nil, segno.NewError(segno.KindNotFound, "list worlds", dir, err).WithHint("name a directory that exists")
	}
	for _, e := range entries {
		path := filepath.Join(cli.Absolute(wd, dir), e.Name())
		c, err := httpworld.ReadConfig(path)
		if segno.KindOf(err) == segno.KindNotFound || !e.IsDir() {
			continue
		}
		item := worldItem{Name: c.Name, Short: c.Description, Tick: c.Runtime.Tick, Dir: path}
		if err != nil {
			item.Name, item.Error = e.Name(), err.Error()
		}
		items = append(items, item)
	}
	return items, nil
}

func worldNames() (names []string) {
	for _, b := range worlds.All() {
		names = append(names, b.Name)
	}
	return names
}

func (a *app) worldCheck() *cobra.Command {
	var seed uint64
	c := &cobra.Command{
		Use: "check DIR", Short: "check that a world keeps the contract", Args: cobra.ExactArgs(1),
		Long: `Starts the world in a directory many times and plays random scripts of the actions that its
world.toml lists. Each check tests one property, for example that a restored world goes on as
the original does. docs/worlds.md has the contract.`,
		Example: "  segno world check experiments/pond",
		RunE:    func(c *cobra.Command, args []string) error { return a.runWorldCheck(c.Context(), args[0], seed) },
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "the `SEED` of the random scripts")
	return c
}

// worldCheckItem is one element of world check --json.
type worldCheckItem struct {
	Check  string `json:"check"`
	Defect string `json:"defect"` // "" if the world passed
}

func (a *app) runWorldCheck(ctx context.Context, dir string, seed uint64) error {
	wd, err := a.WorkDir()
	if err != nil {
		return err
	}
	items, defects, p := []worldCheckItem{}, 0, a.Printer(a.Stdout)
	err = httpworld.Check(ctx, cli.Absolute(wd, dir), seed, func(check string, defect error) {
		item := worldCheckItem{Check: check}
		if defect != nil {
			item.Defect = defect.Error()
			defects++
		}
		items = append(items, item)
		if !a.JSON { // the checks take long, so each is printed at once
			writeWorldCheck(p, item)
		}
	})
	if err = cmp.Or(err, cli.WrapWriteError(p.Err)); err != nil {
		return err
	}
	if a.JSON {
		if err := a.Print(items, nil); err != nil {
			return err
		}
	}
	if defects > 0 {
		return segno.Errorf(segno.KindInvalid, "check world", dir, "%s failed", cli.Plural(defects, "check")).WithHint("see the contract in docs/worlds.md")
	}
	return nil
}

func writeWorldCheck(p *cli.Printer, item worldCheckItem) {
	if item.Defect == "" {
		p.Linef("%s %s", cli.Pad(item.Check, 10), p.Dim("ok"))
		return
	}
	p.Linef("%s %s", cli.Pad(item.Check, 10), p.Warn("failed"))
	p.Linef("  %s", cli.CleanLines(item.Defect))
}
