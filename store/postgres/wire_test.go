package postgres

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wire is between a store and its server: it counts round trips, and can lose answers and requests.
type wire struct {
	trips atomic.Int64 // the number of times that the client waited for an answer
	lose  atomic.Bool  // the next answer is read and not passed on
	after atomic.Int64 // lose and cut: the number of answers, or requests, that pass before
	cut   atomic.Bool  // the next request is not sent, and the connection ends
	tear  atomic.Bool  // the next answer is passed on without its end, and the connection ends
}

// readyForQuery begins the last message of an answer.
const readyForQuery = "Z\x00\x00\x00\x05"

type wireConn struct {
	net.Conn
	w *wire

	mu      sync.Mutex
	waiting bool // the client has written since the last answer
}

func (w *wire) adjust(c *pgxpool.Config) {
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &wireConn{Conn: conn, w: w}, err
	}
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.waiting = true
	c.mu.Unlock()
	if c.w.cut.Load() && c.w.after.Add(-1) < 0 && c.w.cut.CompareAndSwap(true, false) {
		c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 6 && string(p[n-6:n-1]) == readyForQuery && c.w.tear.CompareAndSwap(true, false) {
		c.Conn.Close()
		return n - 6, nil
	}
	if n > 0 && c.waiting {
		c.waiting = false
		c.w.trips.Add(1)
		if c.w.lose.Load() && c.w.after.Add(-1) < 0 && c.w.lose.CompareAndSwap(true, false) {
			// ReadyForQuery is the end of an answer: the statement has been executed.
			for n < 6 || string(p[n-6:n-1]) != readyForQuery {
				if n, err = c.Conn.Read(p); err != nil {
					return 0, err
				}
			}
			c.Conn.Close()
			return 0, io.EOF
		}
	}
	return n, err
}

// counted returns how many round trips f needs on a connection that has prepared its statements.
func (w *wire) counted(t *testing.T, f func()) int64 {
	t.Helper()
	f()
	before := w.trips.Load()
	f()
	return w.trips.Load() - before
}

func TestRoundTrips(t *testing.T) {
	withAndWithoutTenant(t, func(t *testing.T, open func(string, Options, func(*pgxpool.Config)) *Store) {
		w := new(wire)
		countRoundTrips(t, w, open("&pool_max_conns=1&synchronous_commit=off", Options{}, w.adjust))
	})
}

func countRoundTrips(t *testing.T, w *wire, s *Store) {
	head, err := s.Commit(t.Context(), base("thread"))
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	step := func(more func(*segno.Commit)) func() {
		return func() {
			next++
			c := segno.Commit{ID: segno.CommitID(fmt.Sprint("step ", next)), Thread: "thread", Parent: head.Head, Expect: head.Head,
				Entries:    []segno.Entry{{Kind: segno.EntryMessage, Body: []byte(fmt.Sprintf(`"%d %2000d"`, next, next))}},
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Step: next, Meta: map[string]string{"a": "b"}}}
			more(&c)
			if head, err = s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := w.counted(t, step(func(*segno.Commit) {})); n != 1 {
		t.Errorf("a step takes %d round trips", n)
	}
	full := step(func(c *segno.Commit) {
		data := fmt.Append(nil, "object of ", c.ID)
		stored, e := s.records.Compressor.Small([]byte{stagedInline, 0}, data)
		stored[1] = byte(e)
		c.Staged = segno.Staged{Objects: []segno.Object{{Name: segno.HashOf(data), Size: int64(len(data)), Data: stored}}}
		c.Needs = []segno.Hash{segno.HashOf(data)}
		c.Link = &segno.Link{Session: segno.SessionID(c.ID)}
		c.Pin = &segno.Pin{Checkpoint: c.Parent, Name: "a pin"}
		c.Workspace = &segno.WorkspaceState{Workspace: "w", Thread: "thread", By: c.ID}
		c.Operation = &segno.Operation{ID: segno.OperationID(c.ID), Workspace: "w", Verb: segno.VerbPin}
		c.Move = &segno.Move{Head: segno.Self, Tip: segno.Self}
	})
	if n := w.counted(t, full); n != 1 {
		t.Errorf("a commit that carries everything takes %d round trips", n)
	}
	for range 1000 {
		step(func(*segno.Commit) {})()
	}
	loaded := 0
	n := w.counted(t, func() { loaded = readAll(t, s) })
	if n != 2 || loaded < 2_000_000 {
		t.Errorf("head and %d bytes of a line take %d round trips", loaded, n)
	}
}

// readAll loads the thread's line from its head and returns the length of its bodies.
func readAll(t *testing.T, s *Store) (sum int) {
	t.Helper()
	at, err := s.Head(t.Context(), "thread")
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.Load(t.Context(), at.Head, segno.Window{Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range line.Commits {
		for _, e := range x.Entries {
			sum += len(e.Body)
		}
	}
	return sum
}

// TestAnAnswerIsLost loses the answer of the server to a commit. The commit must be applied once, and its
// writer must get the head.
func TestAnAnswerIsLost(t *testing.T) {
	withAndWithoutTenant(t, loseAnswers)
}

func loseAnswers(t *testing.T, open func(string, Options, func(*pgxpool.Config)) *Store) {
	for _, patience := range []time.Duration{time.Nanosecond, 5 * time.Minute} {
		w := new(wire)
		s := open("&pool_max_conns=1", Options{Patience: patience}, w.adjust)
		head, err := s.Commit(t.Context(), base("thread"))
		for i := 0; err == nil && i < 6; i++ {
			var c segno.Commit
			if c, err = turn(t.Context(), s, head, segno.CommitID(fmt.Sprint("turn ", i))); err != nil {
				break
			}
			// A new connection prepares the statement first, and the answer to that is lost.
			w.lose.Store(i < 5 && (i%2 == 1 || patience > time.Second))
			w.tear.Store(i == 5)
			head, err = s.Commit(t.Context(), c)
			if w.lose.Load() || w.tear.Load() {
				t.Error("no answer was lost")
			}
			if err == nil && head.Head != c.ID {
				t.Errorf("after %s the head is %s", c.ID, head.Head)
			}
		}
		if err != nil {
			t.Fatalf("patience %v: %v", patience, err)
		}
		verifyWhole(t, s, "thread", []segno.CommitID{"turn 5"})
		if head.Seq != 7 {
			t.Errorf("7 commits have seq %d", head.Seq)
		}
		if patience > time.Second {
			for range 2 { // once for the preparation, once for the execution
				l := take(t, s)
				w.lose.Store(true)
				if err := s.Release(t.Context(), l); err != nil {
					t.Errorf("releasing: %v", err)
				}
			}
			if l, err := s.LeaseOf(t.Context(), "thread"); err != nil || l.Owner != "" {
				t.Errorf("the lease is %v, %v", l, err)
			}
		}
	}
}

func take(t *testing.T, s *Store) segno.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), segno.Lease{Thread: "thread", Owner: "me", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
