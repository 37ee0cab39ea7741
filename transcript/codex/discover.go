package codex

import (
	"bytes"
	"context"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var (
	_ transcript.Discovery    = (*Transcripts)(nil)
	_ transcript.Restorer     = (*Transcripts)(nil)
	_ transcript.TurnCapturer = (*Transcripts)(nil)
)

const opList = "list sessions"

// edgeSize is the number of bytes that Header reads at each end of a rollout that it does not read whole.
const edgeSize = 64 << 10

// Sessions yields the rollouts that Codex continues, one for each session, archived ones included.
func (c *Transcripts) Sessions(ctx context.Context) iter.Seq2[transcript.SessionFile, error] {
	return func(yield func(transcript.SessionFile, error) bool) {
		x, err := readIndex(ctx, c.home)
		if err != nil && !yield(transcript.SessionFile{}, sessionfile.IOError(opList, c.home, err)) {
			return
		}
		for _, path := range x.links {
			if !yield(transcript.SessionFile{}, segno.Errorf(segno.KindInvalid, opList, path, "the rollout is not a plain file")) {
				return
			}
		}
		for thread := range x.byThread {
			r, _ := x.current(thread)
			fi, err := os.Lstat(r.path)
			if err != nil && sessionfile.IgnoreMissing(err) == nil {
				continue
			}
			f := transcript.SessionFile{Session: thread, Path: r.path}
			if err == nil {
				f.Bytes, f.Modified = fi.Size(), fi.ModTime()
			}
			if !yield(f, sessionfile.IOError(opList, r.path, err)) {
				return
			}
		}
	}
}

// Header reads a rollout of at most the given size whole, and 64 KiB at each end of a larger one.
// It does not count the turns of a compressed rollout. The header of a fork covers its whole lineage.
func (c *Transcripts) Header(ctx context.Context, file transcript.SessionFile, most int64) (transcript.SessionHeader, error) {
	const op = "read session"
	r, ok := parseName(file.Path)
	if !ok {
		return transcript.SessionHeader{}, segno.Errorf(segno.KindInvalid, op, file.Path, "it is no rollout")
	}
	f, err := vfs.OpenRegular(r.path)
	if err != nil {
		return transcript.SessionHeader{}, sessionfile.IOError(op, r.path, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return transcript.SessionHeader{}, sessionfile.IOError(op, r.path, err)
	}
	h := &header{most: max(most, 2*edgeSize)}
	in, size := io.ReaderAt(f), fi.Size()
	if r.isCompressed() {
		start, err := readCompressedStart(ctx, f)
		if err != nil {
			return transcript.SessionHeader{}, sessionfile.IOError(op, r.path, err)
		}
		in, size, h.isCut = bytes.NewReader(start), int64(len(start)), true
	}
	if err := h.read(ctx, in, size); err != nil {
		return transcript.SessionHeader{}, sessionfile.IOError(op, r.path, err)
	}
	switch {
	case r.isCompressed():
		h.end = math.MaxInt64 // not known without decompressing all
	case h.hasBase:
		return c.lineageHeader(ctx, op, file, h)
	}
	return h.result(), nil
}

// readCompressedStart returns the first decompressed bytes of a rollout.
func readCompressedStart(ctx context.Context, f *os.File) ([]byte, error) {
	z := &compressedFile{ctx: ctx, file: f}
	err := z.restart()
	if z.in != nil {
		defer z.in.Close()
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(readerFunc(z.read), edgeSize))
}

// header collects the facts at the beginning and the end of a rollout.
type header struct {
	most    int64
	isCut   bool // the rollout was not read whole
	hasBase bool // the beginning of the session is in another rollout
	history history
	dir     string // the directory in the first line
	end     int64

	isSubagent bool
}

func (h *header) read(ctx context.Context, in io.ReaderAt, size int64) error {
	h.history.ordinal = -1
	if h.isCut = h.isCut || size > h.most; !h.isCut {
		return h.readPart(ctx, in, 0, size)
	}
	err := h.readPart(ctx, in, 0, min(size, edgeSize))
	if from := size - edgeSize; err == nil && from > 0 {
		h.end = 0
		if err = h.readPart(ctx, in, from, size); h.end == 0 {
			h.end = size // the last line is longer than the part that was read
		}
	}
	return err
}

// readPart reads the whole lines between two offsets. If the part begins within a line, the rest of
// that line counts as damage, which readPart ignores.
func (h *header) readPart(ctx context.Context, in io.ReaderAt, from, to int64) error {
	l := sessionfile.NewLineReader(io.NewSectionReader(in, from, to-from), from)
	var r record
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if at.Offset == 0 {
			m, err := parseMeta(at.Bytes)
			if err != nil {
				return segno.NewError(segno.KindInvalid, "", "", err)
			}
			h.dir, h.hasBase, h.history.isPaged, h.isSubagent = m.dir, m.base != nil, m.isPaged, m.isSubagent
		}
		if r.parse(at.Bytes) != nil {
			continue
		}
		h.history.add(&r, at.Offset, l.Offset)
		switch r.kind {
		case kindPrompt, kindOutput, kindEnd, kindInput:
			h.end = l.Offset
		}
	}
	_, err := l.End()
	return err
}

func (h *header) result() transcript.SessionHeader {
	out := transcript.SessionHeader{Dir: h.dir, Turns: -1, End: h.end, HasNoTurn: h.isSubagent || !h.isCut && len(h.history.turns) == 0}
	if h.history.dir != "" {
		out.Dir = h.history.dir
	}
	if len(h.history.turns) > 0 {
		out.Title = strings.TrimSpace(h.history.turns[0].prompt)
	}
	if !h.isCut {
		out.Turns = len(h.history.turns)
	}
	if len(h.history.turns) == 0 && !h.isCut {
		out.End = 0
	}
	return out
}

// lineageHeader returns the header of a session whose beginning is in other rollouts. Offsets of
// positions count bytes of the whole lineage.
func (c *Transcripts) lineageHeader(ctx context.Context, op string, file transcript.SessionFile, h *header) (transcript.SessionHeader, error) {
	s, err := c.open(ctx, op, segno.Source{Session: file.Session, Path: file.Path})
	if err != nil {
		return transcript.SessionHeader{}, err
	}
	defer s.close()
	all := &header{most: h.most}
	if err := all.read(ctx, s, s.size); err != nil {
		return transcript.SessionHeader{}, sessionfile.IOError(op, file.Path, err)
	}
	out, own := all.result(), h.result()
	out.FromOthers, out.HasNoTurn = true, own.HasNoTurn
	if own.Title != "" {
		out.Title = own.Title // the first prompt after the fork
	}
	return out, nil
}

// Running returns the sessions that a Codex process has loaded. The process holds a lock on a file
// for each of them. The lock does not show which process holds it, so the process id is -1.
func (c *Transcripts) Running(ctx context.Context) map[segno.SessionID]int {
	out := map[segno.SessionID]int{}
	names, _ := filepath.Glob(filepath.Join(c.home, "thread-writer-locks", "*.lock"))
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		if isLocked(name) {
			out[segno.SessionID(strings.TrimSuffix(filepath.Base(name), ".lock"))] = -1
		}
	}
	return out
}

