package claude

import (
	"bytes"
	"cmp"
	"context"
	"hash"
	"io"
	"slices"
)

// maxRanges is the number of separate ranges of lines that a log keeps of another one at
// most.
const maxRanges = 4096

// derive makes w derive from the log the session was cut from, as far as both transcripts
// are the same, and returns where the session's own bytes begin. It adds the bytes before
// that to sum. It returns 0 if the session must be stored like any other.
func (t *capture) derive(ctx context.Context, w *logWriter, sum hash.Hash32) (at int64, err error) {
	if t.of.Log.IsZero() || t.objects == nil || checkNewSession(t.op, t.src.Session) != nil {
		return 0, nil
	}
	logs, err := readLog(ctx, t.objects, t.of.Log, t.of.Offset)
	if err != nil {
		return 0, ctx.Err()
	}
	for _, from := range t.c.copies(t.op, t.of, t.objects) {
		node, lines, err := t.compare(ctx, from, sum)
		if err != nil {
			continue
		}
		filters, stored := logs.cost()
		if slices.Equal(node.keep, []lineRange{{1, lines}}) {
			node.keep = nil
		} else if len(node.keep) == 0 || len(node.keep) > maxRanges || filters == maxFilters || stored > 2*t.to+blockSize {
			break
		}
		if len(t.out.Earlier) > 0 && node.size > t.out.Earlier[0].Position.Offset {
			break // no log ends where the first own turn does
		}
		w.node = node
		return node.size, nil
	}
	sum.Reset()
	t.hash.Reset()
	return 0, ctx.Err()
}

// compare looks for the lines of a transcript, in order, in a copy of the one it was cut
// from. It returns a log of the lines that it finds, and how many lines the copy has. t.hash
// and sum are then of the bytes of the log.
func (t *capture) compare(ctx context.Context, from copySource, sum hash.Hash32) (node logNode, lines int, err error) {
	sum.Reset()
	t.hash.Reset()
	node = logNode{prev: t.of.Log, session: t.src.Session}
	both := io.MultiWriter(t.hash, sum)
	own := newLineReader(io.NewSectionReader(t.file, 0, t.to), 0)
	ownLine, more := own.next()
	var r record
	var rewritten bytes.Buffer // a line of the other transcript with the session id of the cut
	readErr, err := from.eachLine(ctx, func(l line) error {
		if lines++; !more {
			return nil
		}
		rewritten.Reset()
		_ = r.parse(l.bytes) // a line that is not a record has no session ids
		err := r.writeAs(&rewritten, t.src.Session)
		if bytes.Equal(rewritten.Bytes(), ownLine.bytes) {
			_, _ = both.Write(ownLine.bytes) // hashes return no error
			node.keep = appendLine(node.keep, lines)
			node.size = ownLine.offset + int64(len(ownLine.bytes))
			ownLine, more = own.next()
		}
		return err
	})
	_, ownErr := own.end()
	return node, lines, cmp.Or(readErr, err, ownErr)
}
