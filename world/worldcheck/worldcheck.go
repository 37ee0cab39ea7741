// Package worldcheck checks that a [segno.World] keeps its contract: a restored world is
// indistinguishable from the original, nothing in it depends on the clock of the host, and an attempt to
// load a damaged document changes nothing. Tests use it through package worldtest, and `segno world check`
// uses it for worlds in other languages.
package worldcheck

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/dalsegno/segno"
)

// Config describes the world to check.
type Config struct {
	// New returns a newly constructed world, always the same one. A check closes it if it
	// is an [io.Closer].
	New func(ctx context.Context) (segno.World, error)
	// Say returns an action that says text. Another agent observes the text after the
	// next tick at the latest.
	Say func(text string) json.RawMessage
	// External is set if each world is a process. The checks then start fewer worlds.
	External bool
}

// Check tests one property of a world.
type Check struct {
	Name string
	run  func(r *run) error
}

// All returns the checks.
func All() []Check {
	return []Check{
		{"Header", checkHeader}, {"Join", checkJoin}, {"Observe", checkObserve}, {"Refused", checkRefused}, {"Time", checkTime}, {"Restore", checkRestore},
		{"Chat", checkChat}, {"Text", checkText}, {"Damage", checkDamage}, {"LoadFresh", checkLoadFresh}, {"Concurrent", checkConcurrent},
		{"Snapshots", checkSnapshots}, {"Clock", checkClock},
	}
}

// Run runs the check with a script, which begins with [Opening]. The error describes the first defect.
func (c Check) Run(ctx context.Context, config Config, script []Step) (err error) {
	r := &run{ctx: ctx, config: config, script: script}
	defer func() { err = errors.Join(err, r.close()) }()
	return c.run(r)
}

// run is one check with one script.
type run struct {
	ctx    context.Context
	config Config
	script []Step
	worlds []segno.World
}

// world returns a newly constructed world.
func (r *run) world() (segno.World, error) {
	w, err := r.config.New(r.ctx)
	if err == nil {
		r.worlds = append(r.worlds, w)
	}
	return w, err
}

// played returns a new world on which a script was played, and the payloads.
func (r *run) played(script []Step) (segno.World, []string, error) {
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
