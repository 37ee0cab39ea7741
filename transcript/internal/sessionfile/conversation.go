package sessionfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// maxConversation is the size of the largest session that is read as a whole.
const maxConversation = 256 << 20

// CheckConversation returns an error if a session is too large to be read as a whole.
func CheckConversation(op, name string, size int64) error {
	if size <= maxConversation {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, op, name, "it is larger than %d MiB", maxConversation>>20)
}

// ReadConversation returns the lines of a session file, without a torn last one.
func ReadConversation(op, path string) ([]byte, error) {
	f, err := vfs.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConversation+1))
	if err == nil {
		err = CheckConversation(op, path, int64(len(data)))
	}
	return data[:bytes.LastIndexByte(data, '\n')+1], err
}

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

// capture stores the bytes of the conversation after t.Prev. Turns that end before the bytes that
// changed since are stored already.
func (c *Conversation) capture(ctx context.Context, t *Capture) error {
	if err := t.FindNew(ctx, bytes.NewReader(c.Lines), int64(len(c.Lines))); err != nil {
		return err
	}
	t.Out = c.turnsAfter(t)
	t.Out.Earlier = slices.DeleteFunc(t.Out.Earlier, func(e segno.TranscriptTurn) bool { return e.Position.Offset <= t.unchanged })
	return t.Store(ctx, c.Position, crc32.Checksum(c.Lines[t.From:], Castagnoli()))
}

// turnsAfter returns the turns after t.Prev. Their positions have only a leaf and an offset.
func (c *Conversation) turnsAfter(t *Capture) segno.Captured {
	out := segno.Captured{Damage: c.Damage}
	out.Position.Offset = int64(len(c.Lines))
	if len(c.Turns) == 0 {
		return out
	}
	known := -1
	if !t.IsFirst {
		known = slices.IndexFunc(c.Turns, func(turn Turn) bool { return turn.Leaf == t.Prev.Leaf })
	}
	last := len(c.Turns) - 1
	newest := c.Turns[last]
	out.Position.Leaf = newest.Leaf
	if known == last {
		return out
	}
	out.Prompt, out.Key, out.Text = newest.Leaf, newest.Key, newest.Prompt
	if t.IsFirst || t.AllTurns {
		for _, turn := range c.Turns[known+1 : last] {
			if turn.IsAnswered {
				out.Earlier = append(out.Earlier, segno.TranscriptTurn{Key: turn.Key, Prompt: turn.Prompt,
					Position: segno.Position{Leaf: turn.Leaf, Offset: turn.To}})
			}
		}
	}
	switch {
	case t.AllTurns && known >= 0:
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
