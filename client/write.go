package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// Commit implements [segno.Store]. The token needs the scope write. The objects of the commit are from a [segno.Batch] of
// this store.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	const op = "commit"
	if err := c.Check(); err != nil {
		return segno.Head{}, err
	}
	sent, err := wire.NewCommit(&c)
	if err != nil {
		return segno.Head{}, err
	}
	if n := base64.StdEncoding.EncodedLen(len(sent.Entries)); n > wire.MaxCommit {
		return segno.Head{}, segno.Errorf(segno.KindInvalid, op, string(c.ID), "its entries are %d bytes as JSON, and a server accepts %d", n, wire.MaxCommit).
			WithHint("keep large contents in objects")
	}
	if err := ctx.Err(); err != nil {
		return segno.Head{}, segno.NewError(segno.KindCancelled, op, string(c.ID), err)
	}
	// Once the server has the request, only its response shows whether it made the commit. So the end of ctx does not end
	// the request at once.
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(commitGrace, cancel) })()
	var h wire.Head
	err = s.call(request, op, string(c.ID), http.MethodPost, "/raw/commit", nil, sent, &h)
	if request.Err() != nil && err != nil {
		err = segno.Errorf(segno.KindIO, op, string(c.ID), "the server did not answer: %w", context.Cause(ctx))
	}
	if err != nil {
		return segno.Head{}, err
	}
	return decoded[segno.Head](op, string(c.Thread))(h.Decode())
}

// commitGrace is how long a commit waits for its response after its context has ended.
const commitGrace = 10 * time.Second

// Keep implements [segno.Objects]. The token needs the scope write.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	if err := o.s.calls.Begin(ctx, op); err != nil {
		return err
	}
	defer o.s.calls.End()
	var frames []byte
	for _, x := range staged.Objects {
		if x.Data != nil {
			frames = wire.AppendFrame(frames, x.Name, x.Data)
		}
	}
	return o.s.post(ctx, op, frames)
}

// Batch returns a batch. If its objects are larger than a mebibyte together, it sends them to the server before they are
// staged, some mebibytes at a time. Unlike in other stores, such objects can be read before they are committed.
func (o objects) Batch() segno.Batch { return &batch{s: o.s, seen: map[segno.Hash]bool{}} }

// The size at which a batch sends its objects, and the largest size of those that stay in the commit.
const (
	batchBytes  = 8 << 20
	inlineBytes = 1 << 20
)

// batch collects objects in frames. Several goroutines may put objects; the one that fills the buffer sends it.
type batch struct {
	s      *Store
	ending sync.RWMutex // held shared by running calls, exclusively by the call that ends the batch
	ended  bool

	mu     sync.Mutex // guards the following fields
	err    error      // why the batch can no longer be used
	seen   map[segno.Hash]bool
	names  []segno.Object // without data: those that were sent, and those that the store had
	new    []segno.Object // those in frames
	frames []byte
}

const opPut = "put object"

// begin checks that the batch can be used. The caller calls end.
func (b *batch) begin(ctx context.Context, op string) error {
	if err := b.s.calls.Begin(ctx, op); err != nil {
		return err
	}
	b.ending.RLock()
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err == nil && b.ended {
		err = segno.Errorf(segno.KindInvalid, op, "", "the batch has ended")
	}
	if err != nil {
		b.end()
	}
	return err
}

func (b *batch) end() {
	b.ending.RUnlock()
	b.s.calls.End()
}

// Put implements [segno.Batch].
func (b *batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	if err := b.begin(ctx, opPut); err != nil {
		return segno.Hash{}, err
	}
	defer b.end()
	if len(data) > wire.MaxObject {
		return segno.Hash{}, segno.Errorf(segno.KindInvalid, opPut, "", "larger than %d bytes", wire.MaxObject)
	}
	name := segno.HashOf(data)
	b.mu.Lock()
	if b.seen[name] {
		b.mu.Unlock()
		return name, nil
	}
	b.seen[name] = true
	b.frames = wire.AppendFrame(b.frames, name, data)
	b.new = append(b.new, segno.Object{Name: name, Size: int64(len(data))})
	var full []byte
	if len(b.frames) >= batchBytes {
		full = b.flush()
	}
	b.mu.Unlock()
	return name, b.post(ctx, full)
}

// flush returns the frames to send. The caller holds the mutex.
func (b *batch) flush() (full []byte) {
	for _, o := range b.new {
		b.names = append(b.names, segno.Object{Name: o.Name})
	}
	full, b.frames, b.new = b.frames, nil, nil
	return full
}

// post sends frames. After an error, the batch cannot be used.
func (b *batch) post(ctx context.Context, frames []byte) error {
	err := b.s.post(ctx, "store objects", frames)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	}
	return err
}

// post sends frames. The objects are durable on return.
func (s *Store) post(ctx context.Context, op string, frames []byte) error {
	if len(frames) == 0 {
		return nil
	}
	res, err := s.send(ctx, op, "", http.MethodPost, "/raw/objects", nil, rawBody(wire.AppendEnd(frames, nil)))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)); err != nil {
		return failed(ctx, op, "", err)
	}
	return nil
}

// Has implements [segno.Batch].
func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	if err := b.begin(ctx, "find object"); err != nil {
		return false, err
	}
	defer b.end()
	b.mu.Lock()
	known := b.seen[name]
	b.mu.Unlock()
	if known {
		return true, nil
	}
	has, err := objects{b.s}.Has(ctx, name)
	if has {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.seen[name] {
			b.seen[name] = true
			b.names = append(b.names, segno.Object{Name: name})
		}
	}
	return has, err
}

