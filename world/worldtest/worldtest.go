// Package worldtest tests that a [segno.World] keeps its contract. Call [Test] from a test of the world:
//
//	func TestWorld(t *testing.T) {
//		worldtest.Test(t, worldtest.Config{
//			Config: worldcheck.Config{
//				New: func(context.Context) (segno.World, error) { return grid.New(1), nil },
//				Say: func(text string) json.RawMessage { … },
//			},
//			Action: rapid.SampledFrom(actions),
//		})
//	}
package worldtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno/world/worldcheck"
)

// Config describes the world to test.
type Config struct {
	worldcheck.Config
	// Action draws an action. It may be malformed or against the rules.
	Action *rapid.Generator[json.RawMessage]
	// Rounds is the number of random scripts for each check, for a world that is slow to
	// construct; 0 is the value of the flag -rapid.checks.
	Rounds int
}

// Test runs all checks as subtests. If the world runs within the test's process, Test also plays it in a
// [testing/synctest] bubble.
func Test(t *testing.T, c Config) {
	for _, check := range worldcheck.All() {
		t.Run(check.Name, func(t *testing.T) {
			ctx := t.Context()
			if c.Rounds > 0 {
				for seed := range c.Rounds {
					if err := check.Run(ctx, c.Config, c.script().Example(seed)); err != nil {
						t.Fatalf("script %d: %v", seed, err)
					}
				}
				return
			}
			rapid.Check(t, func(rt *rapid.T) {
				if err := check.Run(ctx, c.Config, c.script().Draw(rt, "script")); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
	if c.External {
		return
	}
	t.Run("Bubble", func(t *testing.T) {
		for seed := range 10 {
			if err := c.checkBubble(t, c.script().Example(seed)); err != nil {
				t.Fatalf("script %d: %v", seed, err)
			}
		}
	})
}

// script draws the steps of a script.
func (c Config) script() *rapid.Generator[[]worldcheck.Step] {
	verbs := []worldcheck.Verb{worldcheck.VerbAct, worldcheck.VerbAct, worldcheck.VerbAct, worldcheck.VerbAct,
		worldcheck.VerbObserve, worldcheck.VerbAdvance, worldcheck.VerbJoin}
	one := rapid.Custom(func(t *rapid.T) worldcheck.Step {
		s := worldcheck.Step{Verb: rapid.SampledFrom(verbs).Draw(t, "verb")}
		switch s.Verb {
		case worldcheck.VerbAdvance:
			s.Ticks = rapid.IntRange(1, 3).Draw(t, "ticks")
			return s
		case worldcheck.VerbAct:
			s.Action = c.Action.Draw(t, "action")
		}
		s.Agent = rapid.IntRange(0, len(worldcheck.Names())-1).Draw(t, "agent")
		return s
	})
	return rapid.Map(rapid.SliceOfN(one, 4, 40), func(steps []worldcheck.Step) []worldcheck.Step {
		return append(worldcheck.Opening(), steps...)
	})
}

// checkBubble compares the payloads inside and outside a bubble. Inside, the clock of the host begins
// in the year 2000 and stands still, so a payload that depends on the clock differs.
func (c Config) checkBubble(t *testing.T, script []worldcheck.Step) error {
	outside, err := worldcheck.Payloads(t.Context(), c.Config, script)
	if err != nil {
		return err
	}
	var inside []string
	synctest.Test(t, func(t *testing.T) {
		inside, err = worldcheck.Payloads(context.WithoutCancel(t.Context()), c.Config, script)
	})
	if err != nil {
		return err
	}
	if err := worldcheck.Compare(script, outside, inside); err != nil {
		return fmt.Errorf("a run in another year: %w", err)
	}
	return nil
}
