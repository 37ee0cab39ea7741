package transcript

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// interruptTail is how far from its end a transcript is searched for the mark of
// an interrupted turn: the mark is the last thing the agent writes of it.
const interruptTail = 1 << 20

// interruptMark begins the text of the user record that Claude Code 2.1 writes
// when a turn is interrupted: "[Request interrupted by user]", or "… by user for
// tool use]".
const interruptMark = "[Request interrupted by user"

// interruptFlush is how long the mark may take to reach the disk once the agent
// shows it: its queue is written about every 100 ms.
const interruptFlush = 300 * time.Millisecond

const opInterrupted = "look for an interrupt"

// Interrupted reports whether the agent wrote that the user interrupted the turn
// of a prompt. No event is fired then, and the agent lives on. It waits a moment
// for the mark.
func (c *Claude) Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	src, err := c.locate(ctx, opInterrupted, src)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, interruptFlush)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := interrupted(src, key)
		if found || err != nil {
			return found, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-tick.C:
		}
	}
}

// interrupted looks at the end of the file for the mark.
func interrupted(src segno.Source, key segno.TurnKey) (bool, error) {
	const op = opInterrupted
	f, err := openRegular(src.Path)
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
