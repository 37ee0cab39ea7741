package sqlite

import (
	"context"
	"github.com/dalsegno/segno"
)

func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return segno.Collection{}, nil
}
func (s *Store) Check(ctx context.Context, p segno.CheckPolicy, report func(error) bool) (segno.Checked, error) {
	return segno.Checked{}, nil
}
