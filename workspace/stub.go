package workspace

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

func (d *Dir) Apply(ctx context.Context, steps []segno.Step, times segno.Hash) ([]segno.Conflict, error) {
	return nil, errors.New("todo")
}

func (d *Dir) Fork(ctx context.Context, s segno.Snapshot, dir string) (segno.ForkReport, error) {
	return segno.ForkReport{}, errors.New("todo")
}
