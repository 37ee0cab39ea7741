package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	prev    segno.Hash      // zero for the first
	session segno.SessionID // what prev stands for is turned into this session's; "" leaves it as it is
	keep    []run           // of prev's lines only these; nil for all
	size    int64           // of all bytes up to and including its own
	chunks  []chunk
}

// run is lines of a log that follow one another, both counted from 1 and both
// part of it.
type run struct{ from, to int }

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
		case "session":
			n.session = segno.SessionID(rest)
			err = checkNew("read log", n.session)
		case "keep":
			err = n.decodeRun(rest)
		case "size":
			n.size, err = strconv.ParseInt(rest, 10, 64)
		case "chunk":
			err = n.decodeChunk(rest)
		}
		if err != nil {
			return n, corrupt("read log", "", err)
		}
	}
	if !n.sound() || !bytes.Equal(n.encode(), data) {
		return n, corrupt("read log", "", errors.New("it contradicts itself"))
	}
	return n, nil
}

func (n *logNode) decodeChunk(text string) (err error) {
	var c chunk
	name, size, _ := strings.Cut(text, " ")
	if c.name, err = segno.ParseHash(name); err != nil {
		return err
	}
	if c.size, err = strconv.ParseInt(size, 10, 64); err != nil {
		return err
	}
	if c.size <= 0 || c.size > blockSize {
		return fmt.Errorf("a chunk of %d bytes", c.size)
	}
	n.chunks = append(n.chunks, c)
	return nil
}

func (n *logNode) decodeRun(text string) (err error) {
	var r run
	from, to, _ := strings.Cut(text, " ")
	if r.from, err = strconv.Atoi(from); err != nil {
		return err
	}
	if r.to, err = strconv.Atoi(to); err != nil {
		return err
	}
	after := 0 // runs do not touch: two that did would be one
	if len(n.keep) > 0 {
		after = n.keep[len(n.keep)-1].to + 1
	}
	if r.from <= after || r.to < r.from {
		return fmt.Errorf("lines %d to %d cannot be kept", r.from, r.to)
	}
	n.keep = append(n.keep, r)
	return nil
}

// sound reports whether n says of nothing two things.
func (n logNode) sound() bool {
	own := n.own()
	switch {
	case n.size <= 0 || own > n.size || n.prev.IsZero() != (own == n.size):
		return false
	case n.session == "":
		return len(n.keep) == 0 && len(n.chunks) > 0
	}
	return !n.prev.IsZero()
}

// rowsOf splits an object of ours into its lines after the head.
func rowsOf(data []byte, head string) ([]string, error) {
	text, ok := strings.CutPrefix(string(data), head)
	if !ok {
		name, _, _ := strings.Cut(head, " ")
		if strings.HasPrefix(string(data), name+" ") {
			return nil, segno.NewError(segno.KindNewer, "read "+name, "", nil)
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

	session segno.SessionID // what node stands for is to be turned into this one's
	keep    []run           // and only these of its lines
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
	if len(w.chunks) == 0 && w.session == "" {
		return w.node, nil
	}
	n := logNode{prev: w.node, session: w.session, keep: w.keep, chunks: w.chunks}
	n.size = w.size + n.own()
	name, err := w.batch.Put(ctx, n.encode())
	if err != nil {
		return segno.Hash{}, fmt.Errorf("store transcript: %w", err)
	}
	*w = logWriter{batch: w.batch, node: name, size: n.size}
	return name, nil
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
	return segno.NewError(segno.KindCorrupt, op, name, err)
}
