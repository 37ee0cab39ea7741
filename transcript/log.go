package transcript

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// chunk is a piece of stored bytes.
type chunk struct {
	name segno.Hash
	size int64
}

// logNode is one object of a log: the chunks of one capture, and what came
// before them.
type logNode struct {
	prev   segno.Hash // zero for the first
	size   int64      // of all bytes up to and including its own
	chunks []chunk
}

const logHead = "segno-log 1\n"

// encode returns the canonical bytes of n.
func (n logNode) encode() []byte {
	var b bytes.Buffer
	b.WriteString(logHead)
	if !n.prev.IsZero() {
		fmt.Fprintf(&b, "prev %s\n", n.prev)
	}
	fmt.Fprintf(&b, "size %d\n", n.size)
	for _, c := range n.chunks {
		fmt.Fprintf(&b, "chunk %s %d\n", c.name, c.size)
	}
	return b.Bytes()
}

// own is how many bytes n itself lists.
func (n logNode) own() (sum int64) {
	for _, c := range n.chunks {
		sum += c.size
	}
	return sum
}

// decodeLog reads what encode wrote. The error has [segno.KindCorrupt], or
// [segno.KindNewer] for a version this program does not know.
func decodeLog(data []byte) (logNode, error) {
	var n logNode
	rows, err := rowsOf(data, logHead)
	if err != nil {
		return n, err
	}
	for _, row := range rows {
		word, rest, _ := strings.Cut(row, " ")
		switch word {
		case "prev":
			n.prev, err = segno.ParseHash(rest)
		case "size":
			n.size, err = strconv.ParseInt(rest, 10, 64)
		case "chunk":
			var c chunk
			name, size, _ := strings.Cut(rest, " ")
			if c.name, err = segno.ParseHash(name); err == nil {
				c.size, err = strconv.ParseInt(size, 10, 64)
			}
			if err == nil && (c.size <= 0 || c.size > blockSize) {
				err = fmt.Errorf("a chunk of %d bytes", c.size)
			}
			n.chunks = append(n.chunks, c)
		}
		if err != nil {
			return n, corrupt("read log", "", err)
		}
	}
	if n.size <= 0 || n.own() > n.size || n.prev.IsZero() != (n.own() == n.size) || len(n.chunks) == 0 || !bytes.Equal(n.encode(), data) {
		return n, corrupt("read log", "", fmt.Errorf("it contradicts itself"))
	}
	return n, nil
}

// rowsOf splits an object of ours into its lines after the head.
func rowsOf(data []byte, head string) ([]string, error) {
	text, ok := strings.CutPrefix(string(data), head)
	if !ok {
		name, _, _ := strings.Cut(head, " ")
		if strings.HasPrefix(string(data), name+" ") {
			return nil, &segno.Error{Op: "read " + name, Kind: segno.KindNewer}
		}
		return nil, corrupt("read object", "", fmt.Errorf("it is no %s", name))
	}
	text, ok = strings.CutSuffix(text, "\n")
	if !ok && text != "" {
		return nil, corrupt("read object", "", fmt.Errorf("its last line is torn"))
	}
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}

// logWriter adds bytes to a log.
type logWriter struct {
	batch  segno.Batch
	node   segno.Hash // the newest object
	size   int64      // of what it stands for
	chunks []chunk    // beyond it
}

// put stores one block.
func (w *logWriter) put(ctx context.Context, block []byte) error {
	name, err := w.batch.Put(ctx, block)
	if err != nil {
		return fmt.Errorf("store transcript: %w", err)
	}
	w.chunks = append(w.chunks, chunk{name, int64(len(block))})
	return nil
}

// close lists what was put and returns the log's name, zero for no bytes.
func (w *logWriter) close(ctx context.Context) (segno.Hash, error) {
	if len(w.chunks) == 0 {
		return w.node, nil
	}
	n := logNode{prev: w.node, chunks: w.chunks}
	n.size = w.size + n.own()
	name, err := w.batch.Put(ctx, n.encode())
	if err != nil {
		return segno.Hash{}, fmt.Errorf("store transcript: %w", err)
	}
	w.node, w.size, w.chunks = name, n.size, nil
	return name, nil
}

// readLog returns the chunks of a log, oldest first. size is what the log must
// stand for.
func readLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) ([]chunk, error) {
	var out []chunk
	for left := size; left > 0; {
		n, err := getLog(ctx, o, name)
		if err != nil {
			return nil, err
		}
		if n.size != left {
			return nil, corrupt("read log", name.String(), fmt.Errorf("it lists %d bytes where %d are due", n.size, left))
		}
		for _, c := range slices.Backward(n.chunks) {
			out = append(out, c)
		}
		left -= n.own()
		name = n.prev
	}
	slices.Reverse(out)
	return out, nil
}

func getLog(ctx context.Context, o segno.Objects, name segno.Hash) (logNode, error) {
	data, err := o.Get(ctx, name)
	if err != nil {
		return logNode{}, fmt.Errorf("read log: %w", err)
	}
	return decodeLog(data)
}

// chunkReader reads the chunks of a log one after another.
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
		data, err := r.objects.Get(r.ctx, r.chunks[0].name)
		if err != nil {
			return 0, fmt.Errorf("read stored transcript: %w", err)
		}
		if int64(len(data)) != r.chunks[0].size {
			return 0, corrupt("read stored transcript", r.chunks[0].name.String(), fmt.Errorf("%d bytes where %d are due", len(data), r.chunks[0].size))
		}
		r.rest, r.chunks = data, r.chunks[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
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

func corrupt(op, name string, err error) error {
	return &segno.Error{Op: op, Name: name, Kind: segno.KindCorrupt, Err: err}
}