// isLocked reports whether another process holds a lock on a file. It takes a shared lock for a moment.
func isLocked(name string) bool {
	f, err := vfs.OpenRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return true
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing the file unlocks it, too
	return false
}

// Retention returns false: Codex deletes no sessions.
func (c *Transcripts) Retention() (time.Duration, bool) { return 0, false }

// Restore writes a deleted session back under its own id. If the old file had all lines of the
// session, the new one gets the same path: Codex may have a row with that path in its database, and
// then looks nowhere else. Restore cannot derive the path from the content, because Codex names a
// file after the local time, which the file does not contain.
func (c *Transcripts) Restore(ctx context.Context, p segno.Position, dir string, o segno.Objects) (segno.Source, error) {
	const op = "restore session"
	x, err := readIndex(ctx, c.home)
	if err != nil {
		return segno.Source{}, sessionfile.IOError(op, c.home, err)
	}
	if r, ok := x.current(p.Session); ok {
		return segno.Source{}, sessionfile.ExistsError(op, r.path)
	}
	path := p.Path
	home, at := homeOf(path)
	if r, ok := parseName(path); !ok || r.id != string(p.Session) || r.isCompressed() || home != c.home || at != dirSessions {
		path = ""
	}
	return c.cutTo(ctx, p, segno.Target{Session: p.Session, Dir: dir}, path, o)
}
