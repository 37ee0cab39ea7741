package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
)

// fileStamp identifies the state of a session's file. An equal stamp proves that the file is unchanged, because the
// kernel moves the ctime of a file at each write(2) and truncation, at a change of its mtime (as by touch, or by a
// copy that preserves times) and at a rename over it, and a program cannot set the ctime. Three things would hide a
// change: a clock of the file system that was set back to the same nanosecond; a write in the same tick of that clock
// as the stat, against which [sessionIndex.add] waits; and a store to a mapped page that leaves the size as it is,
// which no agent does. The zero fileStamp is equal to none.
type fileStamp struct {
	Device, Inode           uint64
	Size, Modified, Changed int64 // the times are in nanoseconds
}

// stampTick is how much older than its stamp a file must be. It is longer than the coarsest clock tick of a file
// system, two seconds. A younger session is read again the next time.
const stampTick = 2500 * time.Millisecond

// stampOf returns the stamp of a session's file, or zero if other sessions share the file or it cannot be read.
func stampOf(f *transcript.SessionFile) (s fileStamp) {
	var st unix.Stat_t
	if f.IsShared || unix.Stat(f.Path, &st) != nil {
		return s
	}
	return fileStamp{Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}
}

// sessionKey names a session in the index.
type sessionKey struct {
	Agent   string
	Session segno.SessionID
	Path    string
}

func keyOf(f *FoundSession) sessionKey { return sessionKey{f.Agent, f.Session, f.Path} }

// indexedSession is the index's record of a session.
type indexedSession struct {
	Stamp  fileStamp
	Header transcript.SessionHeader
	// Thread is the thread that has, at its state Seq, the conversation up to the header's End. It is "" if no
	// such thread is known.
	Thread segno.ThreadID
	Seq    int64
	// Others is the stamp of the session's other files; see [transcript.OtherFiles]. They do not change the header.
	Others uint64
	// IsChanged means that nothing has compared the session with the store since its files got these stamps.
	IsChanged bool
}

// sessionIndex stores the headers of sessions between commands, and which of the sessions the store has. A command
// then reads only the changed sessions. The index is a cache: a missing or damaged file counts as an empty index. One
// command may replace the file of another; later commands read the sessions of the lost records again. It exists also
// without a store, in the directory that the store would have.
type sessionIndex struct {
	sessions  map[sessionKey]indexedSession
	isChanged bool
}

func newSessionIndex() *sessionIndex {
	return &sessionIndex{sessions: map[sessionKey]indexedSession{}}
}

const sessionIndexHead = "segno-sessions 3\n"

// maxSessionIndex is the size of the largest file that is read as an index: some hundred thousand sessions.
const maxSessionIndex = 256 << 20

func (p Place) sessionIndexFile() string { return filepath.Join(p.Store, "index", "sessions") }

// readSessionIndex returns the index of the store, or an empty index if there is none.
func (s *Store) readSessionIndex() *sessionIndex { return s.place.readSessionIndex(s.hold) }

// readSessionIndex is the method of [Store] for a place whose store may not exist. The zero hold reads an index that is
// not sealed.
func (p Place) readSessionIndex(h *hold) *sessionIndex {
	x, name := newSessionIndex(), p.sessionIndexFile()
	f, err := vfs.OpenRegular(name)
	if err != nil {
		return x
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSessionIndex))
	if err == nil {
		data, err = h.keys.Files.Open(data, spool.Place(name)...)
	}
	data, ok := bytes.CutPrefix(data, []byte(sessionIndexHead))
	if err != nil || !ok || len(data) < crc32.Size {
		return x
	}
	sum, data := binary.LittleEndian.Uint32(data), data[crc32.Size:]
	if crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) != sum || gob.NewDecoder(bytes.NewReader(data)).Decode(&x.sessions) != nil {
		clear(x.sessions)
	}
	return x
}

