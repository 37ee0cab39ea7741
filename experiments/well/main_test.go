package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/worldcheck"
	"github.com/dalsegno/segno/world/worldtest"
)

func TestWorld(t *testing.T) {
	worldtest.Test(t, worldtest.Config{
		Config: worldcheck.Config{
			New: func(context.Context) (segno.World, error) { return newWell(7), nil },
			Say: func(text string) json.RawMessage { return fmt.Appendf(nil, `{"do":"say","text":%q}`, text) },
		},
		Action: rapid.Custom(func(t *rapid.T) json.RawMessage {
			return fmt.Appendf(nil, `{"do":"draw","buckets":%d}`, rapid.IntRange(-1, 9).Draw(t, "buckets"))
		}),
	})
}
