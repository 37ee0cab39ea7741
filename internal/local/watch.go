package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace"
)

// watches are the watchers of this process. A nil watches is that of a process that watches nothing.
type watches struct {
	ctx     context.Context // of their comparisons
	private string
	logf    func(format string, args ...any)

	mu   sync.Mutex
	byID map[segno.WorkspaceID]*watchedRoot
}

// watchedRoot is a directory and its watcher, which is nil if the directory cannot be watched.
type watchedRoot struct {
	path  string
	watch *workspace.Watch
}

// Watch makes the timelines of s watch their directories until Close, so that the snapshots of turns read only the
// directories that changed. logf receives what the watchers missed; they stop looking for that when ctx ends. Watch must be called before the first timeline is opened.
func (s *Store) Watch(ctx context.Context, logf func(format string, args ...any)) {
	if !s.readOnly {
		s.watches = &watches{ctx: ctx, private: s.place.Store, logf: logf, byID: map[segno.WorkspaceID]*watchedRoot{}}
	}
}

// of returns the watcher of a workspace, or nil. It closes the one of a directory that the workspace had before.
func (ws *watches) of(rec segno.WorkspaceRecord) *workspace.Watch {
	if ws == nil {
		return nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if known := ws.byID[rec.ID]; known != nil && known.path == rec.Path {
		return known.watch
	} else if known != nil && known.watch != nil {
		_ = known.watch.Close() // it has nothing to write
	}
	w, err := workspace.NewWatch(ws.ctx, rec.Path, ws.private, func(r workspace.WatchReport) { ws.report(rec.Path, r) })
	if err != nil {
		w = nil // every scan reads every directory; some file systems cannot be watched, so that is not worth a message
	}
	ws.byID[rec.ID] = &watchedRoot{rec.Path, w}
	return w
}

// report logs the result of a comparison, unless it is as expected.
func (ws *watches) report(root string, r workspace.WatchReport) {
	switch {
	case r.Err != nil:
		ws.logf("compare %s with the last snapshot: %v", root, r.Err)
	case len(r.Missed) > 0:
		ws.logf("changes in %d directories of %s caused no event, as in %q; from now on every snapshot reads every directory", len(r.Missed), root, r.Missed[0])
	}
}

// close stops all watchers.
func (ws *watches) close() (err error) {
	if ws == nil {
		return nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byID {
		if w.watch != nil {
			err = errors.Join(err, w.watch.Close())
		}
	}
	return err
}

// ShareWatch watches a workspace and serves the snapshots of other processes until ctx ends, after a first snapshot. ready
// is called when that is done. The error has [segno.KindBusy] if another process serves the workspace.
func (s *Store) ShareWatch(ctx context.Context, rec segno.WorkspaceRecord, ready func(*workspace.Watch)) error {
	w := s.watches.of(rec)
	if w == nil {
		return segno.Errorf(segno.KindRefused, "watch", rec.Path, "this system cannot watch the directory, as on a network file system")
	}
	w.Share()
	tl, err := s.Timeline(rec, nil)
	if err != nil {
		return err
	}
	if _, err := tl.Snapshot(ctx); err != nil {
		return err
	}
	l, err := s.listenWatch(ctx, rec)
	if err != nil {
		return err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	ready(w)
	if err := w.Serve(ctx, func() (workspace.WatchConn, error) { return l.AcceptUnix() }); err != nil {
		return segno.NewError(segno.KindIO, "watch", rec.Path, err)
	}
	return nil
}

func (s *Store) listenWatch(ctx context.Context, rec segno.WorkspaceRecord) (*net.UnixListener, error) {
	unlock, err := s.Spool().Lock(ctx, "watch") // two processes may begin at once
	if err != nil {
		return nil, err
	}
	defer unlock()
	if conn, err := s.dialWatch(rec.ID); err == nil { // the kernel refuses it if no process listens any more
		_ = conn.Close()
		return nil, segno.Errorf(segno.KindBusy, "watch", rec.Path, "another process watches this directory")
	}
	dir, name := s.watchSocket(rec.ID)
	if err := vfs.MkdirAll(s.place.fs(), dir); err != nil {
		return nil, segno.NewError(segno.KindIO, "watch", rec.Path, err)
	}
	path := filepath.Join(dir, name)
	if err := s.place.fs().Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return nil, segno.NewError(segno.KindIO, "watch", rec.Path, err)
	}
	var l *net.UnixListener
	err = inShortDir(dir, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, name), Net: "unix"})
		return err
	})
	if err == nil {
		l.SetUnlinkOnClose(false) // its path is of a descriptor that is closed; the next process removes the socket
		err = s.place.fs().Chmod(path, 0o600)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "watch", rec.Path, err)
	}
	return l, nil
}

// WatchStats returns the counts of the process that serves a workspace.
func (s *Store) WatchStats(id segno.WorkspaceID) (workspace.WatchStats, error) {
	conn, err := s.dialWatch(id)
	if err != nil {
		return workspace.WatchStats{}, err
	}
	return workspace.ReadWatchStats(conn)
}

// dialWatch connects to the process that serves a workspace.
func (s *Store) dialWatch(id segno.WorkspaceID) (conn *net.UnixConn, err error) {
	dir, name := s.watchSocket(id)
	err = inShortDir(dir, func(short string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(short, name), Net: "unix"})
		return err
	})
	return conn, err
}

func (s *Store) watchSocket(id segno.WorkspaceID) (dir, name string) {
	return filepath.Join(s.place.Store, "watch"), segno.DerivedID("watch", string(id))
}

// inShortDir calls do with a short path of a directory, because the path of a socket has at most 107 bytes.
func inShortDir(dir string, do func(short string) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
