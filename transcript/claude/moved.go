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

// RemoveMoved removes the transcript at from if the one at to begins with all of its bytes and has a
// message behind them: then the agent has continued the session in its new place. RemoveMoved reports
// whether it removed the transcript. It leaves the directory of the sidecars, because the
// conversation may name absolute paths in it.
func (c *Transcripts) RemoveMoved(ctx context.Context, from, to string) (bool, error) {
	const op = "remove moved session"
	isContinued, err := continues(ctx, from, to)
	if err == nil && isContinued {
		if err = c.fs.Remove(from); err == nil {
			err = c.fs.SyncDir(filepath.Dir(from))
		}
	}
	if err = sessionfile.IOError(op, from, err); segno.KindOf(err) == segno.KindNotFound {
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
