package world

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
)

// Player is a scripted agent without a model: it chooses an action by its observation alone, so it
// goes on correctly in a restored world.
type Player func(o segno.Observation) (action json.RawMessage, err error)

// PlayerOf makes a [Player] of a function on an observation and an action of one world.
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
// are their names. acted, if not nil, is called after each action; an action that the
// rules refuse is passed with its error and does not end the tick.
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

// Story tells a person what happened in a world. It returns the lines since the last call, from the
// newest document.
type Story func(document []byte) ([]string, error)

// StoryOf makes a [Story] of a function on the header and the state of the documents of one world.
func StoryOf[S any](lines func(Header, *S) []string) Story {
	return func(data []byte) ([]string, error) {
		doc, err := decode[S](data)
		if err != nil {
			return nil, err
		}
		return lines(doc.Header, doc.State), nil
	}
}
