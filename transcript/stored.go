package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dalsegno/segno"
)

// maxSieves is how often lines of a log may be left out by logs derived from it.
// Each time is one more pass over the bytes that are read.
const maxSieves = 16

// logNodes is a log, newest node first.
type logNodes []logNode

// readLog reads the objects that list a log. size is what the log must stand for.
func readLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) (logNodes, error) {
	var out logNodes
	for known := true; ; {
		n, err := getLog(ctx, o, name)
		if err != nil {
			return nil, err
		}
		if known && n.size != size {
			return nil, corrupt("read log", name.String(), fmt.Errorf("it lists %d bytes where %d are due", n.size, size))
		}
		if out = append(out, n); n.prev.IsZero() {
			break
		}
		name, size = n.prev, n.size-n.own()
		known = n.session == "" // ids of other sessions may be longer
	}
	if out.sieves() > maxSieves {
		return nil, corrupt("read log", "", errors.New("it is derived from a log derived from a log, and so on"))
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

// sieves is how often lines are left out.
func (l logNodes) sieves() (n int) {
	for _, node := range l {
		if node.keep != nil {
			n++
		}
	}
	return n
}

// stored is how many bytes of chunks must be read.
func (l logNodes) stored() (sum int64) {
	for _, node := range l {
		sum += node.own()
	}
	return sum
}

// openLog returns the bytes of a log.
func openLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) (io.Reader, error) {
	nodes, err := readLog(ctx, o, name, size)
	if err != nil {
		return nil, err
	}
	// Lines stay lines and records stay records whatever their session is, so it
	// is enough to put in the id that comes last.
	last := slices.IndexFunc(nodes, func(n logNode) bool { return n.session != "" })
	tail := &chunkReader{ctx: ctx, objects: o}
	r := io.Reader(tail)
	for i, n := range slices.Backward(nodes) {
		if i != last {
			n.session = ""
		}
		if n.session != "" || n.keep != nil {
			tail = &chunkReader{ctx: ctx, objects: o}
			r = io.MultiReader(newSieve(r, n.keep, n.session), tail)
		}
		tail.chunks = append(tail.chunks, n.chunks...)
	}
	return &exactReader{r, size}, nil
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

// exactReader reads a log that must have left more bytes.
type exactReader struct {
	r    io.Reader
	left int64
}

func (r *exactReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.left -= int64(n)
	if r.left < 0 || err == io.EOF && r.left != 0 {
		return 0, corrupt("read stored transcript", "", errors.New("it is not as long as it says"))
	}
	return n, err
}
