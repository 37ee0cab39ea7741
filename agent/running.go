package agent

import (
	"context"

	"github.com/dalsegno/segno"
)

// Running reports whether a run has a thread now, here or in another process.
func (a *Agent) Running(ctx context.Context, thread string) (bool, error) {
	leaser, ok := a.Store.(segno.Leaser)
	if !ok {
		return false, nil
	}
	var held segno.Lease
	err := a.retryIO(ctx, func() (err error) {
		held, err = leaser.LeaseOf(ctx, segno.ThreadID(thread))
		return err
	})
	return held.Owner != "" && !a.registry.gone(held.Owner), err
}
