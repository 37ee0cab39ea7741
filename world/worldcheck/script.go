package worldcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Step is one call of a method of a world.
type Step struct {
	Verb   Verb
	Agent  int // index in Names
	Action json.RawMessage
	Ticks  int
}

// Verb is the method of a [Step].
type Verb string

// The verbs.
const (
	VerbJoin    Verb = "join"
	VerbAct     Verb = "act"
	VerbObserve Verb = "observe"
	VerbAdvance Verb = "advance"
)

func (s Step) String() string {
	if s.Verb == VerbAdvance {
		return fmt.Sprintf("advance %d ticks", s.Ticks)
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", Names()[s.Agent], s.Verb, s.Action))
}

// Names returns the names of the agents in scripts.
func Names() []string { return []string{"Ada", "Bo", "Cy"} }

func session(agent int) string { return "session of " + Names()[agent] }

// Opening returns the steps that begin each script: two agents join. The third one may join later.
func Opening() []Step { return []Step{{Verb: VerbJoin, Agent: 0}, {Verb: VerbJoin, Agent: 1}} }

// Random returns a script of random steps.
func Random(r *rand.Rand, action func(r *rand.Rand) json.RawMessage) []Step {
	script := Opening()
	for range 4 + r.IntN(30) {
		s := Step{Agent: r.IntN(len(Names()))}
		switch n := r.IntN(7); n {
		case 0:
			s = Step{Verb: VerbAdvance, Ticks: 1 + r.IntN(3)}
		case 1:
			s.Verb = VerbObserve
		case 2:
			s.Verb = VerbJoin
		default:
			s.Verb, s.Action = VerbAct, action(r)
		}
		script = append(script, s)
	}
	return script
}

// play makes the calls of a script. For each it returns what an agent can see: the payload, or
// the kind of the error. It returns an error that a world must not return.
func play(ctx context.Context, w segno.World, script []Step) (payloads []string, err error) {
	for _, s := range script {
		payload, err := s.play(ctx, w)
		if err != nil {
			return payloads, err
		}
		payloads = append(payloads, payload)
	}
	return payloads, nil
}

func (s Step) play(ctx context.Context, w segno.World) (string, error) {
	var payload segno.Observation
	var err error
	switch s.Verb {
	case VerbJoin:
		err = w.Join(ctx, session(s.Agent), Names()[s.Agent])
	case VerbAct:
		payload, err = w.Act(ctx, session(s.Agent), s.Action)
	case VerbObserve:
		payload, err = w.Observe(ctx, session(s.Agent))
	case VerbAdvance:
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

// comparePayloads returns an error that names the first step with a different payload, or nil.
func comparePayloads(script []Step, want, got []string) error {
	for i, s := range script {
		if want[i] != got[i] {
			return fmt.Errorf("step %d (%s): the payloads differ:\n%s\n%s", i+1, s, want[i], got[i])
		}
	}
	return nil
}
