package world

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
)

// Player is a scripted agent without a model. It chooses an action only by its observation, so it
// continues correctly in a restored world.
type Player func(o segno.Observation) (action json.RawMessage, err error)

// PlayerOf makes a [Player] from a function that returns an action of one world for an observation.
func PlayerOf[O, A any](choose func(O) A) Player {
	return func(o segno.Observation) (json.RawMessage, error) {
		var seen O
		if err := json.Unmarshal(o, &seen); err != nil {
			return nil, segno.NewError(segno.KindCorrupt, "read observation", "", err)
		}
		return json.Marshal(choose(seen))
	}
}

// Play lets each agent act once and then advances the world by a tick. The sessions of the agents
// are their names. If acted is not nil, Play calls it after each action. If the rules refuse an action,
// Play passes its error to acted and continues the tick.
func Play(ctx context.Context, w segno.World, names []string, player Player, acted func(name string, action json.RawMessage, err error)) error {
	for _, name := range names {
		seen, err := w.Observe(ctx, name)
		if err != nil {
			return fmt.Errorf("observe as %s: %w", name, err)
		}
		action, err := player(seen)
		if err != nil {
			return err
		}
		_, err = w.Act(ctx, name, action)
		if err != nil && segno.KindOf(err) != segno.KindRefused {
			return fmt.Errorf("act as %s: %w", name, err)
		}
		if acted != nil {
			acted(name, action, err)
		}
	}
	return w.Advance(ctx, w.Info().Tick)
}

// Story describes for people what happened in a world. It returns the lines since the last call, given the
// newest document.
type Story func(document []byte) ([]string, error)

// StoryOf makes a [Story] from a function of the header and the state in the documents of one world.
func StoryOf[S any](lines func(Header, *S) []string) Story {
	return func(data []byte) ([]string, error) {
		doc, err := decode[S](data)
		if err != nil {
			return nil, err
		}
		return lines(doc.Header, doc.State), nil
	}
}
