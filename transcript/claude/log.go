package claude

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// chunk is a piece of stored bytes.
type chunk struct {
	name segno.Hash
	size int64
}

// logNode is one log object: the chunks of one capture, and the log before it.
type logNode struct {
	prev    segno.Hash      // zero for the first
	session segno.SessionID // replaces the ids in the bytes of prev; "" leaves them
	keep    []lineRange     // the lines of prev that count; nil for all
	size    int64           // of all bytes up to and including its own
	chunks  []chunk
}

// lineRange is lines that follow one another, both ends counted from 1 and included.
type lineRange struct{ from, to int }

// appendLine adds a line to ranges that end before it.
func appendLine(keep []lineRange, line int) []lineRange {
	if n := len(keep); n > 0 && keep[n-1].to == line-1 {
		keep[n-1].to = line
		return keep
	}
	return append(keep, lineRange{line, line})
}

const logHead = "segno-log 1\n"

// encode returns the canonical bytes of n.
func (n logNode) encode() []byte {
	var b bytes.Buffer
	b.WriteString(logHead)
	if !n.prev.IsZero() {
		fmt.Fprintf(&b, "prev %s\n", n.prev)
	}
	if n.session != "" {
		fmt.Fprintf(&b, "session %s\n", n.session)
	}
	for _, r := range n.keep {
		fmt.Fprintf(&b, "keep %d %d\n", r.from, r.to)
	}
	fmt.Fprintf(&b, "size %d\n", n.size)
	for _, c := range n.chunks {
		fmt.Fprintf(&b, "chunk %s %d\n", c.name, c.size)
	}
	return b.Bytes()
}

// own is the number of bytes that n itself lists.
func (n logNode) own() (sum int64) {
	for _, c := range n.chunks {
		sum += c.size
	}
	return sum
}

// decodeLog is the inverse of encode. The error has [segno.KindCorrupt], or
// [segno.KindNewer] for a version this program does not know. The lines below read
// leniently; the comparison with encode rejects every other form.
func decodeLog(data []byte) (logNode, error) {
	const op = "read log"
	var n logNode
	rows, err := splitRows(data, logHead)
	if err != nil {
		return n, err
	}
	for _, row := range rows {
		word, rest, _ := strings.Cut(row, " ")
		switch word {
		case "prev":
			n.prev, err = segno.ParseHash(rest)
		case "session":
			n.session = segno.SessionID(rest)
			err = checkNewSession(op, n.session)
		case "keep":
			var r lineRange
			_, err = fmt.Sscanf(rest, "%d %d", &r.from, &r.to)
			n.keep = append(n.keep, r)
		case "size":
			_, err = fmt.Sscanf(rest, "%d", &n.size)
		case "chunk":
			var c chunk
			name, size, _ := strings.Cut(rest, " ")
			if c.name, err = segno.ParseHash(name); err == nil {
				_, err = fmt.Sscanf(size, "%d", &c.size)
			}
			n.chunks = append(n.chunks, c)
		}
		if err != nil {
			return n, segno.NewError(segno.KindCorrupt, op, "", err)
		}
	}
	if !n.isConsistent() || !bytes.Equal(n.encode(), data) {
		return n, segno.Errorf(segno.KindCorrupt, op, "", "its fields are inconsistent")
	}
	return n, nil
}

// isConsistent reports whether the fields of n fit together. Ranges of lines do not touch:
// two that did would be one.
func (n logNode) isConsistent() bool {
	last := -1
	for _, r := range n.keep {
		if r.from <= last+1 || r.to < r.from {
			return false
		}
		last = r.to
	}
	for _, c := range n.chunks {
		if c.size <= 0 || c.size > blockSize {
			return false
		}
	}
	own := n.own()
	if n.size <= 0 || own > n.size || n.prev.IsZero() != (own == n.size) {
		return false
	}
	if n.session == "" {
		return len(n.keep) == 0 && len(n.chunks) > 0
	}
	return !n.prev.IsZero()
}

