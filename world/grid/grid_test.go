package grid_test

import (
	"context"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/grid"
	"github.com/dalsegno/segno/world/worldcheck"
	"github.com/dalsegno/segno/world/worldtest"
)

func encode(a grid.Action) json.RawMessage {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return data
}

func TestWorld(t *testing.T) {
	worldtest.Test(t, worldtest.Config{
		Config: worldcheck.Config{
			New: func(context.Context) (segno.World, error) { return grid.New(7), nil },
			Say: func(text string) json.RawMessage { return encode(grid.Action{Do: "say", Text: text}) },
		},
		Action: rapid.Custom(func(t *rapid.T) json.RawMessage {
			a := grid.Action{Do: rapid.SampledFrom([]string{"move", "move", "move", "take", "say", "fly"}).Draw(t, "do")}
			switch a.Do {
			case "move":
				a.Direction = rapid.SampledFrom([]string{"north", "east", "south", "west", "up"}).Draw(t, "direction")
			case "say":
				a.Text = rapid.String().Draw(t, "text")
			}
			return encode(a)
		}),
	})
}
