package transcript

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/dalsegno/segno"
)

const opRelocate = "relocate session"

// Relocate copies a session, under its own id, to where the agent looks for the
// sessions of dir. The copy ends with the last whole line. The original stays. A
// session that is there already is left alone if it holds the same, else the
// error is [segno.KindConflict].
func (c *Claude) Relocate(ctx context.Context, src segno.Source, dir string) (segno.Source, error) {
	src, err := c.locate(ctx, opRelocate, src)
	if err != nil {
		return segno.Source{}, err
	}
	to := segno.Source{Session: src.Session, Dir: dir}
	if to.Path, err = c.place(src.Session, dir); err != nil {
		return segno.Source{}, segno.NewError(segno.KindInvalid, opRelocate, dir, err)
	}
	if to.Path == src.Path {
		_, err := os.Stat(src.Path)
		return to, ioError(opRelocate, src.Path, err)
	}
	k := &placing{c: c, op: opRelocate, path: to.Path}
	defer k.clean()
	if err := k.relocate(ctx, src); err != nil {
		return segno.Source{}, ioError(opRelocate, src.Path, err)
	}
	return to, nil
}

func (k *placing) relocate(ctx context.Context, src segno.Source) error {
	in, err := openRegular(src.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := k.begin(); err != nil {
		return err
	}
	l := newLines(in, 0)
	for {
		at, ok := l.next()
		if !ok {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := k.out.Write(at.bytes); err != nil {
			return err
		}
	}
	if _, err := l.close(); err != nil {
		return err
	}
	if err := k.out.settle(); err != nil {
		return err
	}
	list, _, err := k.c.listSidecars(src.Session, src.Path)
	if err != nil {
		return err
	}
	var beside []sidecar // the others are found by the session's id alone
	for _, s := range list {
		if strings.HasPrefix(s.path, "session/") {
			beside = append(beside, s)
		}
	}
	err = k.carry(ctx, src.Session, beside, func(s sidecar) (io.ReadCloser, error) {
		return openRegular(k.c.file(src.Session, src.Path, s.path))
	})
	if err != nil {
		return err
	}
	return k.publish()
}
