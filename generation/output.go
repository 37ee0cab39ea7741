package generation

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
)

type endedTurn struct {
	*member
	from int64 // the size of the agent's log before it
	err  error
}

// endTurn reports a turn that ended, and returns its error.
func (a *attempt) endTurn(t endedTurn) error {
	if t.err == nil {
		words := lastLine(t.log, t.from)
		a.event(Event{Kind: EventTurnEnd, Generation: a.generation, Run: a.id, Tick: a.ticks, Agent: t.Name, Text: words})
		a.keepWords(t.Name, words)
	}
	return t.err
}

// logSize returns the size of the agent's log, or 0 if it is not known.
func (m *member) logSize() int64 {
	info, err := m.log.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

const (
	maxTail = 8 << 10 // bytes of a log that are read
	maxLine = 400     // bytes of a line that are reported
)

// lastLine returns the last line with text that was appended to a log after the offset from, or "". The agent can
// write anything to the log and even shorten it.
func lastLine(log *os.File, from int64) string {
	info, err := log.Stat()
	if err != nil || info.Size() <= from {
		return ""
	}
	data := make([]byte, min(info.Size()-from, maxTail))
	n, err := log.ReadAt(data, info.Size()-int64(len(data)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	line := bytes.TrimSpace(data[:n])
	line = bytes.TrimSpace(line[1+bytes.LastIndexByte(line, '\n'):])
	return strings.ToValidUTF8(string(line[:min(len(line), maxLine)]), "\uFFFD")
}
