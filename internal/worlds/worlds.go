// Package worlds lists the built-in worlds, each with an agent that needs no model.
package worlds

import (
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
	"github.com/dalsegno/segno/world/company"
	"github.com/dalsegno/segno/world/grid"
)

// Builtin is a world of this program.
type Builtin struct {
	Name   string
	Short  string
	New    func(seed uint64) segno.World
	Player func() world.Player
	Story  func() world.Story
}

// All returns the worlds by name.
func All() []Builtin {
	return []Builtin{
		{"company", "branches of a company order goods, set prices, trade and talk",
			func(seed uint64) segno.World { return company.New(seed) }, company.Player, company.Story},
		{"grid", "agents walk on a grid and take coins",
			func(seed uint64) segno.World { return grid.New(seed) }, grid.Player, grid.Story},
	}
}

// Find returns the world with a name. If there is none, the error has [segno.KindNotFound].
func Find(name string) (Builtin, error) {
	all := All()
	i := slices.IndexFunc(all, func(b Builtin) bool { return b.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, b := range all {
			names[i] = b.Name
		}
		return Builtin{}, segno.Errorf(segno.KindNotFound, "find world", name, "unknown world").WithHint("use one of " + strings.Join(names, ", "))
	}
	return all[i], nil
}
