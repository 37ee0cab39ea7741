package codex

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opCut = "cut session"

// Cut writes the session to.Session, which ends at p and refers to no other rollout. Its first
// line has the new id and to.Dir. Cut changes no other line, except that it numbers lines without an ordinal in a session that
// has ordinals: a version of Codex that writes none continued it, and a newer one does not resume it.
//
// Bytes come from the agent's files while they still begin with p's, else from o. The file appears
// whole or not at all. An interrupted cut can be repeated: it accepts a file that already has the
// bytes that it would write. The error is [segno.KindConflict] if the session exists with other
// bytes, [segno.KindInvalid] if p has nothing to resume or to.Session is not a UUID in small
// letters, and [segno.KindCorrupt] if no copy has p's bytes.
func (c *Transcripts) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	return c.cutTo(ctx, p, to, "", o)
}

// cutTo is [Transcripts.Cut] to a path. If path is "", it takes the one at which Codex would create the session.
func (c *Transcripts) cutTo(ctx context.Context, p segno.Position, to segno.Target, path string, o segno.Objects) (segno.Source, error) {
	if err := checkCut(p, to); err != nil {
		return segno.Source{}, err
	}
	var k *writer
	err := sessionfile.FirstCopy(ctx, opCut, string(p.Session), c.copies(ctx, opCut, &p, o), func(from sessionfile.CopySource) (readErr, doErr error) {
		k = &writer{c: c, op: opCut, session: to.Session, dir: to.Dir, path: path}
		if to.Yield {
			k.time = c.timeBefore(ctx, p)
		}
		return k.write(ctx, from)
	})
	if err != nil {
		return segno.Source{}, err
	}
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, nil
}

// checkCut returns an error if the position cannot be cut.
func checkCut(p segno.Position, to segno.Target) error {
	invalid := func(why string) error {
		return segno.Errorf(segno.KindInvalid, opCut, string(p.Session), "%s", why)
	}
	switch {
	case p.Leaf == "":
		return sessionfile.EmptyError(opCut, p.Session)
	case p.Offset <= 0 || p.SHA256.IsZero():
		return invalid("the position has no bytes")
	case !filepath.IsAbs(to.Dir):
		return invalid("the directory is not absolute")
	}
	if err := sessionfile.CheckSession(opCut, p.Session); err != nil {
		return err
	}
	return checkNewSession(opCut, to.Session)
}

// timeBefore returns a time just before the newest change of a position's session, or zero if the
// session's file is gone.
func (c *Transcripts) timeBefore(ctx context.Context, p segno.Position) time.Time {
	r, _, err := c.locate(ctx, opCut, segno.Source{Session: p.Session, Path: p.Path})
	if err != nil {
		return time.Time{}
	}
	fi, err := os.Stat(r.path)
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime().Add(-time.Second)
}

// writer writes one new rollout.
type writer struct {
	c       *Transcripts
	op      string
	session segno.SessionID
	dir     string    // "" keeps the source's
	time    time.Time // of the file; zero for now
	path    string    // of the new rollout; "" until its time is known
	out     *sessionfile.Output
	more    *transcript.Conversation // to append, or nil
	ids     sessionfile.CallIDs      // of the calls in it
}

// write writes the lines of a copy and publishes the file. After readErr the caller may try
// another copy.
func (k *writer) write(ctx context.Context, from sessionfile.CopySource) (readErr, writeErr error) {
	defer func() {
		if k.out != nil {
			k.out.Close()
		}
	}()
	var m meta
	var n numbering
	readErr, writeErr = from.EachLine(ctx, func(l sessionfile.Line) error {
		if l.Offset > 0 {
			line := l.Bytes
			if m.isPaged {
				line = n.number(line)
			}
			_, err := k.out.Write(line)
			return err
		}
		var err error
		if m, err = parseMeta(bytes.Clone(l.Bytes)); err != nil {
			return segno.NewError(segno.KindCorrupt, k.op, from.Name, err)
		}
		if err := k.create(ctx, &m); err != nil {
			return err
		}
		_, err = k.out.Write(m.movedTo(k.session, k.dir))
		return err
	})
	if readErr != nil || writeErr != nil {
		return readErr, writeErr
	}
	if n.isBroken {
		return nil, segno.Errorf(segno.KindCorrupt, k.op, from.Name, "its last line has no ordinal, so Codex cannot continue it")
	}
	if k.more != nil {
		if err := k.appendConversation(&m, n.last); err != nil {
			return nil, err
		}
	}
	return nil, k.publish()
}

// create begins the file. It returns an error if the session exists elsewhere.
func (k *writer) create(ctx context.Context, m *meta) error {
	if k.path == "" {
		k.path = filepath.Join(k.c.home, filepath.FromSlash(m.fileName(k.session)))
	}
	x, err := readIndex(ctx, k.c.home)
	if err != nil {
		return err
	}
	for _, r := range x.byThread[k.session] {
		if r.path != k.path {
			return k.conflict(r.path)
		}
	}
	if link := x.links[k.session]; link != "" {
		return k.conflict(link)
	}
	if err := vfs.MkdirAllSynced(k.c.fs, filepath.Dir(k.path)); err != nil {
		return err
	}
	k.out, err = sessionfile.CreateOutput(k.c.fs, k.path)
	return err
}

func (k *writer) conflict(path string) error {
	return sessionfile.ExistsError(k.op, path)
}

// publish makes the file durable and gives it its final name.
func (k *writer) publish() error {
	if !k.time.IsZero() {
		if err := k.out.SetTime(k.time); err != nil {
			return err
		}
	}
	if err := k.out.Sync(); err != nil {
		return err
	}
	if err := k.out.Publish(); errors.Is(err, fs.ErrExist) {
		return k.conflict(k.path)
	} else if err != nil {
		return err
	}
	return k.c.fs.SyncDir(filepath.Dir(k.path))
}

// Relocate makes a session usable in dir. Codex finds a session from any directory and tells the model
// about the new directory, so Relocate leaves a session of this home unchanged. It copies a session of
// another home under its own id, up to its last whole line, with dir in its first line; the
// original remains. If the copy exists already with the same bytes, Relocate accepts it; if it has
// other bytes, the error is [segno.KindConflict]. The error is [segno.KindRefused] for a session that
// the user archived.
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	const op = "relocate session"
	if !filepath.IsAbs(dir) {
		return segno.Source{}, segno.Errorf(segno.KindInvalid, op, dir, "the directory is not absolute")
	}
	s, err := c.open(ctx, op, src)
	if err != nil {
		return segno.Source{}, err
	}
	defer s.close()
	to := segno.Source{Session: s.src.Session, Path: s.src.Path, Dir: dir}
	if home, _ := homeOf(s.src.Path); home == c.home {
		if s.file.isArchived() {
			return segno.Source{}, segno.Errorf(segno.KindRefused, op, s.src.Path, "the session is archived").WithHint("run codex unarchive " + string(to.Session))
		}
		return to, nil
	}
	k := &writer{c: c, op: op, session: to.Session, dir: dir}
	if err := k.copy(ctx, s); err != nil {
		return segno.Source{}, sessionfile.IOError(op, src.Path, err)
	}
	to.Path = k.path
	return to, nil
}

// copy writes the whole lines of a stream.
func (k *writer) copy(ctx context.Context, s *stream) error {
	p, err := s.end(ctx)
	if err != nil {
		return err
	}
	readErr, writeErr := k.write(ctx, sessionfile.CopySource{Op: k.op, Name: s.src.Path, Position: &p,
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(s.section(0, p.Offset)), nil }})
	if readErr != nil {
		return readErr
	}
	return writeErr
}
