package codex

import (
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// capture is a [sessionfile.Capture] of the rollouts of a session. The leaf of a position is the id of
// the newest turn with a prompt.
type capture struct {
	*sessionfile.Capture
	c       *Transcripts
	stream  *stream
	history *history // of the new bytes
}

// capture makes one attempt of a capture. The error is [segno.KindCorrupt] if a rollout that the
// session refers to is missing.
func (c *Transcripts) capture(ctx context.Context, s *sessionfile.Capture) error {
	return c.captureTo(ctx, s, false)
}

// captureTo is capture. If isEndOnly is set, it reads only the record that ends the turn of the earlier
// position.
func (c *Transcripts) captureTo(ctx context.Context, s *sessionfile.Capture, isEndOnly bool) (err error) {
	t := &capture{Capture: s, c: c}
	if t.stream, err = c.open(ctx, t.Op, t.Source); err != nil {
		return err
	}
	defer t.stream.close()
	t.Source.Path = t.stream.src.Path
	if err := t.FindNew(ctx, t.stream, t.stream.size); err != nil {
		return err
	}
	to := t.stream.size
	if isEndOnly {
		if to, err = t.endOfTurn(ctx); err != nil || to == t.Prev.Offset {
			t.Out.Position = t.Prev
			return err
		}
	}
	if err := sessionfile.CheckSize(t.Op, t.Source.Path, to-t.From); err != nil {
		return err
	}
	if t.history, err = readHistory(ctx, t.stream, t.From, to); err != nil {
		return err
	}
	t.setTurns()
	if t.Of != nil {
		t.Copies, t.Compare = c.copies(ctx, t.Op, t.Of, t.Objects), t.compare
	}
	about := segno.Position{Agent: Agent, Session: t.stream.src.Session, Path: t.Source.Path, Version: t.stream.meta.version,
		Dir: cmp.Or(t.Source.Dir, t.history.dir, t.Prev.Dir, t.stream.meta.dir)}
	if err := t.Store(ctx, about, t.history.sum); err != nil {
		return err
	}
	return t.SetDamage(ctx, t.history.damage)
}

// setTurns fills t.Out from the turns. The positions have only a leaf and an offset.
func (t *capture) setTurns() {
	turns := t.history.turns
	t.Out.Position.Offset = t.history.to
	if t.From > 0 || len(turns) == 0 && !t.IsFirst {
		t.Out.Position.Leaf = t.Prev.Leaf
	}
	if len(turns) == 0 {
		return
	}
	newest := turns[len(turns)-1]
	t.Out.Position.Leaf = newest.key
	shared := 0 // turns that a known session has, too
	if t.IsFirst {
		if shared = t.sharedTurns(); shared > 0 {
			t.Out.Origin = &segno.Origin{Leaf: turns[shared-1].key}
		}
	}
	if t.AllTurns || t.IsFirst && t.Of == nil {
		t.addEarlier(turns[shared:max(shared, len(turns)-1)])
	}
	if shared < len(turns) && newest.key != t.Prev.Leaf {
		t.Out.Prompt, t.Out.Key, t.Out.Text = newest.key, segno.TurnKey(newest.key), newest.prompt
		t.Out.Follows = t.followed()
		if t.AllTurns && t.From > 0 {
			t.Out.Follows = t.Prev.Leaf
		}
	}
}

// addEarlier adds the turns with an answer in the new bytes. It leaves out the one at which the earlier position ends, unless the rollout was
// written again: then the turns are all in the new bytes, and that one is where the next one belongs.
func (t *capture) addEarlier(turns []turn) {
	for _, turn := range turns {
		if isNew := turn.key != t.Prev.Leaf || t.From == 0; turn.isAnswered && isNew && turn.to > t.From {
			t.Out.Earlier = append(t.Out.Earlier, segno.TranscriptTurn{Key: segno.TurnKey(turn.key), Prompt: turn.prompt,
				Position: segno.Position{Leaf: turn.key, Offset: turn.to}})
		}
	}
}

// sharedTurns returns the number of turns up to the newest one that is known.
func (t *capture) sharedTurns() int {
	for i, turn := range slices.Backward(t.history.turns) {
		if t.Knows(turn.key) {
			return i + 1
		}
	}
	return 0
}

// followed returns the known leaf that the newest turn follows, "" if it follows none.
func (t *capture) followed() string {
	turns := t.history.turns
	for _, turn := range slices.Backward(turns[:len(turns)-1]) {
		isEarlier := slices.ContainsFunc(t.Out.Earlier, func(e segno.TranscriptTurn) bool { return e.Position.Leaf == turn.key })
		if turn.key == t.Prev.Leaf || isEarlier || t.Knows(turn.key) {
			return turn.key
		}
	}
	if t.From > 0 {
		return t.Prev.Leaf
	}
	return ""
}
