package transcript

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"

	"github.com/dalsegno/segno"
)

// interruptTail is how far from its end a transcript is searched for the mark of
// an interrupted turn: the mark is the last thing the agent writes of it.
const interruptTail = 1 << 20

// interruptMark begins the text of the user record that Claude Code 2.1 writes
// when a turn is interrupted: "[Request interrupted by user]", or "… by user for
// tool use]".
const interruptMark = "[Request interrupted by user"

// Interrupted reports whether the agent wrote that the user interrupted the turn
// of a prompt. No event is fired then, and the agent lives on.
func (c *Claude) Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	const op = "look for an interrupt"
	src, err := c.locate(ctx, op, src)
	if err != nil {
		return false, err
	}
	f, err := os.Open(src.Path)
	if err != nil {
		return false, ioError(op, src.Path, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return false, ioError(op, src.Path, err)
	}
	from := max(0, fi.Size()-interruptTail)
	l := newLines(io.NewSectionReader(f, from, fi.Size()-from), from)
	var s scanner
	var r record
	found := false
	for {
		at, ok := l.next()
		if !ok {
			_, err := l.close()
			return found, ioError(op, src.Path, err)
		}
		if s.parse(at.bytes, &r) != nil || r.kind != kindUser || r.sidechain || !bytes.Equal(r.promptID, []byte(key)) {
			continue
		}
		found = strings.HasPrefix(strings.TrimSpace(spoken(field(r.message, "content"), "\n")), interruptMark)
	}
}
