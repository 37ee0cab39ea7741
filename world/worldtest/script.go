package worldtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
)

// step is one call of a method of a world.
type step struct {
	Verb   verb
	Agent  int // index in Names
	Action json.RawMessage
	Ticks  int
}

// verb is the method of a step.
type verb string

const (
	verbJoin    verb = "join"
	verbAct     verb = "act"
	verbObserve verb = "observe"
	verbAdvance verb = "advance"
)

func (s step) String() string {
	if s.Verb == verbAdvance {
		return fmt.Sprintf("advance %d ticks", s.Ticks)
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", Names()[s.Agent], s.Verb, s.Action))
}

// session is the session of an agent.
func session(agent int) string { return "session of " + Names()[agent] }

// script draws the steps of a run. Two agents join first, and the third perhaps later.
func (c Config) script() *rapid.Generator[[]step] {
	one := rapid.Custom(func(t *rapid.T) step {
		s := step{Verb: rapid.SampledFrom([]verb{verbAct, verbAct, verbAct, verbAct, verbObserve, verbAdvance, verbJoin}).Draw(t, "verb")}
		switch s.Verb {
		case verbAdvance:
			s.Ticks = rapid.IntRange(1, 3).Draw(t, "ticks")
			return s
		case verbAct:
			s.Action = c.Action.Draw(t, "action")
		}
		s.Agent = rapid.IntRange(0, 2).Draw(t, "agent")
		return s
	})
	return rapid.Map(rapid.SliceOfN(one, 4, 40), func(steps []step) []step {
		return append([]step{{Verb: verbJoin, Agent: 0}, {Verb: verbJoin, Agent: 1}}, steps...)
	})
}

// play makes the calls of a script and returns what an agent can see of each: the payload, or
// the error's kind. The error is one that a world must not return.
func play(ctx context.Context, w segno.World, script []step) (payloads []string, err error) {
	for _, s := range script {
		payload, err := s.play(ctx, w)
		if err != nil {
			return payloads, err
		}
		payloads = append(payloads, payload)
	}
	return payloads, nil
}

func (s step) play(ctx context.Context, w segno.World) (string, error) {
	var payload segno.Observation
	var err error
	switch s.Verb {
	case verbJoin:
		err = w.Join(ctx, session(s.Agent), Names()[s.Agent])
	case verbAct:
		payload, err = w.Act(ctx, session(s.Agent), s.Action)
	case verbObserve:
		payload, err = w.Observe(ctx, session(s.Agent))
	case verbAdvance:
		err = w.Advance(ctx, time.Duration(s.Ticks)*tickOf(w))
	}
	switch kind := segno.KindOf(err); {
	case err == nil && len(payload) > 0 && !json.Valid(payload):
		return "", fmt.Errorf("%s: the observation is not JSON: %q", s, payload)
	case err == nil:
		return string(payload), nil
	case kind == segno.KindInvalid || kind == segno.KindRefused || kind == segno.KindNotFound || kind == segno.KindConflict:
		return "error: " + err.Error(), nil
	}
	return "", fmt.Errorf("%s: %w", s, err)
}

// tickOf is the shortest time that a world can advance.
func tickOf(w segno.World) time.Duration {
	if tick := w.Info().Tick; tick > 0 {
		return tick
	}
	return time.Second
}

// comparePayloads reports the first step with another payload.
func comparePayloads(script []step, want, got []string) error {
	for i, s := range script {
		if want[i] != got[i] {
			return fmt.Errorf("step %d (%s): the payloads differ:\n%s\n%s", i+1, s, want[i], got[i])
		}
	}
	return nil
}
