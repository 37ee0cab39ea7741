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
// of a prompt, or went on with another prompt without the turn's end. The agent
// fires no event then, and lives on. Interrupted waits a moment for the mark. An empty
// key means the newest prompt that waited in the agent's queue.
func (c *Claude) Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	end, err := c.endOf(ctx, src, key, true)
	return end.marked || end.passed, err
}

// LastOf returns the time of the newest record of a turn, zero if there is none, and
// whether that is the moment at which the turn was interrupted. If it is not and wait
// is set, LastOf waits a moment for the mark.
func (c *Claude) LastOf(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (at time.Time, interrupted bool, err error) {
	end, err := c.endOf(ctx, src, key, wait)
	return end.at, end.marked, err
}

// AtQuestion reports whether the interruption of a turn was the user's answer to the
// question whether the agent may use a tool. The agent's mark then names no message that
// it interrupted.
func (c *Claude) AtQuestion(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	end, err := c.endOf(ctx, src, key, false)
	return end.marked && end.refused, err
}

// turnEnd is what the end of a transcript says of a turn.
type turnEnd struct {
	at      time.Time // of its newest record
	marked  bool      // that is the mark of an interruption
	refused bool      // and the user interrupted at a question whether to use a tool
	passed  bool      // the next turn's prompt follows
}

func (c *Claude) endOf(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (turnEnd, error) {
	src, err := c.locate(ctx, opInterrupted, src)
	if err != nil {
		return turnEnd{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, interruptFlush)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		end, err := readEnd(src, key)
		if end.marked || end.passed || err != nil || !wait {
			return end, err
		}
		select {
		case <-ctx.Done():
			return end, nil
		case <-tick.C:
		}
	}
}

// readEnd looks at the end of the file for the mark. An empty key means the key of the
// newest prompt that waited in the agent's queue.
func readEnd(src segno.Source, key segno.TurnKey) (end turnEnd, err error) {
	const op = opInterrupted
	f, err := openRegular(src.Path)
	if err != nil {
		return end, ioError(op, src.Path, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return end, ioError(op, src.Path, err)
	}
	from := max(0, fi.Size()-interruptTail)
	l := newLines(io.NewSectionReader(f, from, fi.Size()-from), from)
	var s scanner
	var r record
	begun, queued := false, false
	for {
		line, ok := l.next()
		if !ok {
			_, err := l.close()
			return end, ioError(op, src.Path, err)
		}
		if s.parse(line.bytes, &r) != nil || r.sidechain {
			continue
		}
		if key == "" || queued {
			if r.kind == kindUser && r.submitted && string(field(line.bytes, "promptSource")) == `"queued"` {
				key, queued, begun, end = segno.TurnKey(plain(r.promptID)), true, false, turnEnd{}
			}
		}
		if end.passed {
			continue
		}
		if key != "" && bytes.Equal(r.promptID, []byte(key)) {
			begun = true
		}
		if begun {
			end.take(&r, line.bytes, key)
		}
	}
}

// take reads one record from the turn's own prompt on.
//
// A prompt that was queued when the user interrupted a turn begins the next turn at
// that moment. The mark is written behind it and carries its id.
func (end *turnEnd) take(r *record, line []byte, key segno.TurnKey) {
	own := r.kind == kindAssistant && !end.marked
	switch {
	case r.kind != kindUser:
	case bytes.Equal(r.promptID, []byte(key)):
		own = true
		words := strings.TrimSpace(spoken(field(r.message, "content"), "\n"))
		end.marked = strings.HasPrefix(words, interruptMark)
		end.refused = words == interruptMark+" for tool use]" && field(line, "interruptedMessageId") == nil
	case r.submitted && len(r.promptID) > 0:
		end.passed = true
		if string(field(line, "promptSource")) == `"queued"` && !end.marked {
			own, end.marked = true, true
		}
	}
	if ms, ok := r.time(); own && ok {
		end.at = time.UnixMilli(ms)
	}
}