// Stage implements [segno.Batch].
func (b *batch) Stage(ctx context.Context) (segno.Staged, error) {
	if err := b.begin(ctx, "stage objects"); err != nil {
		return segno.Staged{}, err
	}
	b.end()
	b.ending.Lock()
	defer b.ending.Unlock()
	if len(b.frames) > inlineBytes {
		if err := b.post(ctx, b.flush()); err != nil {
			return segno.Staged{}, err
		}
	}
	if err := b.splitNew(ctx); err != nil {
		return segno.Staged{}, err
	}
	b.ended = true
	return segno.Staged{Objects: append(b.new, b.names...)}, nil
}

// splitNew adds the bytes to the new objects that the commit will contain, and leaves out those that the store has.
func (b *batch) splitNew(ctx context.Context) error {
	names := make([]segno.Hash, len(b.new))
	for i, o := range b.new {
		names[i] = o.Name
	}
	missing, err := b.s.MissingObjects(ctx, names)
	if err != nil {
		return err
	}
	lacks := map[segno.Hash]bool{}
	for _, name := range missing {
		lacks[name] = true
	}
	in, all := bytes.NewReader(b.frames), b.new
	b.new = nil
	for _, o := range all {
		if _, o.Data, err = wire.ReadFrame(in); err != nil {
			return segno.NewError(segno.KindInternal, opPut, o.Name.String(), err)
		}
		if lacks[o.Name] {
			b.new = append(b.new, o)
		} else {
			b.names = append(b.names, segno.Object{Name: o.Name})
		}
	}
	return nil
}

// Close implements [segno.Batch].
func (b *batch) Close() error {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.ended = true
	return nil
}

// The numbers of objects in one request, which the server limits.
const (
	maxAsked = 65_536
	maxRead  = 4096
)

// MissingObjects returns those of names that the store lacks. It asks for many at once. If the token allows to write, the store
// keeps the others, as [segno.Objects.Keep] does.
func (s *Store) MissingObjects(ctx context.Context, names []segno.Hash) (missing []segno.Hash, err error) {
	const op = "find objects"
	for len(names) > 0 {
		n := min(len(names), maxAsked)
		some, err := s.missing(ctx, op, names[:n])
		if err != nil {
			return nil, err
		}
		missing, names = append(missing, some...), names[n:]
	}
	return missing, nil
}

func (s *Store) missing(ctx context.Context, op string, names []segno.Hash) ([]segno.Hash, error) {
	if err := s.calls.Begin(ctx, op); err != nil {
		return nil, err
	}
	defer s.calls.End()
	res, err := s.send(ctx, op, "", http.MethodPost, "/raw/objects/missing", nil, rawBody(wire.AppendNames(nil, names)))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, failed(ctx, op, "", err)
	}
	return wire.ParseNames(data)
}

// ReadObjects reads many objects in few requests, checks each against its name, and calls visit for it. An error of visit
// ends the reading.
func (s *Store) ReadObjects(ctx context.Context, names []segno.Hash, visit func(name segno.Hash, data []byte) error) error {
	const op = "read objects"
	for len(names) > 0 {
		n := min(len(names), maxRead)
		i := 0
		err := s.frames(ctx, op, "/raw/objects/read", rawBody(wire.AppendNames(nil, names[:n])), func(name segno.Hash, data []byte) error {
			if i == n || name != names[i] || segno.HashOf(data) != name {
				return segno.Errorf(segno.KindCorrupt, op, name.String(), "the bytes do not have this hash")
			}
			i++
			return visit(name, data)
		})
		if err == nil && i < n {
			err = failed(ctx, op, names[i].String(), io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// ReachedObjects lists the objects that the commits in at reach and those in without do not, and the objects of the
// sessions in the chain of a thread, if thread is not "".
func (s *Store) ReachedObjects(ctx context.Context, thread segno.ThreadID, at, without []segno.CommitID) iter.Seq2[segno.Hash, error] {
	return func(yield func(segno.Hash, error) bool) {
		const op = "list objects"
		body := struct {
			Thread  segno.ThreadID   `json:"thread,omitempty"`
			At      []segno.CommitID `json:"at,omitempty"`
			Without []segno.CommitID `json:"without,omitempty"`
		}{thread, at, without}
		err := s.frames(ctx, op, "/raw/objects/reached", body, func(name segno.Hash, _ []byte) error {
			if !yield(name, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(segno.Hash{}, err)
		}
	}
}

// errStop ends the reading of frames whose caller wants no more.
const errStop = stop("stop")

type stop string

func (e stop) Error() string { return string(e) }

// frames sends a request and calls visit for each frame of the response.
func (s *Store) frames(ctx context.Context, op, path string, body any, visit func(segno.Hash, []byte) error) error {
	if err := s.calls.Begin(ctx, op); err != nil {
		return err
	}
	defer s.calls.End()
	res, err := s.send(ctx, op, "", http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	in := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		name, data, err := wire.ReadFrame(in)
		if err == io.EOF {
			return nil
		}
		if err != nil && segno.KindOf(err) == segno.KindInternal {
			return failed(ctx, op, "", err)
		}
		if err == nil {
			err = visit(name, data)
		}
		if err != nil {
			return err
		}
	}
}
