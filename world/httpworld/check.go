package httpworld

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/worldcheck"
)

// Check plays random scripts of the actions that the world.toml of a directory lists, and checks that the
// world keeps the contract of [segno.World]. It calls report after each check; the error is nil or describes
// a defect. Check itself returns an error if it cannot check the world.
func Check(ctx context.Context, dir string, seed uint64, report func(check string, defect error)) error {
	return checkNamed(ctx, dir, seed, "", report)
}

// checkNamed is Check for one check. If name is "", it runs all of them.
func checkNamed(ctx context.Context, dir string, seed uint64, name string, report func(check string, defect error)) error {
	c, err := ReadConfig(dir)
	if err != nil {
		return err
	}
	if len(c.Check.Actions) == 0 || c.Check.Say == "" || c.Runtime.Mode != modeStepped {
		return segno.Errorf(segno.KindInvalid, "check world", c.Name, "it needs check.actions and check.say, and the mode stepped").
			WithHint("see docs/worlds.md")
	}
	w, err := Start(ctx, dir, Options{}) // a world that does not start has one error and not many
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	start := func(ctx context.Context) (*World, error) { return Start(ctx, dir, Options{}) }
	config := worldcheck.Config{External: true,
		New: func(ctx context.Context) (segno.World, error) { return start(ctx) },
		Say: func(text string) json.RawMessage {
			quoted := strings.Trim(fmt.Sprintf("%q", text), `"`)
			return json.RawMessage(strings.ReplaceAll(c.Check.Say, "TEXT", quoted))
		}}
	r := rand.New(rand.NewPCG(seed, 0))
	for _, check := range worldcheck.All() {
		script := worldcheck.Random(r, func(r *rand.Rand) json.RawMessage {
			return json.RawMessage(c.Check.Actions[r.IntN(len(c.Check.Actions))])
		})
		if name != "" && name != check.Name {
			continue
		}
		defect := check.Run(ctx, config, script)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		report(check.Name, defect)
	}
	if name != "" && name != checkAPI {
		return nil
	}
	defect := runAPICheck(ctx, start, json.RawMessage(c.Check.Actions[0]))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	report(checkAPI, defect)
	return nil
}
