package grid

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dalsegno/segno/world"
)

// Story returns the grid as a map: the first letters of agents, "*" for coins.
func Story() world.Story {
	return world.StoryOf(func(h world.Header, s *State) []string {
		cells := [side][side]rune{}
		for y := range cells {
			for x := range cells[y] {
				cells[y][x] = '.'
			}
		}
		for _, c := range s.Coins {
			cells[c.Y][c.X] = '*'
		}
		var counts []string
		for _, name := range slices.Sorted(maps.Keys(s.Agents)) {
			w := s.Agents[name]
			cells[w.At.Y][w.At.X] = []rune(name)[0]
			counts = append(counts, fmt.Sprintf("%s %d", name, w.Coins))
		}
		lines := []string{fmt.Sprintf("second %s: %s", h.Time, strings.Join(counts, ", "))}
		for _, row := range cells {
			lines = append(lines, "  "+string(row[:]))
		}
		return lines
	})
}
