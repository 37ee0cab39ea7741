package threadlog

import (
	"context"
	"errors"
	"io/fs"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// objects implements [segno.Objects] for a store.
type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	if err := o.s.begin(ctx, op); err != nil {
		return nil, err
	}
	data, err := o.s.logs.ReadObject(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound(op, name.String())
	case err == nil && segno.HashOf(data) != name:
		return nil, segno.Errorf(segno.KindCorrupt, op, name.String(), "its bytes do not match its name")
	}
	return data, Fail(op, name.String(), err)
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	const op = "look for object"
	if err := o.s.begin(ctx, op); err != nil {
		return false, err
	}
	missing, err := o.s.logs.Missing([]segno.Hash{name}, nil)
	return err == nil && missing.IsZero(), Fail(op, name.String(), err)
}

// Keep implements [segno.Objects].
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	_, leave, err := o.s.enter(ctx, op, true)
	if err != nil {
		return err
	}
	defer leave()
	return Fail(op, "", o.s.logs.KeepObjects(staged))
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(sink{o, o.s.logs.NewPacks()}) }

// Packs stores the objects of one batch that do not fit into memory. Its methods are safe for
// concurrent use.
type Packs interface {
	// Spill writes objects that no longer fit into the batch. It returns the objects that the
	// commit must still contain.
	Spill(objects []segno.Object) ([]segno.Object, error)
	// Finish makes the packs durable, and returns their names.
	Finish() ([]string, error)
	// Drop removes the packs.
	Drop() error
}

// sink implements [ledger.Sink] for a batch.
type sink struct {
	objects
	packs Packs
}

func (k sink) Encode(ctx context.Context, name segno.Hash, data []byte) (segno.Object, error) {
	return segno.Object{Name: name, Size: int64(len(data)), Data: append([]byte{}, data...)}, k.s.begin(ctx, "put object")
}

func (k sink) Spill(ctx context.Context, all []segno.Object) (rest []segno.Object, err error) {
	const op = "write packs"
	if err = k.s.begin(ctx, op); err == nil {
		rest, err = k.packs.Spill(all)
	}
	return rest, Fail(op, "", err)
}

func (k sink) Finish(ctx context.Context) (packs []string, err error) {
	const op = "stage objects"
	if err = k.s.begin(ctx, op); err == nil {
		packs, err = k.packs.Finish()
	}
	return packs, Fail(op, "", err)
}

func (k sink) Drop() error { return Fail("drop batch", "", k.packs.Drop()) }
