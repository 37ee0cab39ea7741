package sessionfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"

	"github.com/dalsegno/segno"
)

// Conversation is a completely read session: its lines, and the turns that they contain.
type Conversation struct {
	Position segno.Position // has no leaf, offset or hashes
	Lines    []byte         // whole lines; bytes are only appended
	Turns    []Turn
	Damage   []segno.Damage
}

// Turn is one turn with a prompt.
type Turn struct {
	Leaf   string        // the agent's id of the prompt's record
	Key    segno.TurnKey // the agent's id of the prompt in its hooks, or ""
	Prompt string
	To     int64 // the end of the turn's newest record so far
	// IsAnswered is set if the agent wrote a record after the prompt.
	IsAnswered bool
}

// Capture is [segno.Transcript.Capture] of a conversation. If all is set, Earlier has all completed
// turns after prev, as for [transcript.TurnCapturer].
func (c *Conversation) Capture(ctx context.Context, prev *segno.Position, all bool, b segno.Batch) (segno.Captured, error) {
	var from segno.Position
	h, known := sha256.New(), int64(0)
	if prev != nil && prev.Offset > 0 {
		resumed, isPrefix := ResumeHash(bytes.NewReader(c.Lines), int64(len(c.Lines)), prev)
		has, err := b.Has(ctx, prev.Log)
		if err != nil {
			return segno.Captured{}, err
		}
		if isPrefix {
			known = prev.Offset
		}
		if isPrefix && has {
			from, h = *prev, resumed
		}
	}
	out := c.turnsAfter(prev, all)
	w := &LogWriter{Batch: b}
	if from.Offset > 0 {
		w.Next = Log{Prev: from.Log, Size: from.Offset}
	}
	r := io.TeeReader(bytes.NewReader(c.Lines[from.Offset:]), h)
	put := func(p *segno.Position) error {
		leaf, to := p.Leaf, p.Offset
		*p = c.Position
		p.Leaf, p.Offset = leaf, to
		for left := to - w.Next.Size; left > 0; left = to - w.Next.Size {
			block := make([]byte, min(left, BlockSize))
			if _, err := io.ReadFull(r, block); err != nil {
				return err
			}
			if err := w.Put(ctx, block); err != nil {
				return err
			}
		}
		h.Sum(p.SHA256[:0])
		var err error
		p.Log, err = w.Close(ctx)
		return err
	}
	out.Earlier = slices.DeleteFunc(out.Earlier, func(t segno.TranscriptTurn) bool { return t.Position.Offset <= known })
	for i := range out.Earlier {
		if err := put(&out.Earlier[i].Position); err != nil {
			return out, err
		}
	}
	err := put(&out.Position)
	if err == nil {
		out.Position.Digest, err = Digest(bytes.NewReader(c.Lines), h, out.Position.Offset)
	}
	return out, err
}

// turnsAfter returns the turns after prev for a capture. Their positions have only a leaf and an
// offset.
func (c *Conversation) turnsAfter(prev *segno.Position, all bool) segno.Captured {
	out := segno.Captured{Damage: c.Damage}
	out.Position.Offset = int64(len(c.Lines))
	if len(c.Turns) == 0 {
		return out
	}
	known := -1
	if prev != nil {
		known = slices.IndexFunc(c.Turns, func(t Turn) bool { return t.Leaf == prev.Leaf })
	}
	last := len(c.Turns) - 1
	newest := c.Turns[last]
	out.Position.Leaf = newest.Leaf
	if known == last {
		return out
	}
	out.Prompt, out.Key, out.Text = newest.Leaf, newest.Key, newest.Prompt
	if prev == nil || all {
		for _, t := range c.Turns[known+1 : last] {
			if t.IsAnswered {
				out.Earlier = append(out.Earlier, segno.TranscriptTurn{Key: t.Key, Prompt: t.Prompt,
					Position: segno.Position{Leaf: t.Leaf, Offset: t.To}})
			}
		}
	}
	switch {
	case all && known >= 0:
		out.Follows = c.Turns[known].Leaf
	case last > 0:
		out.Follows = c.Turns[last-1].Leaf
	}
	return out
}

// Bytes returns the bytes of a position. It takes them from the beginning of lines if they are
// still there, else from the store. lines may be nil. The error is [segno.KindCorrupt] if neither
// has the bytes.
func Bytes(ctx context.Context, op string, p segno.Position, lines []byte, o segno.Objects) ([]byte, error) {
	is := func(data []byte) bool { return segno.Hash(sha256.Sum256(data)) == p.SHA256 }
	if p.Offset <= int64(len(lines)) && is(lines[:p.Offset]) {
		return lines[:p.Offset], nil
	}
	if p.Log.IsZero() || o == nil {
		return nil, segno.Errorf(segno.KindNotFound, op, string(p.Session), "neither the agent's files nor the store have its bytes")
	}
	r, err := OpenLog(ctx, o, p.Log, p.Offset, nil)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err == nil && !is(data) {
		err = segno.NewError(segno.KindCorrupt, op, string(p.Session), ErrStale)
	}
	return data, err
}
