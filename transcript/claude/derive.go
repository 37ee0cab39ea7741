package claude

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// maxRanges limits how many separate ranges of lines a log may keep of another log.
const maxRanges = 4096

// compare looks for the lines of a transcript, in order, in a copy of the one it was cut from. It
// returns a log of the lines that it finds, without their session ids. It returns an empty log if a
// reader of the log would have to read more than twice the bytes of the transcript, or if too many
// logs of the chain already leave out lines.
func (t *capture) compare(ctx context.Context, from sessionfile.CopySource, logs sessionfile.LogChain, out io.Writer) (node sessionfile.Log, _ []byte, err error) {
	node = sessionfile.Log{Session: t.Source.Session}
	lines := 0 // of the copy
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
		err := r.writeAs(&rewritten, t.Source.Session)
		if bytes.Equal(rewritten.Bytes(), ownLine.Bytes) {
			_, _ = out.Write(ownLine.Bytes) // hashes return no error
			node.Keep = sessionfile.AppendLine(node.Keep, lines)
			node.Size = ownLine.Offset + int64(len(ownLine.Bytes))
			ownLine, more = own.Next()
		}
		return err
	})
	_, ownErr := own.End()
	filters, stored := logs.Cost()
	if slices.Equal(node.Keep, []sessionfile.LineRange{{From: 1, To: lines}}) {
		node.Keep = nil
	} else if len(node.Keep) > maxRanges || filters == sessionfile.MaxFilters || stored > 2*t.to+sessionfile.BlockSize {
		node.Size = 0
	}
	return node, nil, cmp.Or(readErr, err, ownErr)
}
