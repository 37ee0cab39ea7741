package transcript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/dalsegno/segno"
)

// sidecars puts p's sidecars beside the new transcript. Where the position lists
// none, those the session has now are taken.
func (k *cutting) sidecars(ctx context.Context) error {
	from := k.p.Path
	if paths, _ := k.c.files(k.p.Session); len(paths) > 0 && from == "" {
		from = paths[0]
	}
	list, err := k.listed(ctx, from)
	if err != nil {
		return err
	}
	return k.carry(ctx, k.to.Session, list, func(s sidecar) (io.ReadCloser, error) { return k.openSidecar(ctx, s, from) })
}

// listed returns the sidecars to carry. A transcript that was at from has them
// beside it.
func (k *cutting) listed(ctx context.Context, from string) ([]sidecar, error) {
	if k.p.Sidecars.IsZero() || k.objects == nil {
		if from == "" {
			return nil, nil
		}
		list, _, err := k.c.listSidecars(k.p.Session, from)
		return list, err
	}
	data, err := k.objects.Get(ctx, k.p.Sidecars)
	if err != nil {
		return nil, fmt.Errorf("read sidecars: %w", err)
	}
	return decodeSidecars(data)
}

// readRegular reads a sidecar of the agent's, as far as one is captured.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSidecar))
}

// openSidecar opens a sidecar's stored content, or the agent's own file if that
// holds the same or nothing is stored.
func (k *cutting) openSidecar(ctx context.Context, s sidecar, transcript string) (io.ReadCloser, error) {
	theirs := k.c.file(k.p.Session, transcript, s.path)
	switch {
	case s.name.IsZero():
		return openRegular(theirs)
	case s.long:
		r, err := openLog(ctx, k.objects, s.name, s.size)
		return io.NopCloser(r), err
	}
	data, err := k.objects.Get(ctx, s.name)
	if segno.KindOf(err) == segno.KindNotFound {
		if own, readErr := readRegular(theirs); readErr == nil && sha256.Sum256(own) == s.name {
			data, err = own, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read sidecar %s: %w", s.path, err)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}
