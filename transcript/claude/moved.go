package claude

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// RemoveMoved removes the transcript at the path source, if the transcript at the path copied begins with
// the same bytes and has a message after them: then the agent has continued the session in its new
// place. RemoveMoved reports whether it removed the source. It leaves the directory of the sidecars,
// because the conversation may name absolute paths in it.
func (c *Transcripts) RemoveMoved(ctx context.Context, source, copied string) (bool, error) {
	const op = "remove moved session"
	isContinued, err := continues(ctx, source, copied)
	if err == nil && isContinued {
		if err = c.fs.Remove(source); err == nil {
			err = c.fs.SyncDir(filepath.Dir(source))
		}
	}
	if err = sessionfile.IOError(op, source, err); segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	return isContinued && err == nil, err
}

// continues reports whether the transcript at to begins with the bytes of the one at from and has a
// message behind them.
func continues(ctx context.Context, from, to string) (bool, error) {
	a, err := vfs.OpenRegular(from)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := vfs.OpenRegular(to)
	if err != nil {
		return false, err
	}
	defer b.Close()
	size, err := a.Stat()
	if err != nil {
		return false, err
	}
	if same, err := samePrefix(ctx, a, b, size.Size()); err != nil || !same {
		return false, err
	}
	found := false
	_, err = readTail(b, size.Size(), func(r *record) bool {
		found = r.kind == kindAssistant && !r.isSidechain
		return !found
	})
	return found, err
}

// samePrefix reports whether two files have the same first bytes.
func samePrefix(ctx context.Context, a, b *os.File, size int64) (bool, error) {
	const step = 256 << 10
	one, two := make([]byte, step), make([]byte, step)
	for at := int64(0); at < size; at += step {
		n := min(step, size-at)
		for _, in := range []struct {
			f   *os.File
			buf []byte
		}{{a, one[:n]}, {b, two[:n]}} {
			if _, err := in.f.ReadAt(in.buf, at); errors.Is(err, io.EOF) {
				return false, nil
			} else if err != nil {
				return false, err
			}
		}
		if !bytes.Equal(one[:n], two[:n]) || ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return true, nil
}
