package sessionfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Chunk is a piece of stored bytes.
type Chunk struct {
	Name segno.Hash
	Size int64
}

// Log is one log object: the chunks of one capture, and the name of the log before it.
type Log struct {
	Prev    segno.Hash // zero for the first log
	Head    Chunk      // replaces the first Skip bytes of Prev unless its size is 0
	Skip    int64
	Session segno.SessionID // replaces the ids in the bytes of prev; "" leaves them
	Keep    []LineRange     // the lines of prev to keep; nil keeps all
	Size    int64           // total of all bytes up to and including this log's
	Chunks  []Chunk
}

// LineRange is a range of lines. It includes both ends, which count from 1.
type LineRange struct{ From, To int }

// AppendLine adds a line to ranges that all end before it.
func AppendLine(keep []LineRange, line int) []LineRange {
	if n := len(keep); n > 0 && keep[n-1].To == line-1 {
		keep[n-1].To = line
		return keep
	}
	return append(keep, LineRange{line, line})
}

const logHead = "segno-log 1\n"

// Encode returns the canonical bytes of n.
func (n Log) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(logHead)
	if !n.Prev.IsZero() {
		fmt.Fprintf(&b, "prev %s\n", n.Prev)
	}
	if n.Head.Size != 0 {
		fmt.Fprintf(&b, "head %s %d %d\n", n.Head.Name, n.Head.Size, n.Skip)
	}
	if n.Session != "" {
		fmt.Fprintf(&b, "session %s\n", n.Session)
	}
	for _, r := range n.Keep {
		fmt.Fprintf(&b, "keep %d %d\n", r.From, r.To)
	}
	fmt.Fprintf(&b, "size %d\n", n.Size)
	for _, c := range n.Chunks {
		fmt.Fprintf(&b, "chunk %s %d\n", c.Name, c.Size)
	}
	return b.Bytes()
}

// own returns the number of bytes that n itself lists.
func (n Log) own() (sum int64) {
	for _, c := range n.Chunks {
		sum += c.Size
	}
	return sum
}

// decodeLog is the inverse of [Log.Encode]. The error has [segno.KindCorrupt], or [segno.KindNewer]
// for a version that this program does not know. The parser is lenient. The comparison with Encode
// at the end rejects every other form.
func decodeLog(data []byte) (Log, error) {
	const op = "read log"
	var n Log
	rows, err := SplitRows(data, logHead)
	if err != nil {
		return n, err
	}
	for _, row := range rows {
		word, rest, _ := strings.Cut(row, " ")
		switch word {
		case "prev":
			n.Prev, err = segno.ParseHash(rest)
		case "head":
			var name string
			if _, err = fmt.Sscanf(rest, "%s %d %d", &name, &n.Head.Size, &n.Skip); err == nil {
				n.Head.Name, err = segno.ParseHash(name)
			}
		case "session":
			n.Session = segno.SessionID(rest)
			err = CheckNewSession(op, n.Session)
		case "keep":
			var r LineRange
			_, err = fmt.Sscanf(rest, "%d %d", &r.From, &r.To)
			n.Keep = append(n.Keep, r)
		case "size":
			_, err = fmt.Sscanf(rest, "%d", &n.Size)
		case "chunk":
			var c Chunk
			name, size, _ := strings.Cut(rest, " ")
			if c.Name, err = segno.ParseHash(name); err == nil {
				_, err = fmt.Sscanf(size, "%d", &c.Size)
			}
			n.Chunks = append(n.Chunks, c)
		}
		if err != nil {
			return n, segno.NewError(segno.KindCorrupt, op, "", err)
		}
	}
	if !n.isConsistent() || !bytes.Equal(n.Encode(), data) {
		return n, segno.Errorf(segno.KindCorrupt, op, "", "its fields are inconsistent")
	}
	return n, nil
}

// areApart reports whether ranges of lines are in order and do not touch, because adjacent ranges are encoded as one.
func areApart(ranges []LineRange) bool {
	last := -1
	for _, r := range ranges {
		if r.From <= last+1 || r.To < r.From {
			return false
		}
		last = r.To
	}
	return true
}

