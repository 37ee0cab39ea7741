package claude

import (
	"bytes"
	"cmp"
	"context"
	"hash"
	"io"
	"slices"

	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// maxRanges limits how many separate ranges of lines a log may keep of another log.
const maxRanges = 4096

// derive makes w derive from the log that the session was cut from, as far as both transcripts
// are the same, and returns where the session's own bytes begin. It adds the bytes before
// that offset to sum. It returns 0 if the session must be stored like any other.
func (t *capture) derive(ctx context.Context, w *sessionfile.LogWriter, sum hash.Hash32) (at int64, err error) {
	if t.of.Log.IsZero() || t.objects == nil || sessionfile.CheckNewSession(t.op, t.src.Session) != nil {
		return 0, nil
	}
	logs, err := sessionfile.ReadLog(ctx, t.objects, t.of.Log, t.of.Offset)
	if err != nil {
		return 0, ctx.Err()
	}
	for _, from := range t.c.copies(t.op, t.of, t.objects) {
		node, lines, err := t.compare(ctx, from, sum)
		if err != nil {
			continue
		}
		filters, stored := logs.Cost()
		if slices.Equal(node.Keep, []sessionfile.LineRange{{From: 1, To: lines}}) {
			node.Keep = nil
		} else if len(node.Keep) == 0 || len(node.Keep) > maxRanges || filters == sessionfile.MaxFilters || stored > 2*t.to+sessionfile.BlockSize {
			break
		}
		if len(t.out.Earlier) > 0 && node.Size > t.out.Earlier[0].Position.Offset {
			break // no log ends where the first own turn does
		}
		w.Next = node
		return node.Size, nil
	}
	sum.Reset()
	t.hash.Reset()
	return 0, ctx.Err()
}

// compare looks for the lines of a transcript, in order, in a copy of the one it was cut
// from. It returns a log of the lines that it finds, and the number of lines of the copy.
// Afterwards t.hash and sum cover the bytes of that log.
func (t *capture) compare(ctx context.Context, from sessionfile.CopySource, sum hash.Hash32) (node sessionfile.Log, lines int, err error) {
	sum.Reset()
	t.hash.Reset()
	node = sessionfile.Log{Prev: t.of.Log, Session: t.src.Session}
	both := io.MultiWriter(t.hash, sum)
	own := sessionfile.NewLineReader(io.NewSectionReader(t.file, 0, t.to), 0)
	ownLine, more := own.Next()
	var r record
	var rewritten bytes.Buffer // a line of the other transcript with the session id of the cut
	readErr, err := from.EachLine(ctx, func(l sessionfile.Line) error {
		if lines++; !more {
			return nil
		}
		rewritten.Reset()
		_ = r.parse(l.Bytes) // a line that is not a record has no session ids
		err := r.writeAs(&rewritten, t.src.Session)
		if bytes.Equal(rewritten.Bytes(), ownLine.Bytes) {
			_, _ = both.Write(ownLine.Bytes) // hashes return no error
			node.Keep = sessionfile.AppendLine(node.Keep, lines)
			node.Size = ownLine.Offset + int64(len(ownLine.Bytes))
			ownLine, more = own.Next()
		}
		return err
	})
	_, ownErr := own.End()
	return node, lines, cmp.Or(readErr, err, ownErr)
}
