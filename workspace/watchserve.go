package workspace

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/dalsegno/segno/workspace/internal/watch"
)

// A process with a [Watch] serves the scans of short processes, such as hooks, over a Unix socket. A client sends requests, each
// a byte and its fields, and numbers are little endian:
//
//	S token                 read all events; the answer is the token of this moment, a byte that is 1 unless the watcher has
//	                        missed a change, the device, the number of watched directories (4 bytes) and, for each, its
//	                        inode (8 bytes) and a byte that is 1 if it did not change since the token of the request
//	M inode, length, path   watch the directory at a path (2 bytes of length) below the root, before the client lists it; the
//	                        answer is a byte that is 1 if the directory is watched
//	I                       the answer is the length (4 bytes) and the JSON of the watcher's [WatchStats]
//
// A token is 16 and 8 bytes. Both sides are of one user, but a process of any age may be at either end: each side
// reads no more than the limits below.
const (
	maxServed      = 16                    // connections at a time
	maxServedDirs  = 1 << 20               // directories in an answer
	maxServedStats = 64 << 10              // bytes of statistics
	maxServedMarks = 512                   // directories that one scan adds
	requestWait    = 5 * time.Second       // for the next request of a connection
	answerWait     = 15 * time.Millisecond // for an answer: a scan of everything would take not much longer
	statsWait      = 2 * time.Second       // for the statistics, for which no agent waits
)

// Share makes scans of w save the index for other processes. It must be called before the first scan.
func (w *Watch) Share() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = true
}

// WatchConn is one end of a Unix socket between a process that watches a tree and one that scans it: a *net.UnixConn. It is an
// interface because segno-hook imports this package: a program with package net is linked with C by default, and starts later.
type WatchConn interface {
	io.ReadWriteCloser
	syscall.Conn
	SetDeadline(time.Time) error
}

// Serve answers the scans of other processes until ctx ends. accept returns the next connection, or an error once ctx has ended.
func (w *Watch) Serve(ctx context.Context, accept func() (WatchConn, error)) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	free := make(chan struct{}, maxServed)
	for {
		conn, err := accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case free <- struct{}{}:
		default: // the client scans everything
			_ = conn.Close()
			continue
		}
		wait.Go(func() {
			defer func() { <-free }()
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			if watch.IsSameUser(conn) {
				_ = w.serve(conn) // the client scans everything after an error
			}
		})
	}
}