// isConsistent reports whether the fields of n fit together.
func (n Log) isConsistent() bool {
	if !areApart(n.Keep) || slices.ContainsFunc(n.Chunks, func(c Chunk) bool { return !c.hasPossibleSize() }) {
		return false
	}
	own, isFirst := n.own(), n.Prev.IsZero()
	switch {
	case n.Head.Size != 0: // it replaces the beginning of prev
		return n.Head.hasPossibleSize() && n.Skip > 0 && !isFirst && n.Session == "" && len(n.Keep) == 0 && n.Size >= n.Head.Size+own
	case n.Size <= 0 || own > n.Size || isFirst != (own == n.Size):
		return false
	case n.Session != "": // it replaces ids in prev, and may leave out lines
		return !isFirst
	}
	return len(n.Keep) == 0 && len(n.Chunks) > 0
}

func (c Chunk) hasPossibleSize() bool { return c.Size > 0 && c.Size <= BlockSize }

// SplitRows splits one of segno's text objects into its lines after the head.
func SplitRows(data []byte, head string) ([]string, error) {
	text, ok := strings.CutPrefix(string(data), head)
	if !ok {
		name, _, _ := strings.Cut(head, " ")
		if strings.HasPrefix(string(data), name+" ") {
			return nil, segno.NewError(segno.KindNewer, "read "+name, "", nil)
		}
		return nil, segno.Errorf(segno.KindCorrupt, "read object", "", "it is not a %s", name)
	}
	if text == "" {
		return nil, nil
	}
	text, ok = strings.CutSuffix(text, "\n")
	if !ok {
		return nil, segno.Errorf(segno.KindCorrupt, "read object", "", "its last line is truncated")
	}
	return strings.Split(text, "\n"), nil
}

// LogWriter appends bytes to a log.
type LogWriter struct {
	Batch segno.Batch
	Next  Log // the next log; its size counts all bytes so far
}

// Put stores one block as a chunk of the next log.
func (w *LogWriter) Put(ctx context.Context, block []byte) error {
	name, err := w.Batch.Put(ctx, block)
	if err != nil {
		return fmt.Errorf("store transcript: %w", err)
	}
	w.Next.Chunks = append(w.Next.Chunks, Chunk{name, int64(len(block))})
	w.Next.Size += int64(len(block))
	return nil
}

// Close stores a log of the blocks and returns its name, which is zero if there are no bytes. The
// blocks of the next log may follow.
func (w *LogWriter) Close(ctx context.Context) (segno.Hash, error) {
	if len(w.Next.Chunks) == 0 && w.Next.Session == "" && w.Next.Head.Size == 0 {
		return w.Next.Prev, nil
	}
	name, err := w.Batch.Put(ctx, w.Next.Encode())
	if err != nil {
		return segno.Hash{}, fmt.Errorf("store transcript: %w", err)
	}
	w.Next = Log{Prev: name, Size: w.Next.Size}
	return name, nil
}

// MaxFilters limits how many logs of a chain may leave out or replace lines of the log before them.
// Each such log costs another pass over the bytes.
const MaxFilters = 16

// LogChain is a log and the logs before it, newest first.
type LogChain []Log

// ReadLog reads the objects that list a log. size is the number of bytes that the log must list.
func ReadLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) (LogChain, error) {
	var out LogChain
	for known := true; ; {
		n, err := getLog(ctx, o, name)
		if err != nil {
			return nil, err
		}
		if known && n.Size != size {
			return nil, segno.Errorf(segno.KindCorrupt, "read log", name.String(), "it lists %d bytes instead of %d", n.Size, size)
		}
		if out = append(out, n); n.Prev.IsZero() {
			break
		}
		name, size = n.Prev, n.Size-n.own()-n.Head.Size+n.Skip
		known = n.Session == "" // ids of other sessions may be longer
	}
	if filters, _ := out.Cost(); filters > MaxFilters {
		return nil, segno.Errorf(segno.KindCorrupt, "read log", "", "more than %d logs leave out or replace lines of the log before them", MaxFilters)
	}
	return out, nil
}

