package grid

import (
	"time"

	"github.com/dalsegno/segno/world"
)

// Player walks to the nearest coin in sight, or around the grid.
func Player() world.Player { return world.PlayerOf(choose) }

func choose(o Observation) Action {
	best, nearest := Point{}, 2*side
	for _, c := range o.Coins {
		if d := max(c.X-o.You.At.X, o.You.At.X-c.X) + max(c.Y-o.You.At.Y, o.You.At.Y-c.Y); d < nearest {
			best, nearest = c, d
		}
	}
	at := o.You.At
	switch {
	case nearest == 0:
		return Action{Do: "take"}
	case nearest == 2*side: // no coin is in sight
		return Action{Do: "move", Direction: o.wander()}
	case best.X != at.X:
		return Action{Do: "move", Direction: map[bool]string{true: "east", false: "west"}[best.X > at.X]}
	}
	return Action{Do: "move", Direction: map[bool]string{true: "south", false: "north"}[best.Y > at.Y]}
}

// wander returns a direction that changes over time, so that an agent walks around the grid.
func (o Observation) wander() string {
	turn := int(time.Duration(o.Time) / (side / 2 * tick))
	for i := range 4 {
		direction := [...]string{"east", "south", "west", "north"}[(turn+i)%4]
		if w := o.You; w.move(direction) == nil {
			return direction
		}
	}
	return "north"
}