// serve answers the requests of one connection.
func (w *Watch) serve(conn WatchConn) error {
	for {
		if err := conn.SetDeadline(time.Now().Add(requestWait)); err != nil {
			return err
		}
		var kind [1]byte
		if _, err := io.ReadFull(conn, kind[:]); err != nil {
			return err
		}
		var answer []byte
		var err error
		switch kind[0] {
		case 'S':
			answer, err = w.serveSync(conn)
		case 'M':
			answer, err = w.serveMark(conn)
		case 'I':
			var stats []byte
			stats, err = json.Marshal(w.Stats())
			answer = append(binary.LittleEndian.AppendUint32(nil, uint32(len(stats))), stats...)
		default:
			return errors.New("an unknown request")
		}
		if err != nil {
			return err
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

func (w *Watch) serveSync(conn io.Reader) (answer []byte, err error) {
	var since watch.Token
	if err := binary.Read(conn, binary.LittleEndian, &since); err != nil {
		return nil, err
	}
	now, err := w.in.Sync()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.stats.Served++
	trusted := w.stats.Missed == 0
	w.mu.Unlock()
	w.noteScan()
	dirs := w.in.Marked(since)
	answer = binary.LittleEndian.AppendUint64(append(answer, now.Watcher[:]...), now.Seq)
	answer = append(answer, byteOf(trusted))
	var dev uint64
	for d := range dirs { // all are of one device
		dev = d.Dev
		break
	}
	answer = binary.LittleEndian.AppendUint64(answer, dev)
	answer = binary.LittleEndian.AppendUint32(answer, uint32(len(dirs)))
	for d, unchanged := range dirs {
		answer = append(binary.LittleEndian.AppendUint64(answer, d.Ino), byteOf(unchanged))
	}
	return answer, nil
}

func (w *Watch) serveMark(conn io.Reader) ([]byte, error) {
	var head struct {
		Ino uint64
		Len uint16
	}
	if err := binary.Read(conn, binary.LittleEndian, &head); err != nil {
		return nil, err
	}
	path := make([]byte, head.Len)
	if _, err := io.ReadFull(conn, path); err != nil {
		return nil, err
	}
	return []byte{byteOf(w.markPath(string(path), head.Ino))}, nil
}

// markPath watches the directory at a path below the root if it has the inode that the client sees there. The directory counts
// as changed until the next scan: this process may be late, and the client may have listed the directory before.
func (w *Watch) markPath(path string, ino uint64) bool {
	root, err := openRoot(w.root)
	if err != nil {
		return false
	}
	defer root.close()
	dir, err := root.openDir(path)
	if err != nil {
		return false
	}
	defer dir.close()
	st, err := dir.lstat("")
	if err != nil || st.ino != ino {
		return false
	}
	now, err := w.in.Sync()
	return err == nil && w.in.Mark(dir.fd, watch.Dir{Dev: st.dev, Ino: st.ino}, now) == nil
}

func byteOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// watchClient asks the process that watches a tree. Its methods may be called concurrently.
type watchClient struct {
	mu     sync.Mutex
	conn   WatchConn
	marks  int                // requests to watch a directory so far
	marked map[watch.Dir]bool // the watched directories; true if unchanged
}

// beginRemote is [Watch.begin] with the watcher of another process. It returns nil if that process does not answer at once.
func beginRemote(conn WatchConn, since watch.Token) *watched {
	c := &watchClient{conn: conn}
	if !watch.IsSameUser(conn) {
		_ = conn.Close()
		return nil
	}
	out := &watched{in: c, since: since, shared: true, close: func() { _ = conn.Close() }}
	if err := c.sync(out); err != nil {
		out.close()
		return nil
	}
	return out
}

func (c *watchClient) sync(out *watched) error {
	request := append([]byte{'S'}, out.since.Watcher[:]...)
	if err := c.ask(binary.LittleEndian.AppendUint64(request, out.since.Seq), answerWait); err != nil {
		return err
	}
	var head struct {
		Now     watch.Token
		Trusted bool
		Dev     uint64
		Count   uint32
	}
	if err := binary.Read(c.conn, binary.LittleEndian, &head); err != nil {
		return err
	}
	if head.Count > maxServedDirs {
		return errors.New("an answer with too many directories")
	}
	const size = 9
	dirs := make([]byte, size*int(head.Count))
	if _, err := io.ReadFull(c.conn, dirs); err != nil {
		return err
	}
	c.marked = make(map[watch.Dir]bool, head.Count)
	for ; len(dirs) > 0; dirs = dirs[size:] {
		c.marked[watch.Dir{Dev: head.Dev, Ino: binary.LittleEndian.Uint64(dirs)}] = dirs[size-1] == 1
	}
	out.now, out.trusted = head.Now, head.Trusted
	return nil
}

// ask sends a request and limits the time for its answer.
func (c *watchClient) ask(request []byte, wait time.Duration) error {
	if err := c.conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	_, err := c.conn.Write(request)
	return err
}

// IsMarked implements [directories].
func (c *watchClient) IsMarked(d watch.Dir) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.marked[d]
	return ok
}

// IsUnchanged implements [directories] for the token of the newest answer.
func (c *watchClient) IsUnchanged(d watch.Dir, _ watch.Token) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marked[d]
}

// Mark implements [directories]. After an error, or many directories, it asks no more.
func (c *watchClient) Mark(_ int, path string, d watch.Dir, _ watch.Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.marks++; c.marks > maxServedMarks || len(path) > 1<<16-1 {
		return watch.ErrUnsupported
	}
	request := binary.LittleEndian.AppendUint64([]byte{'M'}, d.Ino)
	request = binary.LittleEndian.AppendUint16(request, uint16(len(path)))
	var answer [1]byte
	err := c.ask(append(request, path...), answerWait)
	if err == nil {
		_, err = io.ReadFull(c.conn, answer[:])
	}
	if err != nil {
		c.marks = maxServedMarks
		return err
	}
	if answer[0] == 1 {
		c.marked[d] = false
	}
	return nil
}

// ReadWatchStats asks the process at the other end of conn for its statistics, and closes conn.
func ReadWatchStats(conn WatchConn) (s WatchStats, err error) {
	defer conn.Close()
	c := &watchClient{conn: conn}
	if err := c.ask([]byte{'I'}, statsWait); err != nil {
		return s, err
	}
	var size uint32
	if err := binary.Read(conn, binary.LittleEndian, &size); err != nil {
		return s, err
	}
	if size > maxServedStats {
		return s, errors.New("an answer with too many statistics")
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(conn, data); err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}
