package transcript

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"

	"github.com/dalsegno/segno"
)

// ahead reads and hashes in a goroutine of its own, a few blocks in front of
// whoever takes them.
type ahead struct {
	full  chan block
	free  chan []byte
	stop  context.CancelFunc
	done  chan struct{}
	taken []byte // the block that is lent out
	hash  hash.Hash
	total int64
}

// block is what one read gave.
type block struct {
	buf []byte
	n   int
	err error
}

// readAhead starts reading r. The result must be closed.
func readAhead(ctx context.Context, r io.Reader) *ahead {
	const blocks = 3
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{full: make(chan block, blocks+1), free: make(chan []byte, blocks), stop: stop, done: make(chan struct{}), hash: sha256.New()}
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
			a.full <- block{buf, n, err}
			if err != nil {
				return
			}
		}
	}
}

// next returns the next block, good until the next call.
func (a *ahead) next() ([]byte, error) {
	if a.taken != nil {
		a.free <- a.taken
	}
	b := <-a.full
	a.taken = b.buf
	return b.buf[:b.n], b.err
}

// lines reads the lines of what is read.
func (a *ahead) lines() *lines { return &lines{blocks: a} }

// sum ends the reading and returns how much was read, and its hash.
func (a *ahead) sum() (int64, segno.Hash) {
	a.close()
	return a.total, segno.Hash(a.hash.Sum(nil))
}

// close ends the goroutine.
func (a *ahead) close() {
	a.stop()
	<-a.done
}
