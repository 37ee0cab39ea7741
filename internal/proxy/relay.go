package proxy

import (
	"context"
	"io"
)

// relay passes everything on as it is, for a user who would rather have that than
// nothing when there is no store: it ends when one of the two sides does.
func (p *proxy) relay(ctx context.Context) error {
	proc, err := launch(p.ctx, 1, p.Config)
	if err != nil {
		p.refuse(ctx, err)
		return err
	}
	p.work.Go(proc.reap)
	p.work.Go(func() {
		_, _ = io.Copy(p.Stdout, proc.out) // it ends with the agent, or with a client that reads no more
		proc.kill()
		proc.out.Close()
		proc.leave()
	})
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = io.Copy(proc.stdin, p.Stdin)
	}()
	select {
	case <-left:
	case <-proc.gone:
	case <-ctx.Done():
	}
	p.endAgent(proc)
	p.work.Wait()
	return nil
}
