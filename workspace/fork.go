package workspace

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

func (d *Dir) Fork(ctx context.Context, s segno.Snapshot, dir string) (segno.ForkReport, error) {
	return segno.ForkReport{}, errors.New("todo")
}
