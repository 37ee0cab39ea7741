package transcript

import (
	"context"
	"io"
	"os"

	"github.com/dalsegno/segno"
)

// Queued returns how many prompts wait in the agent's queue, by what the end of the
// transcript says of it: what is put in is taken out when a turn begins with it, when
// the running turn is given it, or when the user edits it.
func (c *Claude) Queued(ctx context.Context, src segno.Source) (int, error) {
	const op = "read the agent's queue"
	src, err := c.locate(ctx, op, src)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(src.Path)
	if err != nil {
		return 0, ioError(op, src.Path, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, ioError(op, src.Path, err)
	}
	from := max(0, fi.Size()-interruptTail)
	l := newLines(io.NewSectionReader(f, from, fi.Size()-from), from)
	var s scanner
	var r record
	n := 0
	for {
		line, ok := l.next()
		if !ok {
			_, err := l.close()
			return n, ioError(op, src.Path, err)
		}
		if s.parse(line.bytes, &r) != nil || string(field(line.bytes, "type")) != `"queue-operation"` {
			continue
		}
		switch string(field(line.bytes, "operation")) {
		case `"enqueue"`:
			n++
		case `"popAll"`:
			n = 0
		default:
			n = max(0, n-1)
		}
	}
}
