package httpworld_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/httpworld"
	"github.com/dalsegno/segno/world/worldtest"
)

const pond = "../../experiments/pond"

func TestWorldInPython(t *testing.T) {
	worldtest.Test(t, worldtest.Config{
		New: func(ctx context.Context) (segno.World, error) { return httpworld.Start(ctx, pond, httpworld.Options{}) },
		Action: rapid.OneOf(
			rapid.Map(rapid.IntRange(0, 12), func(n int) json.RawMessage { return fmt.Appendf(nil, `{"do":"fish","amount":%d}`, n) }),
			rapid.SampledFrom([]json.RawMessage{[]byte(`{"do":"say","text":"leave some"}`), []byte(`{"do":"swim"}`), []byte(`7`)}),
		),
		Say:    func(text string) json.RawMessage { return fmt.Appendf(nil, `{"do":"say","text":%q}`, text) },
		Rounds: 1, External: true,
	})
}