// splitRows splits one of segno's text objects into its lines after the head.
func splitRows(data []byte, head string) ([]string, error) {
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

// logWriter appends bytes to a log.
type logWriter struct {
	batch segno.Batch
	node  logNode // the next log; its size counts all bytes so far
}

// put stores one block.
func (w *logWriter) put(ctx context.Context, block []byte) error {
	name, err := w.batch.Put(ctx, block)
	if err != nil {
		return fmt.Errorf("store transcript: %w", err)
	}
	w.node.chunks = append(w.node.chunks, chunk{name, int64(len(block))})
	w.node.size += int64(len(block))
	return nil
}

// close stores a log of the blocks and returns its name, zero if there are no bytes. The
// blocks of the next log may follow.
func (w *logWriter) close(ctx context.Context) (segno.Hash, error) {
	if len(w.node.chunks) == 0 && w.node.session == "" {
		return w.node.prev, nil
	}
	name, err := w.batch.Put(ctx, w.node.encode())
	if err != nil {
		return segno.Hash{}, fmt.Errorf("store transcript: %w", err)
	}
	w.node = logNode{prev: name, size: w.node.size}
	return name, nil
}

// maxFilters is how many logs of a chain may leave out lines of the log before them. Each
// of them is one more pass over the bytes that are read.
const maxFilters = 16

// logChain is a log and those before it, newest first.
type logChain []logNode

// readLog reads the objects that list a log. size is the number of bytes that the log must
// stand for.
func readLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) (logChain, error) {
	var out logChain
	for known := true; ; {
		n, err := getLog(ctx, o, name)
		if err != nil {
			return nil, err
		}
		if known && n.size != size {
			return nil, segno.Errorf(segno.KindCorrupt, "read log", name.String(), "it lists %d bytes instead of %d", n.size, size)
		}
		if out = append(out, n); n.prev.IsZero() {
			break
		}
		name, size = n.prev, n.size-n.own()
		known = n.session == "" // ids of other sessions may be longer
	}
	if filters, _ := out.cost(); filters > maxFilters {
		return nil, segno.Errorf(segno.KindCorrupt, "read log", "", "more than %d logs leave out lines of the log before them", maxFilters)
	}
	return out, nil
}

func getLog(ctx context.Context, o segno.Objects, name segno.Hash) (logNode, error) {
	data, err := o.Get(ctx, name)
	if err != nil {
		return logNode{}, fmt.Errorf("read log: %w", err)
	}
	return decodeLog(data)
}

// cost returns how many logs leave out lines, and the number of bytes in all chunks.
func (l logChain) cost() (filters int, stored int64) {
	for _, node := range l {
		if node.keep != nil {
			filters++
		}
		stored += node.own()
	}
	return filters, stored
}

// traceLog calls visit for the objects of a log, newest first.
func traceLog(ctx context.Context, o segno.Objects, name segno.Hash, visit func(segno.Hash) bool) error {
	for !name.IsZero() && visit(name) {
		n, err := getLog(ctx, o, name)
		if err != nil {
			return err
		}
		for _, c := range n.chunks {
			visit(c.name)
		}
		name = n.prev
	}
	return nil
}

const opReadLog = "read stored transcript"

// openLog returns the bytes of a log.
func openLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) (io.Reader, error) {
	logs, err := readLog(ctx, o, name, size)
	if err != nil {
		return nil, err
	}
	// Lines stay lines and records stay records whatever session id they have, so only
	// the newest id must be filled in.
	newest := slices.IndexFunc(logs, func(n logNode) bool { return n.session != "" })
	tail := &chunkReader{ctx: ctx, objects: o}
	r := io.Reader(tail)
	for i, n := range slices.Backward(logs) {
		if i != newest {
			n.session = ""
		}
		if n.session != "" || n.keep != nil {
			tail = &chunkReader{ctx: ctx, objects: o}
			lines := &lineFilter{in: newLineReader(r, 0), all: n.keep == nil, keep: n.keep, session: n.session}
			r = io.MultiReader(lines, tail)
		}
		tail.chunks = append(tail.chunks, n.chunks...)
	}
	return &sizedReader{r, size}, nil
}

// chunkReader reads chunks one after another.
type chunkReader struct {
	ctx     context.Context
	objects segno.Objects
	chunks  []chunk
	rest    []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		c := r.chunks[0]
		data, err := r.objects.Get(r.ctx, c.name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", opReadLog, err)
		}
		if int64(len(data)) != c.size {
			return 0, segno.Errorf(segno.KindCorrupt, opReadLog, c.name.String(), "%d bytes instead of %d", len(data), c.size)
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

// lineFilter reads some lines of a transcript, as those of another session.
type lineFilter struct {
	in      *lineReader
	all     bool            // no line is left out
	keep    []lineRange     // else the ranges still to come
	session segno.SessionID // "" leaves the ids as they are

	err    error
	rest   []byte // of the current line
	buf    bytes.Buffer
	record record
}

func (f *lineFilter) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && f.err == nil {
		if len(f.rest) == 0 {
			f.err = f.next()
		}
		copied := copy(p[n:], f.rest)
		f.rest, n = f.rest[copied:], n+copied
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, f.err
}

// next puts the next line that is kept into rest.
func (f *lineFilter) next() error {
	for l := range f.in.all() {
		if !f.keeps(l.number) {
			continue
		}
		f.rest = l.bytes
		if f.session == "" {
			return nil
		}
		_ = f.record.parse(l.bytes) // a line that is not a record has no session ids
		f.buf.Reset()
		err := f.record.writeAs(&f.buf, f.session)
		f.rest = f.buf.Bytes()
		return err
	}
	torn, err := f.in.end()
	switch {
	case err != nil:
		return err
	case torn > 0:
		return segno.Errorf(segno.KindCorrupt, opReadLog, "", "its last line is truncated")
	}
	return io.EOF
}

func (f *lineFilter) keeps(line int) bool {
	for len(f.keep) > 0 && f.keep[0].to < line {
		f.keep = f.keep[1:]
	}
	return f.all || len(f.keep) > 0 && f.keep[0].from <= line
}
