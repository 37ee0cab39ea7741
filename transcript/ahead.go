package transcript

import (
	"context"
	"hash"
	"io"
)

// ahead reads and hashes in a goroutine of its own, a few blocks in front of its
// reader.
type ahead struct {
	full  chan block
	free  chan []byte
	stop  context.CancelFunc
	done  chan struct{}
	now   block
	hash  hash.Hash
	total int64
}

// block is what one read gave.
type block struct {
	data []byte // what of it is left to hand out
	buf  []byte
	err  error
}

// readAhead starts reading r into h. The result must be closed.
func readAhead(ctx context.Context, r io.Reader, h hash.Hash) *ahead {
	const blocks = 3
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{full: make(chan block, blocks+1), free: make(chan []byte, blocks), stop: stop, done: make(chan struct{}), hash: h}
	for range blocks {
		a.free <- make([]byte, blockSize)
	}
	go a.run(ctx, r)
	return a
}

func (a *ahead) run(ctx context.Context, r io.Reader) {
	defer close(a.done)
	for {
		select {
		case <-ctx.Done():
			a.full <- block{err: ctx.Err()} // there is one place more than buffers
			return
		case buf := <-a.free:
			n, err := r.Read(buf)
			a.hash.Write(buf[:n])
			a.total += int64(n)
			a.full <- block{data: buf[:n], buf: buf, err: err}
			if err != nil {
				return
			}
		}
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.now.data) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.buf != nil {
			a.free <- a.now.buf
		}
		a.now = <-a.full
	}
	n := copy(p, a.now.data)
	a.now.data = a.now.data[n:]
	return n, nil
}

// close ends the goroutine. After the last byte was read, hash and total are of
// all of them.
func (a *ahead) close() {
	a.stop()
	<-a.done
}
