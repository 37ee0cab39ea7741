package claude

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/dalsegno/segno"
)

// Relocate copies a session, under its own id, to where the agent looks for the
// sessions of dir. The copy ends with the last whole line. The original remains. If
// the session is there already, Relocate accepts it if it has the same bytes, else the
// error is [segno.KindConflict].
func (c *Transcripts) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	const op = "relocate session"
	src, err := c.resolve(ctx, op, src)
	if err != nil {
		return segno.Source{}, err
	}
	to := segno.Source{Session: src.Session, Dir: dir}
	if to.Path, err = c.path(src.Session, dir); err != nil {
		return segno.Source{}, segno.NewError(segno.KindInvalid, op, dir, err)
	}
	if to.Path == src.Path {
		_, err := os.Stat(src.Path)
		return to, ioError(op, src.Path, err)
	}
	k := &installer{c: c, op: op, path: to.Path}
	defer k.cleanup()
	if err := k.copy(ctx, src); err != nil {
		return segno.Source{}, ioError(op, src.Path, err)
	}
	return to, nil
}

// copy installs a copy of src.
func (k *installer) copy(ctx context.Context, src segno.Source) error {
	in, err := openRegular(src.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := k.begin(); err != nil {
		return err
	}
	l := newLineReader(in, 0)
	for at := range l.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := k.out.Write(at.bytes); err != nil {
			return err
		}
	}
	if _, err := l.end(); err != nil {
		return err
	}
	if err := k.out.sync(); err != nil {
		return err
	}
	list, _, err := k.c.listSidecars(src.Session, src.Path)
	if err != nil {
		return err
	}
	var beside []sidecar // the agent finds the others by the session's id alone
	for _, s := range list {
		if strings.HasPrefix(s.path, "session/") {
			beside = append(beside, s)
		}
	}
	err = k.writeSidecars(ctx, src.Session, beside, func(s sidecar) (io.ReadCloser, error) {
		return openRegular(k.c.sidecarFile(src.Session, src.Path, s.path))
	})
	if err != nil {
		return err
	}
	return k.publish()
}

// Prefer makes a session the newest of its project, so that the agent's "continue the
// newest session" finds it. Its bytes stay as they are.
func (c *Transcripts) Prefer(ctx context.Context, src segno.Source) error {
	const op = "prefer session"
	src, err := c.resolve(ctx, op, src)
	if err != nil {
		return err
	}
	now := c.now()
	return ioError(op, src.Path, c.fs.Chtimes(src.Path, now, now))
}
