// Package worldtest tests that a [segno.World] keeps its contract: a restored world is
// indistinguishable from the original, nothing in it depends on the clock of the host, and a
// document that is damaged changes nothing. Call [Test] from a test of the world:
//
//	func TestWorld(t *testing.T) {
//		worldtest.Test(t, worldtest.Config{
//			New:    func(context.Context) (segno.World, error) { return grid.New(1), nil },
//			Action: rapid.SampledFrom(actions),
//			Say:    func(text string) json.RawMessage { … },
//		})
//	}
package worldtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
)

// Config describes the world to test.
type Config struct {
	// New returns a world that was just constructed, always the same one. The suite closes it
	// if it is an [io.Closer].
	New func(ctx context.Context) (segno.World, error)
	// Action draws an action. It may be malformed or against the rules.
	Action *rapid.Generator[json.RawMessage]
	// Say returns an action of saying text. Another agent observes the text after the
	// next tick at the latest.
	Say func(text string) json.RawMessage
	// Rounds is the number of random scripts for each check, for a world that is slow to
	// make; 0 is that of the flag -rapid.checks.
	Rounds int
	// External is set if the world is another process, which does not see the clock of a
	// [testing/synctest] bubble.
	External bool
}

// Names returns the names of the agents that the suite uses.
func Names() []string { return []string{"Ada", "Bo", "Cy"} }

// check tests one property of a world with a random script.
type check struct {
	name string
	run  func(r *run) error
}

// checks returns all checks but those of the clock, which need a [testing.T].
func checks() []check {
	return []check{
		{"Header", checkHeader}, {"Join", checkJoin}, {"Observe", checkObserve}, {"Refused", checkRefused}, {"Time", checkTime},
		{"Restore", checkRestore}, {"Chat", checkChat}, {"Damage", checkDamage}, {"LoadFresh", checkLoadFresh}, {"Concurrent", checkConcurrent},
	}
}

// Test runs all checks as subtests.
func Test(t *testing.T, c Config) {
	for _, check := range checks() {
		t.Run(check.name, func(t *testing.T) {
			ctx := t.Context()
			if c.Rounds > 0 {
				for seed := range c.Rounds {
					if err := c.check(ctx, check, c.script().Example(seed)); err != nil {
						t.Fatalf("script %d: %v", seed, err)
					}
				}
				return
			}
			rapid.Check(t, func(rt *rapid.T) {
				if err := c.check(ctx, check, c.script().Draw(rt, "script")); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
	t.Run("Clock", func(t *testing.T) {
		rounds := c.Rounds
		if rounds == 0 {
			rounds = 10
		}
		for seed := range rounds {
			if err := c.checkClock(t, c.script().Example(seed)); err != nil {
				t.Fatalf("script %d: %v", seed, err)
			}
		}
	})
}

// check runs one check with one script and closes its worlds.
func (c Config) check(ctx context.Context, check check, script []step) (err error) {
	r := &run{ctx: ctx, config: c, script: script}
	defer func() { err = errors.Join(err, r.close()) }()
	return check.run(r)
}

// run is one check with one script.
type run struct {
	ctx    context.Context
	config Config
	script []step
	worlds []segno.World
}

// world returns a world that was just constructed.
func (r *run) world() (segno.World, error) {
	w, err := r.config.New(r.ctx)
	if err == nil {
		r.worlds = append(r.worlds, w)
	}
	return w, err
}

// played returns a new world after a script.
func (r *run) played(script []step) (segno.World, []string, error) {
	w, err := r.world()
	if err != nil {
		return nil, nil, err
	}
	payloads, err := play(r.ctx, w, script)
	return w, payloads, err
}

// restored returns a new world with the state of another one, and the snapshot.
func (r *run) restored(w segno.World) (segno.World, segno.WorldSnapshot, error) {
	s, err := w.Snapshot(r.ctx)
	if err != nil {
		return nil, s, err
	}
	to, err := r.world()
	if err != nil {
		return nil, s, err
	}
	return to, s, to.Load(r.ctx, s.Document)
}

func (r *run) close() (err error) {
	for _, w := range r.worlds {
		if c, ok := w.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	r.worlds = nil
	return err
}
