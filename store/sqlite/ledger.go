package sqlite

import (
	"fmt"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// The records beside the tree, each sealed to the row it is in.

func (s *Store) readThread(id segno.ThreadID, rec []byte) (t segno.Thread, err error) {
	if rec, err = s.seal.Open(rec, "thread", string(id)); err == nil {
		t, err = record.DecodeThread(id, rec)
	}
	return t, damaged("read thread", string(id), err)
}

func (s *Store) sealLink(rec []byte, thread segno.ThreadID, n int64) []byte {
	if s.seal == nil {
		return rec
	}
	return s.seal.Seal(rec, "link", string(thread), strconv.FormatInt(n, 10))
}

func (s *Store) readLink(rec []byte, thread segno.ThreadID, n int64) (l segno.Link, err error) {
	if s.seal != nil {
		rec, err = s.seal.Open(rec, "link", string(thread), strconv.FormatInt(n, 10))
	}
	if err == nil {
		l, err = record.DecodeLink(rec)
	}
	return l, damaged("read link", string(thread), err)
}

func (s *Store) readOperation(id segno.OperationID, workspace segno.WorkspaceID, rec []byte) (o segno.Operation, err error) {
	if rec, err = s.seal.Open(rec, "operation", string(workspace), string(id)); err == nil {
		o, err = record.DecodeOperation(id, workspace, rec)
	}
	return o, damaged("read operation", string(id), err)
}

// readWorkspace reads a workspace's two records; state may be nil.
func (s *Store) readWorkspace(id segno.WorkspaceID, rec, state []byte) (w segno.WorkspaceRecord, err error) {
	rec, err = s.seal.Open(rec, "workspace", string(id))
	if err == nil && state != nil {
		state, err = s.seal.Open(state, "state", string(id))
	}
	if err == nil {
		w, err = record.JoinWorkspace(id, rec, state)
	}
	return w, damaged("read workspace", string(id), err)
}

func (s *Store) readState(id segno.WorkspaceID, rec []byte) (state segno.WorkspaceState, err error) {
	if rec, err = s.seal.Open(rec, "state", string(id)); err == nil {
		state, err = record.DecodeState(id, rec)
	}
	return state, damaged("read workspace", string(id), err)
}

// stand returns what a workspace is found by in the database: in a sealed store
// something that stands for its path, and for device and inode together.
func (s *Store) stand(path string, device, inode uint64) (at []byte, dev, ino int64) {
	at, dev, ino = []byte(s.seal.Name("path", path)), int64(device), int64(inode)
	if s.seal != nil && inode != 0 {
		dev, ino = 0, s.seal.Term("inode", fmt.Sprint(device, " ", inode))
	}
	return at, dev, ino
}