// save writes the index if it has changed.
func (x *sessionIndex) save(s *Store) error {
	if s.readOnly {
		return nil
	}
	return x.write(s.place, s.hold)
}

// saveWithoutStore is save for a place that had no store. It takes the lock of the store's form, because another process
// may meanwhile have made a store and sealed it.
func (x *sessionIndex) saveWithoutStore(ctx context.Context, p Place) error {
	if !x.isChanged {
		return nil
	}
	if err := p.CheckOwner(); err != nil {
		return err
	}
	if err := vfs.MkdirAll(p.fs(), p.Store); err != nil {
		return err
	}
	h, err := p.hold(ctx, false)
	if err != nil {
		return err
	}
	return errors.Join(x.write(p, h), h.lock.Release())
}

// write writes the index if it has changed. It leaves out the sessions whose files no longer exist.
func (x *sessionIndex) write(p Place, h *hold) error {
	if !x.isChanged {
		return nil
	}
	for key := range x.sessions {
		if _, err := os.Lstat(key.Path); errors.Is(err, fs.ErrNotExist) {
			delete(x.sessions, key)
		}
	}
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(x.sessions); err != nil {
		return segno.NewError(segno.KindInternal, "write index of sessions", "", err)
	}
	data := binary.LittleEndian.AppendUint32([]byte(sessionIndexHead), crc32.Checksum(body.Bytes(), crc32.MakeTable(crc32.Castagnoli)))
	name := p.sessionIndexFile()
	err := vfs.MkdirAll(p.fs(), filepath.Dir(name))
	if err == nil {
		err = vfs.Replace(p.fs(), name, h.keys.Files.Seal(append(data, body.Bytes()...), spool.Place(name)...), 0o600)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "write index of sessions", name, err)
	}
	x.isChanged = false
	return nil
}

// find returns the index's record of a session. isSame reports whether the record has this stamp, so that the file has
// not changed since.
func (x *sessionIndex) find(key sessionKey, stamp fileStamp) (in indexedSession, isSame bool) {
	in = x.sessions[key]
	return in, in.Stamp == stamp && stamp != fileStamp{}
}

// mayHaveChanged reports whether a session may have changed since it was last compared with the store.
func (x *sessionIndex) mayHaveChanged(key sessionKey, stamp fileStamp, others uint64) bool {
	in, isSame := x.find(key, stamp)
	return !isSame || in.IsChanged || in.Others != others
}

// add adds a session. The caller took its stamp no earlier than now, and then read the session. If the file could
// still change without a change of its stamp, add stores the session without a stamp.
func (x *sessionIndex) add(key sessionKey, now time.Time, in indexedSession) {
	in.IsChanged = x.mayHaveChanged(key, in.Stamp, in.Others)
	if now.UnixNano()-max(in.Stamp.Modified, in.Stamp.Changed) < int64(stampTick) {
		in = indexedSession{IsChanged: true}
	}
	if x.sessions[key] != in {
		x.sessions[key], x.isChanged = in, true
	}
}

// setKept records that the conversation of a session was compared with the store. Unless offset is 0, it also records
// that the thread of head has the conversation up to this offset.
func (x *sessionIndex) setKept(key sessionKey, head segno.Head, offset int64) {
	in, ok := x.sessions[key]
	if !ok {
		return
	}
	if in.IsChanged = false; offset > 0 && offset >= in.Header.End {
		in.Thread, in.Seq = head.Thread, head.Seq
	}
	if x.sessions[key] != in {
		x.sessions[key], x.isChanged = in, true
	}
}

// forgetKept removes from the index which threads have the conversations of sessions. A collection calls it, because
// it removes checkpoints without a change of the state of their thread.
func (s *Store) forgetKept() {
	x := s.readSessionIndex()
	for key, in := range x.sessions {
		if in.Thread != "" {
			in.Thread, in.Seq = "", 0
			x.sessions[key], x.isChanged = in, true
		}
	}
	_ = x.save(s)
}