func getLog(ctx context.Context, o segno.Objects, name segno.Hash) (Log, error) {
	data, err := o.Get(ctx, name)
	if err != nil {
		return Log{}, fmt.Errorf("read log: %w", err)
	}
	return decodeLog(data)
}

// Cost returns the number of logs that leave out or replace lines, and the number of bytes in all
// chunks.
func (l LogChain) Cost() (filters int, stored int64) {
	for _, node := range l {
		if node.Keep != nil || node.Head.Size > 0 {
			filters++
		}
		stored += node.Head.Size + node.own()
	}
	return filters, stored
}

// TraceLog calls visit for the objects of a log, newest first.
func TraceLog(ctx context.Context, o segno.Objects, name segno.Hash, visit func(segno.Hash) bool) error {
	for !name.IsZero() && visit(name) {
		n, err := getLog(ctx, o, name)
		if err != nil {
			return err
		}
		if n.Head.Size > 0 {
			visit(n.Head.Name)
		}
		for _, c := range n.Chunks {
			visit(c.Name)
		}
		name = n.Prev
	}
	return nil
}

const opReadLog = "read stored transcript"

// Filter returns the lines of a log that remain in the log after it, see [Log]. in has the
// bytes of the log before n.
type Filter func(in io.Reader, n Log) io.Reader

// OpenLog returns the bytes of a log. It calls lines, which depends on the agent, for logs that
// leave out lines or replace the session.
func OpenLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64, lines Filter) (io.Reader, error) {
	logs, err := ReadLog(ctx, o, name, size)
	if err != nil {
		return nil, err
	}
	// Replacing a session id does not change which bytes are lines or records, so only the newest
	// id must be filled in.
	newest := slices.IndexFunc(logs, func(n Log) bool { return n.Session != "" })
	tail := &chunkReader{ctx: ctx, objects: o}
	r := io.Reader(tail)
	for i, n := range slices.Backward(logs) {
		if i != newest {
			n.Session = ""
		}
		switch isFiltered := n.Session != "" || n.Keep != nil; {
		case isFiltered && lines == nil:
			return nil, segno.Errorf(segno.KindCorrupt, opReadLog, name.String(), "it leaves out lines")
		case isFiltered:
			tail = &chunkReader{ctx: ctx, objects: o}
			r = io.MultiReader(lines(r, n), tail)
		case n.Head.Size > 0:
			tail = &chunkReader{ctx: ctx, objects: o}
			r = io.MultiReader(&chunkReader{ctx: ctx, objects: o, chunks: []Chunk{n.Head}}, &skipReader{r, n.Skip}, tail)
		}
		tail.chunks = append(tail.chunks, n.Chunks...)
	}
	return &sizedReader{r, size}, nil
}

// skipReader leaves out the first bytes of r.
type skipReader struct {
	r    io.Reader
	skip int64
}

func (r *skipReader) Read(p []byte) (int, error) {
	if r.skip > 0 {
		if _, err := io.CopyN(io.Discard, r.r, r.skip); err != nil {
			return 0, err
		}
		r.skip = 0
	}
	return r.r.Read(p)
}

// chunkReader reads the concatenation of chunks.
type chunkReader struct {
	ctx     context.Context
	objects segno.Objects
	chunks  []Chunk
	rest    []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		c := r.chunks[0]
		data, err := r.objects.Get(r.ctx, c.Name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", opReadLog, err)
		}
		if int64(len(data)) != c.Size {
			return 0, segno.Errorf(segno.KindCorrupt, opReadLog, c.Name.String(), "%d bytes instead of %d", len(data), c.Size)
		}
		r.rest, r.chunks = data, r.chunks[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// sizedReader returns an error if r does not end after left more bytes.
type sizedReader struct {
	r    io.Reader
	left int64
}

func (r *sizedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.left -= int64(n)
	if r.left < 0 || err == io.EOF && r.left != 0 {
		return 0, segno.Errorf(segno.KindCorrupt, opReadLog, "", "its length differs from the length in the log")
	}
	return n, err
}
