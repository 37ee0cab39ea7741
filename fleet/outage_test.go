package fleet

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cutter is between a fleet and its server: it ends the connection at some of the answers, which the server has then executed.
type cutter struct {
	every   atomic.Int64 // ends each n-th connection; 0: none
	answers atomic.Int64
	cuts    atomic.Int64
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (c cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if every := c.c.every.Load(); every > 0 && c.c.answers.Add(1)%every == 0 {
		c.c.cuts.Add(1)
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// TestLostConnectionsLoseNoPrompt ends connections of the fleet at their answers while its worker runs. Each prompt is answered once.
func TestLostConnectionsLoseNoPrompt(t *testing.T) {
	for _, seed := range soak.Seeds(t, 1, 60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { loseConnections(t, 15+int64(seed%50)) })
	}
}

// loseConnections loses the connection at each n-th answer.
func loseConnections(t *testing.T, n int64) {
	cut := new(cutter)
	r := newRig(t, func(c *Config) {
		config := c.Pool.Config()
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return cutConn{conn, cut}, err
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool = pool
	})
	w := r.Worker(r.with())
	w.LeaseTime, w.Retry, w.MaxAttempts = 3*time.Second, time.Millisecond, 1000
	r.start(w)
	r.send(Prompt{Thread: "first", Text: "hello", Key: "k"})
	r.await("first", "k", StateDone)
	const threads, prompts = 3, 3
	cut.every.Store(n)
	for i := range threads * prompts {
		p := Prompt{Thread: fmt.Sprint("t", i%threads), Agent: "support", Text: fmt.Sprint("hello ", i), Key: fmt.Sprint(i / threads)}
		for try := 0; ; try++ {
			if _, err := r.Send(t.Context(), p); err == nil {
				break
			} else if try == 1000 { // the worker uses up the answers between two cuts, too
				t.Fatal(err)
			}
		}
	}
	for cut.cuts.Load() < 20 && r.count(`SELECT count(*) FROM {}fleet_prompts WHERE state <> 'done'`) != 0 {
		time.Sleep(5 * time.Millisecond)
	}
	cut.every.Store(0)
	r.awaitCount(`SELECT count(*) FROM {}fleet_prompts WHERE state = 'done'`, threads*prompts+1)
	for i := range threads {
		head, err := r.Store().Head(t.Context(), segno.ThreadID(fmt.Sprint("t", i)))
		if err != nil || head.Turn != prompts {
			t.Errorf("%d prompts became %d turns, %v", prompts, head.Turn, err)
		}
	}
	t.Logf("%d connections were lost", cut.cuts.Load())
}

// count returns the result of a query that counts, or -1 if the connection was lost.
func (r *rig) count(query string) (n int) {
	if err := r.pool.QueryRow(r.Context(), r.sql(query)).Scan(&n); err != nil {
		return -1
	}
	return n
}
