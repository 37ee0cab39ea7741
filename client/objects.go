package client

import (
	"context"
	"io"
	"net/http"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

type objects struct{ s *Store }

// Get implements [segno.Objects]. It checks the bytes against the name.
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	if err := o.s.calls.Begin(ctx, op); err != nil {
		return nil, err
	}
	defer o.s.calls.End()
	res, err := o.s.send(ctx, op, name.String(), http.MethodGet, "/raw/objects/"+name.String(), nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, wire.MaxObject+1))
	switch {
	case err != nil:
		return nil, failed(ctx, op, name.String(), err)
	case len(data) > wire.MaxObject:
		return nil, segno.Errorf(segno.KindInvalid, op, name.String(), "larger than %d bytes", wire.MaxObject)
	case segno.HashOf(data) != name:
		return nil, segno.Errorf(segno.KindCorrupt, op, name.String(), "the bytes do not have this hash")
	}
	return data, nil
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	const op = "find object"
	if err := o.s.calls.Begin(ctx, op); err != nil {
		return false, err
	}
	defer o.s.calls.End()
	res, err := o.s.send(ctx, op, name.String(), http.MethodHead, "/raw/objects/"+name.String(), nil, nil)
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, res.Body.Close()
}
